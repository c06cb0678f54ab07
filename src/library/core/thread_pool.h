// The thread pool of the kernels: parallel loops over independent tasks.
//
// Tasks are assigned dynamically, one at a time, for load balance. Results do not depend on which
// thread runs a task: tasks write disjoint memory, and callers that need a sum over tasks add
// partial results in the order of the tasks. So results are identical for any thread count.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace posenc {

// A borrowed callable: no allocation, so that a kernel can be noexcept.
class TaskRef {
 public:
  template <class F>
  TaskRef(const F& f) noexcept  // NOLINT: implicit, so that a lambda can be passed directly
      : object_(&f), call_([](const void* object, std::int64_t task, int worker) {
          (*static_cast<const F*>(object))(task, worker);
        }) {}
  void operator()(std::int64_t task, int worker) const { call_(object_, task, worker); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, int);
};

// Runs body(task, worker) for task = 0 .. tasks-1; worker is in [0, num_threads()). The calling
// thread works too. A loop started while another is running (from a second user thread, or from
// inside a task) runs on its own thread alone. The body must not throw. Tasks that have not started are
// skipped once a Cancellation's flag is set (core/cancellation.h).
void parallel_for(std::int64_t tasks, TaskRef body) noexcept;

// An external thread pool, such as that of the calling framework: two pools would compete for the same
// cores. It must call work(w, w) once for each w in [0, workers), concurrently or one after another.
// nullptr: the pool of this library.
using Executor = void (*)(int workers, TaskRef work);
void set_executor(Executor executor) noexcept;

}  // namespace posenc

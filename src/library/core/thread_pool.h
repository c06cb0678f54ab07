// The pool behind the kernels: parallel loops over independent tasks.
//
// Tasks are handed out one at a time, so that uneven ones balance. Which thread runs a task never
// changes what is computed: a task writes what is its own, and whoever needs a sum over tasks adds
// partial results in the order of the tasks. Results are therefore the same for any thread count.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace posenc {

// A borrowed callable: no allocation, so that a kernel can be noexcept.
class TaskRef {
 public:
  template <class F>
  TaskRef(const F& f) noexcept  // NOLINT: meant to be made from a lambda in passing
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
// inside a task) runs on its own thread alone. The body must not throw. Tasks that have not begun are left
// out once a Cancellation's flag is up (core/cancellation.h).
void parallel_for(std::int64_t tasks, TaskRef body) noexcept;

// Threads of somebody else, such as the framework that calls the kernels: two pools on the same cores
// would keep each other from working. It must call work(w, w) once for each w in [0, workers), at the same
// time or one after another. nullptr: the pool of this library.
using Executor = void (*)(int workers, TaskRef work);
void set_executor(Executor executor) noexcept;

}  // namespace posenc

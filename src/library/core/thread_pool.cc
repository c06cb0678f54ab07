#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cancellation.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

int default_threads() noexcept {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { serve(worker); });
    }
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  void run(std::int64_t tasks, TaskRef body) {
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      tasks_ = tasks;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++generation_;
    }
    wake_.notify_all();
    drain(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void drain(int worker) {
    const TaskRef body = *body_;
    for (std::int64_t task = next_++; task < tasks_; task = next_++) body(task, worker);
  }

  void serve(int worker) {
    std::uint64_t seen = 0;
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      lock.unlock();
      drain(worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  int threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const TaskRef* body_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  int busy_ = 0;
  std::uint64_t generation_ = 0;
  bool stopping_ = false;
};

struct Shared {
  std::mutex in_use;  // held while a loop runs, or while the pool is replaced
  std::unique_ptr<Pool> pool;
  std::atomic<int> wanted = default_threads();
  std::atomic<Executor> executor = nullptr;
};

Shared& shared() {
  static Shared instance;
  return instance;
}

// The pool in the wanted size, or none where threads cannot be had: then the caller works alone.
Pool* ready_pool(Shared& state) noexcept {
  const int wanted = state.wanted.load();
  if (wanted == 1) return nullptr;
  try {
    if (state.pool == nullptr || state.pool->threads() != wanted) {
      state.pool.reset();
      state.pool = std::make_unique<Pool>(wanted);
    }
  } catch (...) {
    return nullptr;
  }
  return state.pool.get();
}

void run_elsewhere(Executor executor, int workers, std::int64_t tasks, TaskRef body) {
  std::atomic<std::int64_t> next = 0;
  executor(workers, [&](std::int64_t /*task*/, int worker) {
    for (std::int64_t task = next++; task < tasks; task = next++) body(task, worker);
  });
}

void run_loop(std::int64_t tasks, TaskRef body) noexcept {
  Shared& state = shared();
  const Executor executor = state.executor.load();
  if (executor != nullptr && tasks > 1) {
    run_elsewhere(executor, state.wanted.load(), tasks, body);
    return;
  }
  const std::unique_lock lock(state.in_use, std::try_to_lock);
  Pool* pool = lock.owns_lock() && tasks > 1 ? ready_pool(state) : nullptr;
  if (pool != nullptr) {
    pool->run(tasks, body);
    return;
  }
  for (std::int64_t task = 0; task < tasks; ++task) body(task, 0);
}

}  // namespace

void set_executor(Executor executor) noexcept { shared().executor = executor; }

void set_num_threads(int threads) { shared().wanted = threads >= 1 ? threads : default_threads(); }
int num_threads() noexcept { return shared().wanted.load(); }

void parallel_for(std::int64_t tasks, TaskRef body) noexcept {
  const std::atomic<bool>* cancelled = cancellation_flag();
  if (cancelled == nullptr) return run_loop(tasks, body);
  run_loop(tasks, [&](std::int64_t task, int worker) {
    if (!cancelled->load(std::memory_order_relaxed)) body(task, worker);
  });
}

}  // namespace posenc

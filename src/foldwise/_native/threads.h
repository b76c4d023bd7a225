// A fixed split of the work, whoever runs it: which thread takes a task never changes a result.
#pragma once
#include <cstdint>
#include <type_traits>

namespace foldwise {

constexpr int most_threads = 1024;
int thread_count();
void set_thread_count(int count);
// Whether what the calling thread asks for is done by it alone, because others like it have the other cores. Gives what was
// said before.
bool work_alone(bool alone);
int available_cpus();

// Puts rounding, flushing and exception flags into the default state, and back at the end of the scope.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t saved_;
};

// A callable seen through a pointer, so that what calls it is compiled once. It must outlive the calls.
template <class Signature> class Calls;
template <class Result, class... Args>
class Calls<Result(Args...)> {
  void* callable_ = nullptr;
  Result (*call_)(void*, Args...) = nullptr;

 public:
  Calls() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Calls>)
  Calls(F&& f)
      : callable_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* callable, Args... args) -> Result {
          return static_cast<Result>((*static_cast<std::remove_reference_t<F>*>(callable))(args...));
        }) {}
  Result operator()(Args... args) const { return call_(callable_, args...); }
};

using Task = void (*)(void* context, std::int64_t index);

// Claimed in rising order; or each thread begins with a stretch of its own.
enum class Order { rising, any };

// Runs task(context, 0..count-1), each once, on this thread and the pool's.
void run_tasks(std::int64_t count, Task task, void* context, Order order);

template <class F>
void parallel(std::int64_t count, F&& body, Order order = Order::any) {
  using Body = std::remove_reference_t<F>;
  run_tasks(count, [](void* context, std::int64_t index) { (*static_cast<Body*>(context))(index); },
            const_cast<void*>(static_cast<const void*>(&body)), order);
}

// From how many bytes on work is shared with workers that are awake, or if it follows some like it at once; with such that share
// no cache with the caller; and from how many on it is worth waking them.
struct Worth {
  std::int64_t sharing, sharing_afar, waking;
};
constexpr Worth worth_of_reductions{512 << 10, 1 << 20, 3 << 20};

// How many threads so much work deserves now.
int threads_for(std::int64_t bytes, Worth worth = worth_of_reductions);

constexpr std::int64_t least_task_bytes = 64 << 10, task_bytes = 256 << 10;

// `units` pieces of work, in the order in which they lie in memory; the callable does pieces first..last - 1.
using Pieces = Calls<void(std::int64_t first, std::int64_t last)>;

// Has all of them done, at most about task_bytes at a time, on as many threads as that fills and it is worth.
void share(std::int64_t units, std::int64_t unit_bytes, Pieces pieces, Worth worth = worth_of_reductions);

}  // namespace foldwise

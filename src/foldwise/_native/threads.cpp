#include "threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace foldwise {

namespace {

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Tasks that are claimed in rising order.
struct alignas(64) Stretch {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

// One job at a time. The caller works too; whoever finds no task left leaves. A worker that has just worked spins for
// a moment before it sleeps, because waking it costs more than most jobs take.
struct Pool {
  std::mutex busy;  // held by the caller whose job runs
  std::mutex sleep;
  std::condition_variable wake;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> awake{0};
  std::atomic<int> inside{0};  // workers that may still read the job
  std::atomic<bool> open{false};
  std::unique_ptr<Stretch[]> stretches;
  int stretch_count = 0, most_stretches = 0;
  Task task = nullptr;
  void* context = nullptr;
  int invited = 0;  // workers 0..invited-1 take part
  struct Worker {
    pthread_t thread;
    int avoided;  // the processor that its last caller ran on
  };
  std::vector<Worker> workers;

  void lay_out(std::int64_t tasks, int into) {
    if (into > most_stretches) stretches = std::make_unique<Stretch[]>(static_cast<std::size_t>(most_stretches = into));
    stretch_count = into;
    for (int i = 0; i < into; ++i) {
      stretches[i].next.store(tasks * i / into, std::memory_order_relaxed);
      stretches[i].end = tasks * (i + 1) / into;
    }
  }

  // One's own stretch first, so that a thread meets again what it has in its cache; then what the others have left.
  void work(int who) {
    for (int i = 0; i < stretch_count; ++i) {
      Stretch& stretch = stretches[(who + i) % stretch_count];
      for (std::int64_t index; (index = stretch.next.fetch_add(1, std::memory_order_relaxed)) < stretch.end;) task(context, index);
    }
  }

  void serve(int number) {
    FloatEnvironment environment;
    std::uint64_t seen = 0;
    awake.fetch_add(1);
    for (;;) {
      constexpr int spins = 4000;
      int spin = 0;
      while (generation.load(std::memory_order_acquire) == seen) {
        if (++spin < spins) {
          pause_cpu();
          continue;
        }
        std::unique_lock lock(sleep);
        awake.fetch_sub(1);
        wake.wait(lock, [&] { return generation.load() != seen; });
        awake.fetch_add(1);
      }
      seen = generation.load(std::memory_order_acquire);
      inside.fetch_add(1);
      if (open.load() && number < invited) work(number + 1);
      inside.fetch_sub(1);
    }
  }

  // Woken where its caller runs, a worker would wait there until that is done: Linux leaves them so for milliseconds.
  void send_elsewhere() {
    const int here = sched_getcpu();
    for (Worker& worker : std::span(workers).first(static_cast<std::size_t>(invited))) {
      if (worker.avoided == here) continue;
      cpu_set_t others;
      if (sched_getaffinity(0, sizeof others, &others) != 0) return;
      CPU_CLR(static_cast<std::size_t>(here), &others);
      if (CPU_COUNT(&others) == 0) return;  // this is the only one
      if (pthread_setaffinity_np(worker.thread, sizeof others, &others) == 0) worker.avoided = here;
    }
  }

  void run(std::int64_t tasks, Task body, void* data, int threads, Order order) {
    lay_out(tasks, order == Order::rising ? 1 : threads);
    task = body;
    context = data;
    invited = threads - 1;
    while (std::ssize(workers) < invited) {
      std::thread worker([this, number = static_cast<int>(workers.size())] { serve(number); });
      workers.push_back({worker.native_handle(), -1});
      worker.detach();
    }
    open.store(true);
    generation.fetch_add(1);
    if (awake.load() < std::ssize(workers)) {
      send_elsewhere();
      { std::lock_guard lock(sleep); }
      wake.notify_all();
    }
    work(0);
    // Closed first: a worker that arrives late sees it and keeps out; one that is inside is waited for.
    open.store(false);
    while (inside.load() != 0) pause_cpu();
  }
};

// Work that could have been shared, had a worker been awake: of what comes by itself, waking one would take as long as the
// work; of what follows at once, time and again, it is the smaller part.
struct Streak {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds at_once{50};
  static constexpr int enough = 3;
  std::atomic<Clock::time_point> ended{};
  std::atomic<int> length{0};

  bool follows(Clock::time_point now) const { return now - ended.load(std::memory_order_relaxed) < at_once; }
  bool goes_on() const { return length.load(std::memory_order_relaxed) >= enough && follows(Clock::now()); }

  template <class Work>
  void take(Work&& work) {
    const bool another = follows(Clock::now());
    work();
    length.store(another ? length.load(std::memory_order_relaxed) + 1 : 0, std::memory_order_relaxed);
    ended.store(Clock::now(), std::memory_order_relaxed);
  }
};

// Never destroyed: its threads sleep until the process ends. A forked child has none of them and starts anew.
Pool* pool = new Pool;
Streak streak;
std::atomic<int> configured{0};
thread_local bool alone_here = false;

void start_anew_in_child() {
  pool = new Pool;
}

const int registered = pthread_atfork(nullptr, nullptr, start_anew_in_child);

}  // namespace

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const unsigned count = std::thread::hardware_concurrency();
  return count ? static_cast<int>(count) : 1;
}

bool work_alone(bool alone) { return std::exchange(alone_here, alone); }

int thread_count() {
  if (alone_here) return 1;
  const int count = configured.load(std::memory_order_relaxed);
  if (count) return count;
  const int cpus = available_cpus();
  configured.store(cpus, std::memory_order_relaxed);
  return cpus;
}

void set_thread_count(int count) { configured.store(count, std::memory_order_relaxed); }

int threads_for(std::int64_t bytes, Worth worth) {
  const int threads = thread_count();
  if (threads == 1 || bytes < worth.sharing) return 1;
  return bytes >= worth.waking || pool->awake.load() > 0 || streak.goes_on() ? threads : 1;
}

void run_tasks(std::int64_t count, Task task, void* context, Order order) {
  const int threads = count < thread_count() ? static_cast<int>(count) : thread_count();
  // A second caller, or a task that calls in turn, does its own work rather than wait.
  if (threads > 1) {
    std::unique_lock lock(pool->busy, std::try_to_lock);
    if (lock.owns_lock()) return pool->run(count, task, context, threads, order);
  }
  for (std::int64_t index = 0; index < count; ++index) task(context, index);
}

void share(std::int64_t units, std::int64_t unit_bytes, Pieces pieces, Worth worth) {
  if (units * unit_bytes < worth.sharing || thread_count() == 1) return pieces(0, units);
  if (units <= 1 || threads_for(units * unit_bytes, worth) == 1) return streak.take([&] { pieces(0, units); });
  const auto filling = [&](std::int64_t bytes) { return std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(unit_bytes, 1)); };
  const std::int64_t group = std::clamp(units / (2 * thread_count()), filling(least_task_bytes), filling(task_bytes));
  parallel((units + group - 1) / group,
           [&](std::int64_t task) { pieces(task * group, std::min(units, (task + 1) * group)); });
}

#if defined(__x86_64__)
namespace {
constexpr unsigned default_control = 0x1f80;  // round to nearest, no flushing, all exceptions masked, no flags
}
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(default_control); }
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }
#elif defined(__aarch64__)
// The low half keeps FPCR (modes), the high half FPSR (flags).
FloatEnvironment::FloatEnvironment() {
  std::uint64_t modes, flags;
  asm volatile("mrs %0, fpcr" : "=r"(modes));
  asm volatile("mrs %0, fpsr" : "=r"(flags));
  saved_ = (modes & 0xffffffffu) | (flags << 32);
  asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}));
  asm volatile("msr fpsr, %0" ::"r"(std::uint64_t{0}));
}
FloatEnvironment::~FloatEnvironment() {
  asm volatile("msr fpcr, %0" ::"r"(saved_ & 0xffffffffu));
  asm volatile("msr fpsr, %0" ::"r"(saved_ >> 32));
}
#else
#error "foldwise knows x86-64 and aarch64"
#endif

}  // namespace foldwise

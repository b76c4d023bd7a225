#include "threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
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

// A job by its number, and the next of its tasks that nobody has taken, in one word.
struct Claims {
  static constexpr int bits = 24;
  static constexpr std::uint64_t none = (std::uint64_t{1} << bits) - 1;  // while the tasks are being laid out
  static constexpr std::uint64_t jobs = (std::uint64_t{1} << (64 - bits)) - 1;  // then they are counted from 1 again
  std::uint64_t word;

  std::uint64_t job() const { return word >> bits; }
  std::int64_t next() const { return static_cast<std::int64_t>(word & none); }
  bool laid_out() const { return (word & none) != none; }
  static std::uint64_t of(std::uint64_t job, std::uint64_t next) { return job << bits | next; }
};

// What one thread is to do, all of it on lines of its own, so that a worker learns it by one look at another processor's
// memory. Whoever takes a task compares the job's number with the one that it began: one that comes late takes nothing.
struct alignas(128) Seat {
  std::atomic<std::uint64_t> claims{0};
  std::atomic<std::int64_t> end{0};
  std::atomic<Task> task{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<int> threads{0};
  std::atomic<std::int64_t> finished{0};  // tasks of all jobs so far, by who sits here

  Claims seen() const { return {claims.load(std::memory_order_acquire)}; }

  // What is in the seat may be read for the job before: its claims are closed first, so nothing is taken on that ground.
  void lay_out(std::uint64_t job, std::int64_t first, std::int64_t last, Task body, void* data, int how_many) {
    end.store(last, std::memory_order_release);
    task.store(body, std::memory_order_release);
    context.store(data, std::memory_order_release);
    threads.store(how_many, std::memory_order_release);
    claims.store(Claims::of(job, static_cast<std::uint64_t>(first)), std::memory_order_release);
  }

  // The next task, or -1.
  std::int64_t take(std::uint64_t job) {
    for (Claims now = seen(); now.job() == job && now.laid_out() && now.next() < end.load(std::memory_order_acquire);) {
      if (claims.compare_exchange_weak(now.word, now.word + 1, std::memory_order_acq_rel, std::memory_order_acquire)) return now.next();
    }
    return -1;
  }
};

// Whether a line of memory comes from a worker as from a core next door, that shares a cache with the caller's, or as from
// afar: then a job costs two microseconds more, and small ones are done sooner alone. Virtual machines do not tell, and move.
class Distance {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds next_door{120};
  static constexpr int jobs = 16;
  static constexpr unsigned calls = 2048, trials = 8;
  int until_look_ = 0;
  int evidence_ = 0;
  std::atomic<bool> far_{false};
  std::atomic<unsigned> asked_{0};

 public:
  bool is_due() { return --until_look_ <= 0; }

  // How long it takes to get a line from a worker. From next door it is never long, but for an interruption; from afar it is
  // short, too, where the worker came too late to touch the line.
  template <class Fetch>
  void look(Fetch&& fetch) {
    until_look_ = jobs;
    const auto start = Clock::now();
    fetch();
    const std::chrono::nanoseconds took = Clock::now() - start;
    evidence_ = std::clamp(evidence_ + (took > next_door ? 8 : -1), 0, 24);
    far_.store(evidence_ > 8, std::memory_order_relaxed);
  }

  // What is far is tried once in a while, or it would stay so.
  bool far() {
    return far_.load(std::memory_order_relaxed) && asked_.fetch_add(1, std::memory_order_relaxed) % calls >= trials;
  }
};

// One job at a time. The caller works too; whoever finds no task left leaves. A worker that has just worked spins for
// a moment before it sleeps, because waking it costs more than most jobs take.
struct Pool {
  std::mutex busy;  // held by the caller whose job runs
  std::uint64_t job = 0;
  std::int64_t given_out = 0;  // tasks of all jobs so far
  struct Worker {
    pthread_t thread;
    int avoided;  // the processor that its last caller ran on
  };
  std::vector<Worker> workers;
  int invited = 0;  // of them
  Distance distance;
  alignas(128) std::atomic<int> awake{0};
  std::mutex sleep;
  std::condition_variable wake;
  Seat seats[most_threads];  // the caller's, and one for each worker

  // One's own tasks first, so that a thread meets again what it has in its cache; then what the others have left.
  void work(int who, std::uint64_t job, std::int64_t task = -1) {
    Seat& own = seats[who];
    const Task body = own.task.load(std::memory_order_acquire);
    void* const context = own.context.load(std::memory_order_acquire);
    const int threads = own.threads.load(std::memory_order_acquire);
    for (int i = 0; i < threads; ++i) {
      Seat& seat = seats[(who + i) % threads];
      for (; task >= 0 || (task = seat.take(job)) >= 0; task = -1) {
        body(context, task);
        own.finished.store(own.finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      }
    }
  }

  // What a task refers to lies in its callers' frames, above it: all of it at once, where one would lead to the next.
  static void ask_for_frames(const void* context) {
    for (int line = 0; line < 8; ++line) __builtin_prefetch(static_cast<const char*>(context) + 64 * line);
  }

  void serve(int who) {
    FloatEnvironment environment;
    std::uint64_t done = 0;
    const auto job = [&] {  // 0 while there is none but what is done
      const Claims now = seats[who].seen();
      return now.laid_out() && now.job() != done ? now.job() : 0;
    };
    awake.fetch_add(1);
    for (;;) {
      constexpr int spins = 4000;
      std::uint64_t next = 0;
      for (int spin = 0; !(next = job()) && spin < spins; ++spin) pause_cpu();
      if (!next) {
        std::unique_lock lock(sleep);
        awake.fetch_sub(1);
        wake.wait(lock, [&] { return (next = job()) != 0; });
        awake.fetch_add(1);
      }
      ask_for_frames(seats[who].context.load(std::memory_order_acquire));
      work(who, done = next);
    }
  }

  // One more worker, if the system has a thread left for it; else those that are there do its share.
  bool engage() {
    try {
      workers.reserve(most_threads);
      std::thread worker([this, who = static_cast<int>(workers.size()) + 1] { serve(who); });
      workers.push_back({worker.native_handle(), -1});
      worker.detach();
      return true;
    } catch (const std::exception&) {
      return false;
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

  // The caller has its first task at once. A worker that falls asleep just now may miss the others: the caller does them.
  void run(std::int64_t tasks, Task body, void* data, int threads, Order order) {
    while (std::ssize(workers) < threads - 1 && engage()) {}
    threads = std::min(threads, static_cast<int>(workers.size()) + 1);
    invited = threads - 1;
    job = job % Claims::jobs + 1;
    given_out += tasks;
    const std::uint64_t closed = Claims::of(job, Claims::none);
    if (awake.load() == std::ssize(workers) && distance.is_due()) distance.look([&] { seats[invited].claims.exchange(closed); });
    for (Seat& seat : std::span(seats).first(static_cast<std::size_t>(threads))) seat.claims.store(closed, std::memory_order_relaxed);
    for (int who = threads - 1; who >= 0; --who) {
      const std::int64_t first = order == Order::rising ? (who ? tasks : 0) : tasks * who / threads;
      const std::int64_t last = order == Order::rising ? tasks : tasks * (who + 1) / threads;
      seats[who].lay_out(job, who ? first : 1, last, body, data, threads);
    }
    if (awake.load() < std::ssize(workers)) {
      send_elsewhere();
      { std::lock_guard lock(sleep); }
      wake.notify_all();
    }
    work(0, job, 0);
    while (finished() != given_out) pause_cpu();
  }

  std::int64_t finished() const {
    std::int64_t all = 0;
    for (const Seat& seat : std::span(seats).first(workers.size() + 1)) all += seat.finished.load(std::memory_order_acquire);
    return all;
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
  const int cpus = std::min(available_cpus(), most_threads);
  configured.store(cpus, std::memory_order_relaxed);
  return cpus;
}

void set_thread_count(int count) { configured.store(count, std::memory_order_relaxed); }

int threads_for(std::int64_t bytes, Worth worth) {
  const int threads = thread_count();
  if (threads == 1 || bytes < worth.sharing) return 1;
  if (bytes < worth.sharing_afar && pool->distance.far()) return 1;
  return bytes >= worth.waking || pool->awake.load() > 0 || streak.goes_on() ? threads : 1;
}

void run_tasks(std::int64_t count, Task task, void* context, Order order) {
  const int threads = count < thread_count() ? static_cast<int>(count) : thread_count();
  // A second caller, or a task that calls in turn, does its own work rather than wait.
  if (threads > 1 && count < static_cast<std::int64_t>(Claims::none)) {
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

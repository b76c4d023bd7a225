// Several reductions of one array in one pass over memory: each says how it would share out its work, and then, step by
// step, every one of them does its part of what lies in cache.
#pragma once
#include <vector>

#include "plan.h"
#include "threads.h"

namespace foldwise {

// One of them: the kernel, what it is asked, and its answer.
struct Member {
  bool (*kernel)(const ReducePlan&);
  ReducePlan plan;
  bool fits;
};

class Turns;

// Does one task: begins it, hands its steps to turns.take(), and ends it when all have been done.
using Stepwise = Calls<void(int64_t task, Turns& turns)>;
// Ends a task with what was made of it, which is its own to change.
using FinishTask = Calls<void(int64_t task, char* made)>;

// Every driver comes as far as its work; then it calls the next one, and the last has the work of all done. So each
// waits inside its own call, where what its work refers to is alive.
class Company {
 public:
  // Of the source: read by one of them, still in cache for the others. A step has whole lanes, 256 bytes at most, of as
  // many as 32 interleaved sequences. Pieces have no state to keep, but a beginning.
  static constexpr int64_t step_bytes = 16 << 10, piece_bytes = 32 << 10;

  Company(std::vector<Member>& members, int64_t bytes) : members_(members), bytes_(bytes) {}

  // Has all of them done.
  void run() { next(); }

  // Whether the next one to join is the one that finds memory uncached.
  bool leads() const { return parts_.empty(); }

  // Pieces may be done a few at a time, wherever.
  void join(int64_t units, Pieces pieces);
  // A task is so many steps, in their order and on one thread. What it leaves is handed to `finish`, and to that of others
  // with the same kernel, which need not do it again to end it in another way.
  void join(int64_t tasks, int64_t steps, Stepwise stepwise, FinishTask finish);

 private:
  friend class Turns;
  struct Part {
    int64_t units, steps;
    Pieces pieces;
    Stepwise stepwise;
    FinishTask finish;
    std::size_t maker;  // which of them does the steps: the first with that kernel

    int64_t place(int64_t step, int64_t steps) const;
  };

  void join(const Part& part);
  void next();
  void work() const;
  void by_steps(const std::vector<const Part*>& parts) const;
  void by_pieces(const std::vector<const Part*>& parts) const;

  std::vector<Member>& members_;
  const int64_t bytes_;
  std::vector<Part> parts_;
};

// One task on one thread, gone through by all of them together: begun by each inside the one before it.
class Turns {
 public:
  Turns(const Company& company, const std::vector<const Company::Part*>& parts, int64_t task)
      : company_(company), parts_(parts), task_(task) {
    steps_.reserve(parts.size());
    next();
  }

  int place() const { return static_cast<int>(steps_.size()); }
  int count() const { return static_cast<int>(parts_.size()); }
  void take(Calls<void(int64_t step)> step);
  // What the one at that place made.
  void leave(int place, char* made, int64_t bytes) const;

 private:
  void next() { parts_[steps_.size()]->stepwise(task_, *this); }

  const Company& company_;
  const std::vector<const Company::Part*>& parts_;
  const int64_t task_;
  std::vector<Calls<void(int64_t step)>> steps_;
};

}  // namespace foldwise

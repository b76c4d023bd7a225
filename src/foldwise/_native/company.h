// Several reductions of one array in one pass over memory: each says how it would share out its work, and then, step by
// step, every one of them does its part of what lies in cache.
#pragma once
#include <span>
#include <vector>

#include "plan.h"
#include "threads.h"

namespace foldwise {

// Each waits inside the one before it, so there is an end to how many go together.
constexpr int most_together = 16;

// One of them: the kernel, what it is asked, and its answer.
struct Member {
  bool (*kernel)(const ReducePlan&);
  Part part;
  Dtype reduced;  // what the kernel accumulates in
  ReducePlan plan;
  bool fits = true, done = false;
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
  // many as 32 interleaved sequences; where a loop takes all, it need not stay in cache. Pieces have no state to keep, but a
  // beginning.
  static constexpr int64_t step_bytes = 16 << 10, joint_step_bytes = 64 << 10, piece_bytes = 32 << 10;

  Company(const std::vector<Member*>& members, int64_t bytes) : members_(members), bytes_(bytes) {}

  // Has all of them done.
  void run() { next(); }

  // How many parts of a joint loop are asked for.
  int parts() const;

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

  const std::vector<Member*>& members_;
  const int64_t bytes_;
  std::vector<Part> parts_;
};

// One of them, as the others see it who may share a loop with it (joint.h).
struct Partner {};

// One task on one thread, gone through by all of them together: begun by each inside the one before it.
class Turns {
 public:
  Turns(const Company& company, const std::vector<const Company::Part*>& parts, int64_t task)
      : company_(company), parts_(parts), task_(task) {
    next();
  }

  int place() const { return place_; }
  int count() const { return static_cast<int>(parts_.size()); }
  // `partner` lives as long as the call, or is null.
  void take(Calls<void(int64_t step)> step, Partner* partner = nullptr);
  // Of all who take turns, complete when the first step is taken.
  std::span<Partner* const> partners() const { return {partners_, static_cast<std::size_t>(place_)}; }
  // What the one at that place made.
  void leave(int place, char* made, int64_t bytes) const;

 private:
  void next() { parts_[place_]->stepwise(task_, *this); }

  const Company& company_;
  const std::vector<const Company::Part*>& parts_;
  const int64_t task_;
  int place_ = 0;
  Calls<void(int64_t step)> steps_[most_together];
  Partner* partners_[most_together];
};

}  // namespace foldwise

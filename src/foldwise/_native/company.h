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

// Every driver comes as far as its pieces; then it calls the next one, and the last does the work of all. So each waits
// inside its own call, where what its pieces refer to is alive.
class Company {
 public:
  static constexpr int64_t step_bytes = 32 << 10;  // of the source: read by one of them, still there for the others

  Company(std::vector<Member>& members, int64_t bytes) : members_(members), bytes_(bytes) { next(); }

  void join(int64_t units, Pieces run);

 private:
  struct Part {
    int64_t units;
    Pieces run;
  };

  void next();
  void work() const;

  std::vector<Member>& members_;
  const int64_t bytes_;
  std::vector<Part> parts_;
};

}  // namespace foldwise

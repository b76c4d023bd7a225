// Sums of integers that are shorter than what they are added in, as they lie.
#pragma once
#include "blocks.h"
#include "units.h"

namespace foldwise::FOLDWISE_ISA {

// What is done with lines and rows, whatever words they are of: totals get what they come to, counted from the least of their dtype.
struct ShortLoops {
  int64_t size;
  uint64_t least;
  bool truths;
  void (*add_lines)(const ShortLoops& loops, const char* p, int64_t stride, int64_t lines, int64_t count, int64_t ahead, uint64_t* totals);
  void (*add_rows)(const ShortLoops& loops, const char* const* rows, int64_t count, int64_t columns, char* lanes, uint64_t* totals);
};

// Totals of what a plan folds, some of it.
class ShortTotals {
  const ReducePlan& plan_;
  const ShortLoops loops_;

 public:
  // Integers of one and two bytes, uint32, and truths, where they lie in lines or rows.
  static bool suit(const ReducePlan& plan);
  explicit ShortTotals(const ReducePlan& plan);

  // Of so many lines, whose beginnings lie `apart`: of each, elements first..last - 1.
  void of_lines(const char* x, int64_t lines, int64_t apart, int64_t first, int64_t last, bool from_memory, uint64_t* totals) const;
  // Of neighbouring columns, rows first..last - 1.
  void of_rows(const char* x, int64_t columns, int64_t first, int64_t last, uint64_t* totals) const;
};

// Takes the totals of so many neighbouring outputs, and as many more as fill a vector of them; results go to `out` and so far apart.
// Whether all of them fit.
using FinishTotals = Calls<bool(const int64_t* totals, int64_t count, char* out, int64_t stride)>;

// All sums of a plan that suits.
bool add_short(const ReducePlan& plan, FinishTotals finish);

}  // namespace foldwise::FOLDWISE_ISA

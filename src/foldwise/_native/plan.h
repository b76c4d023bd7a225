// From shapes, strides and axes to a plan: axes in memory order, neighbours collapsed, a way to walk chosen.
#pragma once
#include "types.h"

namespace foldwise {

// The work as NumPy describes it. `out` has the rank of x, with stride 0 along folded axes.
struct Geometry {
  int rank;
  const int64_t* shape;
  const int64_t* x;
  const int64_t* mask;  // or of what a scan carries; null without such
  const int64_t* out;
};

// Bit a of `folded` says that axis a is folded. Source, sink and finish are filled in by the caller, before.
void lay_out(ReducePlan& plan, const Geometry& geometry, uint64_t folded);

// Copies the results, once they are there, along the axes that the plan says.
void repeat_results(const ReducePlan& plan);

// out_length: positions of the output along the axis, one more than the input's when the identity is included.
void lay_out(ScanPlan& plan, const Geometry& geometry, int axis, int64_t out_length, bool reverse);

// Strides of a new array of this shape, its axes in memory in the order of another array's.
void lay_out_like(int rank, const int64_t* shape, const int64_t* like, int64_t item, int64_t* strides);

// The addresses between which an array's elements lie.
struct Extent {
  const char *low, *high;
  Extent(const char* data, int64_t item, int rank, const int64_t* shape, const int64_t* strides);
  bool meets(const Extent& other) const { return low < other.high && other.low < high; }
};

}  // namespace foldwise

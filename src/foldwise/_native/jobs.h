// What is asked of a kernel, in terms of arrays: plans are made and run here, outside the interpreter's lock.
#pragma once
#include <vector>

#include "declared.h"

namespace foldwise {

// The kernels of the ISA in use.
inline KernelTable table;

// A fold through the table: its row, its column, the dtype that is read and the one that is written.
struct Job {
  FoldId fold;
  Column column;
  Dtype in, out;

  const Kernel& kernel() const { return table.kernels[static_cast<int>(fold)][static_cast<int>(column)]; }
};

inline Job job_of(const Route& route, int code) {
  return {static_cast<FoldId>(route.fold), static_cast<Column>(route.column), static_cast<Dtype>(code),
          static_cast<Dtype>(route.out)};
}

// Where results go: a place for every position of the array that is read, the same one along folded axes.
struct Output {
  char* data;
  const int64_t* strides;
};

// One of the folds that are asked of an array, and whether all its results fitted.
struct Reduced {
  Job job;
  Output out;
  Finish finish;
  bool fits = true;
};

// Folds x over the axes in `folded`, in one pass over memory.
void reduce_array(PyArrayObject* x, PyArrayObject* mask, uint64_t folded, Reduced* asked, int count);

// Walks x along an axis, or along all of them in C order (-1), to `length` positions of the output.
bool scan_array(const Job& job, PyArrayObject* x, int axis, Output out, int64_t length, bool reverse, bool shifted,
                const Finish& finish);

}  // namespace foldwise

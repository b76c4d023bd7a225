// What is asked of a kernel, in terms of arrays: plans are made and run here, outside the interpreter's lock.
#pragma once
#include <vector>

#include "declared.h"
#include "threads.h"

namespace foldwise {

// The kernels of the ISA in use.
inline KernelTable table;

// A fold through the table: its row, its column, the dtype that is read and the one that is written.
struct Job {
  FoldId fold;
  Column column;
  Dtype in, out;
  Kept kept = Kept::result;

  const Kernel& kernel() const { return table.kernels[static_cast<int>(fold)][static_cast<int>(column)]; }
  const Kernel::Scan& scan() const {
    const Kernel& each = kernel();
    return each.wrapping.run && item_size(out) <= item_size(each.wrapping.value) ? each.wrapping : each.scan;
  }
};

inline Job job_of(const Route& route, int code) {
  return {static_cast<FoldId>(route.fold), static_cast<Column>(route.column), static_cast<Dtype>(code),
          static_cast<Dtype>(route.out)};
}

// An array as it lies in memory, whoever made it.
struct View {
  const char* data;
  bool swapped;
  int rank;
  const int64_t* shape;
  const int64_t* strides;
};

inline View view_of(PyArrayObject* array) {
  return {PyArray_BYTES(array), !PyArray_ISNOTSWAPPED(array), PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array)};
}

// What is left of an array's shape when some axes are folded, and where each of its positions goes in an array of that
// shape.
struct Left {
  uint64_t folded;
  bool keepdims;
  int rank = 0;
  bool empty = false;  // there is no element to fold
  int64_t shape[max_rank], strides[max_rank];

  Left(const View& x, uint64_t axes, bool keep) : folded(axes), keepdims(keep) {
    for (int a = 0; a < x.rank; ++a) {
      empty |= x.shape[a] == 0;
      if (!(folded >> a & 1)) shape[rank++] = x.shape[a];
      else if (keepdims) shape[rank++] = 1;
    }
  }

  // The strides of an array of what is left become those along the axes of x.
  void spread(int whole, const int64_t* steps) {
    for (int a = 0, o = 0; a < whole; ++a) {
      const bool fold_axis = folded >> a & 1;
      strides[a] = fold_axis ? 0 : steps[o];
      o += !fold_axis || keepdims;
    }
  }
};

// Where results go: a place for every position of the array that is read, the same one along folded axes.
struct Output {
  char* data;
  const int64_t* strides;
};

// Does work on so many bytes, in a FloatEnvironment, and outside the interpreter's lock if it may take long.
template <class Work>
void run(int64_t bytes, Work&& work) {
  if (bytes < 16 << 10) {
    FloatEnvironment environment;
    return work();
  }
  Py_BEGIN_ALLOW_THREADS
  {
    FloatEnvironment environment;
    work();
  }
  Py_END_ALLOW_THREADS
}

// One of the folds that are asked of an array, and whether all its results fitted.
struct Reduced {
  Job job;
  Output out;
  Finish finish;
  bool fits = true;
};

// What is asked, laid out for the kernel, which runs it in a FloatEnvironment.
void make_plan(ReducePlan& plan, const Reduced& asked, const View& x, const View* mask, uint64_t folded);

// Has the kernel do it; false if an integer overflowed that was not to wrap.
bool reduce_as_planned(const Job& job, const ReducePlan& plan);

// The same for a walk along an axis, or along all of them in C order (-1), to `length` positions of the output. What is
// carried lies as x does, and has no step along what is walked.
void make_plan(ScanPlan& plan, const Job& job, const View& x, int axis, Output out, int64_t length, bool reverse,
               bool shifted, const Finish& finish, Output carried = {});

// Folds x over the axes in `folded`, in one pass over memory. A mask has the shape of x.
void reduce_array(const View& x, int64_t bytes, const View* mask, uint64_t folded, Reduced* asked, int count);

inline int64_t bytes_of(PyArrayObject* x) { return PyArray_SIZE(x) * PyArray_ITEMSIZE(x); }

// Walks x, as a plan for a scan says.
bool scan_array(const Job& job, PyArrayObject* x, int axis, Output out, int64_t length, bool reverse, bool shifted,
                const Finish& finish, Output carried = {});

}  // namespace foldwise

// What Python declares, given once by configure(): dtypes and public functions. And arrays of those dtypes.
#pragma once
#include <Python.h>
#include <numpy/arrayobject.h>

#include <atomic>

#include "memory.h"
#include "plan.h"

namespace foldwise {

// The way of a fold from a dtype into another: what folds it, what reads it, what comes out, from what it starts, what integers
// are judged by, and what happens at the end.
#define FOLDWISE_FINISH "(dKLKi)"
#define FOLDWISE_ROUTE "(iii" FOLDWISE_FINISH ")"
struct Route {
  int fold, column;
  int out;  // dtype code
  double number;
  unsigned long long integer;
  long long lowest;
  unsigned long long highest;
  int ending;

  Finish finish() const { return {number, integer, lowest, highest, static_cast<Ending>(ending)}; }
};

// How a function folds: as it does by default, exactly, or with integers judged.
enum Manner { plainly, exactly, saturating, raising, manner_count };

// A public function: its routes from each dtype into each, or into what it gives when nobody says (the last), in each manner.
// What has not been asked for yet is null. No fold (-1): that way is not for the core alone.
struct Entrance {
  static constexpr int unsaid = dtype_count;
  std::atomic<const Route*> routes[manner_count][dtype_count][dtype_count + 1];
};

constexpr int most_entrances = 64;

struct Declared {
  int numbers[dtype_count];  // NumPy's type number of each dtype
  int entrance_count;
  Entrance entrances[most_entrances];
  PyObject* route;  // asked for routes
  PyObject* general_reduce;
  PyObject* general_scan;
  PyObject* general_place;
  PyObject* general_many;
  PyObject *wrap, *saturate, *raise;  // the strings that these are, interned
  PyObject *by_default, *exact;       // "default", "exact"
};

inline Declared declared;

inline int code_of(int number) {
  for (int code = 0; code < dtype_count; ++code) {
    if (declared.numbers[code] == number) return code;
  }
  return -1;
}

// The code of a plain array's dtype, in whatever byte order, or -1.
inline int plain_code(PyObject* x) {
  return PyArray_CheckExact(x) ? code_of(PyArray_TYPE(reinterpret_cast<PyArrayObject*>(x))) : -1;
}

inline Extent extent_of(PyArrayObject* array) {
  return {PyArray_BYTES(array), PyArray_ITEMSIZE(array), PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array)};
}

// Whether `out` can be written as it is: the right dtype and shape, and nowhere near x.
inline bool plain_out(PyObject* out, PyArrayObject* x, int code, int rank, const npy_intp* shape) {
  if (plain_code(out) != code) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(out);
  return PyArray_ISNOTSWAPPED(array) && PyArray_NDIM(array) == rank && PyArray_CompareLists(PyArray_DIMS(array), shape, rank) &&
         PyArray_ISWRITEABLE(array) && !extent_of(array).meets(extent_of(x));
}

// A new array. Where `like` has its rank, their axes lie in memory in one order, so that both are walked alike.
inline PyArrayObject* new_array(int rank, const npy_intp* shape, int code, PyArrayObject* like) {
  PyArray_Descr* descr = PyArray_DescrFromType(declared.numbers[code]);
  if (!descr) return nullptr;
  npy_intp strides[max_rank];
  const bool reordered = like && !PyArray_IS_C_CONTIGUOUS(like) && PyArray_NDIM(like) == rank;
  if (reordered) lay_out_like(rank, shape, PyArray_STRIDES(like), item_size(static_cast<Dtype>(code)), strides);
  LargeResults scope(PyArray_MultiplyList(shape, rank) * item_size(static_cast<Dtype>(code)));
  return reinterpret_cast<PyArrayObject*>(PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape,
                                                               reordered ? strides : nullptr, nullptr, 0, nullptr));
}

}  // namespace foldwise

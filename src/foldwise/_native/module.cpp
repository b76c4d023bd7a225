// The Python face: argument parsing, array creation, nothing else. What is plain and frequent is answered here at
// once; everything else goes to the general functions of engine.py, which come back through run_reduce and run_scan.
#define PY_SSIZE_T_CLEAN
#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstring>

#include "declared.h"
#include "direct.h"
#include "isas.h"
#include "memory.h"
#include "plan.h"
#include "probe.h"
#include "threads.h"

namespace foldwise {

namespace {

// ---- the ISA in use

const Isa* current = nullptr;
KernelTable table;

// ---- running a plan

constexpr int64_t bytes_without_the_lock = 16 << 10;

template <class Plan>
bool run(bool (*kernel)(const Plan&), const Plan& plan, int64_t bytes) {
  bool fits;
  if (bytes < bytes_without_the_lock) {
    FloatEnvironment environment;
    return kernel(plan);
  }
  Py_BEGIN_ALLOW_THREADS
  {
    FloatEnvironment environment;
    fits = kernel(plan);
  }
  Py_END_ALLOW_THREADS
  return fits;
}

Source source_of(PyArrayObject* x, Dtype dtype, Dtype column_dtype, PyArrayObject* mask) {
  Source source;
  source.dtype = dtype;
  source.swapped = !PyArray_ISNOTSWAPPED(x);
  source.direct = dtype == column_dtype && !source.swapped && !mask;
  source.x = PyArray_BYTES(x);
  source.mask = mask ? PyArray_BYTES(mask) : nullptr;
  return source;
}

constexpr Dtype column_dtypes[] = {Dtype::float16, Dtype::bfloat16, Dtype::float32, Dtype::float64,
                                   Dtype::int32, Dtype::int64, Dtype::uint64};

// Where one kernel serves integers of either sign, it reads the one as the other.
Dtype seen_by(Column column, Dtype dtype) {
  if (column == Column::int64 && dtype == Dtype::uint64) return Dtype::int64;
  return dtype;
}

bool same_bits(Dtype a, Dtype b) {
  return a == b || (!is_float(a) && !is_float(b) && a != Dtype::boolean && b != Dtype::boolean && item_size(a) == item_size(b));
}

struct Job {
  FoldId fold;
  Column column;
  Dtype in, out;

  const Kernel& kernel() const { return table.kernels[static_cast<int>(fold)][static_cast<int>(column)]; }
  // A mean of integers that is a float64 leaves the kernel as its bits.
  Dtype written(Ending ending) const { return ending == Ending::ratio ? Dtype::int64 : out; }
};

Job job_of(const Route& route, int code) {
  return {static_cast<FoldId>(route.fold), static_cast<Column>(route.column), static_cast<Dtype>(code),
          static_cast<Dtype>(route.out)};
}

int64_t work_bytes(PyArrayObject* x) { return PyArray_SIZE(x) * PyArray_ITEMSIZE(x); }

// Reduces x over the axes in `folded`; `out` has strides for every axis of x in `out_strides`, 0 where folded.
bool reduce_array(const Job& job, PyArrayObject* x, PyArrayObject* mask, uint64_t folded, PyArrayObject* out,
                  const int64_t* out_strides, const Finish& finish) {
  ReducePlan plan;
  const Dtype column_dtype = column_dtypes[static_cast<int>(job.column)];
  const Dtype written = job.written(finish.ending);
  plan.source = source_of(x, seen_by(job.column, job.in), column_dtype, mask);
  plan.sink = {written, same_bits(written, job.kernel().reduced), PyArray_BYTES(out)};
  plan.finish = finish;
  const Geometry geometry{PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x),
                          mask ? PyArray_STRIDES(mask) : nullptr, out_strides};
  lay_out(plan, geometry, folded, item_size(column_dtype));
  plan.finish.count = plan.count;
  return run(job.kernel().reduce, plan, work_bytes(x));
}

bool scan_array(const Job& job, PyArrayObject* x, int axis, PyArrayObject* out, bool reverse, bool shifted,
                const Finish& finish) {
  ScanPlan plan;
  plan.source = source_of(x, seen_by(job.column, job.in), column_dtypes[static_cast<int>(job.column)], nullptr);
  plan.sink = {job.out, same_bits(job.out, job.kernel().scanned), PyArray_BYTES(out)};
  plan.finish = finish;
  plan.shifted = shifted;
  const Geometry geometry{PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), nullptr, PyArray_STRIDES(out)};
  lay_out(plan, geometry, axis, PyArray_DIM(out, axis < 0 ? 0 : axis), reverse);
  return run(job.kernel().scan, plan, work_bytes(x));
}

// ---- the fast path

// A plain axis argument as a set of bits; false when the general path must look at it.
bool plain_axes(PyObject* axis, int rank, uint64_t* folded) {
  const auto add = [&](PyObject* item) {
    if (!PyLong_CheckExact(item)) return false;
    int overflow;
    long a = PyLong_AsLongAndOverflow(item, &overflow);
    if (a < 0) a += rank;
    if (overflow || a < 0 || a >= rank || (*folded >> a & 1)) return false;
    *folded |= uint64_t{1} << a;
    return true;
  };
  *folded = 0;
  if (axis == Py_None) {
    *folded = rank == 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
    return true;
  }
  if (!PyTuple_CheckExact(axis)) return add(axis);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(axis); ++i) {
    if (!add(PyTuple_GET_ITEM(axis, i))) return false;
  }
  return true;
}

const Entrance* entrance_argument(PyObject* value) {
  const long number = PyLong_AsLong(value);
  if (number >= 0 && number < declared.entrance_count) return &declared.entrances[number];
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "there is no entrance %ld", number);
  return nullptr;
}

bool is_wrap(PyObject* overflow) { return overflow == declared.wrap; }

// reduce(entrance, x, axis, dtype, out, keepdims, initial, where, overflow)
PyObject* reduce(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9) return PyErr_Format(PyExc_TypeError, "reduce takes 9 arguments, got %zd", count);
  const Entrance* entrance = entrance_argument(args[0]);
  if (!entrance) return nullptr;
  PyObject* const keepdims = args[5];
  uint64_t folded;
  const int code = plain_code(args[1]);
  const bool plain = code >= 0 && args[3] == Py_None &&
                     (keepdims == Py_False || keepdims == Py_True) && args[6] == Py_None && args[7] == Py_None &&
                     is_wrap(args[8]);
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[1]);
  if (!plain || !plain_axes(args[2], PyArray_NDIM(x), &folded) || !folded) {
    return PyObject_Vectorcall(declared.general_reduce, args, count, nullptr);
  }
  const Route route = entrance->routes[code];
  // Means of more integers than that need more than 64 bits on the way, which the general path sees to.
  constexpr npy_intp exact_in_64_bits = npy_intp{1} << 31;
  if (route.ending == static_cast<int>(Ending::ratio) && PyArray_SIZE(x) > exact_in_64_bits) {
    return PyObject_Vectorcall(declared.general_reduce, args, count, nullptr);
  }
  const int rank = PyArray_NDIM(x);
  int64_t shape[max_rank], strides[max_rank];
  int out_rank = 0;
  bool empty = false;
  for (int a = 0; a < rank; ++a) {
    const bool fold_axis = folded >> a & 1;
    empty |= PyArray_DIM(x, a) == 0;
    if (!fold_axis) shape[out_rank++] = PyArray_DIM(x, a);
    else if (keepdims == Py_True) shape[out_rank++] = 1;
  }
  const bool given = args[4] != Py_None;
  if (empty || (given && !plain_out(args[4], x, route.out, out_rank, shape))) {
    return PyObject_Vectorcall(declared.general_reduce, args, count, nullptr);
  }
  PyArrayObject* out = given ? reinterpret_cast<PyArrayObject*>(Py_NewRef(args[4])) : new_array(out_rank, shape, route.out, nullptr);
  if (!out) return nullptr;
  for (int a = 0, o = 0; a < rank; ++a) {
    const bool fold_axis = folded >> a & 1;
    strides[a] = fold_axis ? 0 : PyArray_STRIDE(out, o);
    o += !fold_axis || keepdims == Py_True;
  }
  reduce_array(job_of(route, code), x, nullptr, folded, out, strides, route.finish());
  return given ? reinterpret_cast<PyObject*>(out) : PyArray_Return(out);
}

// scan(entrance, x, axis, dtype, out, exclusive, reverse, include_initial, overflow)
PyObject* scan(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9) return PyErr_Format(PyExc_TypeError, "scan takes 9 arguments, got %zd", count);
  const Entrance* entrance = entrance_argument(args[0]);
  if (!entrance) return nullptr;
  uint64_t axis_bit;
  const int code = plain_code(args[1]);
  const auto is_flag = [](PyObject* o) { return o == Py_False || o == Py_True; };
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[1]);
  const bool plain = code >= 0 && args[3] == Py_None &&
                     is_flag(args[5]) && is_flag(args[6]) && args[7] == Py_False && is_wrap(args[8]) &&
                     PyLong_CheckExact(args[2]) && plain_axes(args[2], PyArray_NDIM(x), &axis_bit) && PyArray_SIZE(x) > 0;
  const Route route = entrance->routes[code >= 0 ? code : 0];
  const bool given = args[4] != Py_None;
  if (!plain || (given && !plain_out(args[4], x, route.out, PyArray_NDIM(x), PyArray_DIMS(x)))) {
    return PyObject_Vectorcall(declared.general_scan, args, count, nullptr);
  }
  PyArrayObject* out = given ? reinterpret_cast<PyArrayObject*>(Py_NewRef(args[4]))
                             : new_array(PyArray_NDIM(x), PyArray_DIMS(x), route.out, x);
  if (!out) return nullptr;
  scan_array(job_of(route, code), x, __builtin_ctzll(axis_bit), out, args[6] == Py_True, args[5] == Py_True,
             route.finish());
  return reinterpret_cast<PyObject*>(out);
}

// direct_reduce(function, entrance, arguments), direct_scan(...): see direct.h.
template <Target target>
PyObject* direct(PyObject*, PyObject* args) {
  PyObject *function, *entrance, *arguments;
  if (!PyArg_ParseTuple(args, "OOO!", &function, &entrance, &PyDict_Type, &arguments)) return nullptr;
  return make_direct(function, entrance, arguments, target);
}

// ---- the general path's way in: everything checked, nothing guessed

// run_reduce(fold, column, in, out_code, x, mask, folded, out, (number, integer, lowest, highest, ending)) -> fits
// `out` has the rank of x, with length 1 along folded axes.
PyObject* run_reduce(PyObject*, PyObject* args) {
  int fold, column, in, out_code, ending;
  PyArrayObject *x, *out;
  PyObject* mask;
  double number;
  long long lowest;
  unsigned long long folded, integer, highest;
  if (!PyArg_ParseTuple(args, "iiiiO!OKO!(dKLKi)", &fold, &column, &in, &out_code, &PyArray_Type, &x, &mask, &folded,
                        &PyArray_Type, &out, &number, &integer, &lowest, &highest, &ending)) {
    return nullptr;
  }
  const Finish finish{number, integer, lowest, highest, static_cast<Ending>(ending)};
  int64_t strides[max_rank];
  for (int a = 0; a < PyArray_NDIM(x); ++a) strides[a] = folded >> a & 1 ? 0 : PyArray_STRIDE(out, a);
  const bool fits = reduce_array({static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in),
                                  static_cast<Dtype>(out_code)},
                                 x, mask == Py_None ? nullptr : reinterpret_cast<PyArrayObject*>(mask), folded, out,
                                 strides, finish);
  return PyBool_FromLong(fits);
}

// run_scan(fold, column, in, out_code, x, axis, out, reverse, shifted, (number, integer, lowest, highest, ending)) -> fits
// axis -1 walks all axes in C order; `out` is then of rank 1.
PyObject* run_scan(PyObject*, PyObject* args) {
  int fold, column, in, out_code, axis, reverse, shifted, ending;
  PyArrayObject *x, *out;
  double number;
  long long lowest;
  unsigned long long integer, highest;
  if (!PyArg_ParseTuple(args, "iiiiO!iO!pp(dKLKi)", &fold, &column, &in, &out_code, &PyArray_Type, &x, &axis,
                        &PyArray_Type, &out, &reverse, &shifted, &number, &integer, &lowest, &highest, &ending)) {
    return nullptr;
  }
  const Finish finish{number, integer, lowest, highest, static_cast<Ending>(ending)};
  const bool fits = scan_array({static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in),
                                static_cast<Dtype>(out_code)},
                               x, axis, out, reverse, shifted, finish);
  return PyBool_FromLong(fits);
}

// empty(shape, code, like): an array to compute into; `like` is an array or None.
PyObject* empty(PyObject*, PyObject* args) {
  PyArray_Dims shape{nullptr, 0};
  int code;
  PyObject* like;
  if (!PyArg_ParseTuple(args, "O&iO", PyArray_IntpConverter, &shape, &code, &like)) return nullptr;
  PyArrayObject* made = nullptr;
  // NumPy checks the size before it takes memory; ours is asked for only then.
  if (code >= 0 && code < dtype_count) {
    made = new_array(shape.len, shape.ptr, code, like == Py_None ? nullptr : reinterpret_cast<PyArrayObject*>(like));
  } else {
    PyErr_Format(PyExc_ValueError, "there is no dtype %d", code);
  }
  PyDimMem_FREE(shape.ptr);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* keep_memory(PyObject*, PyObject* bytes) {
  const long long most = PyLong_AsLongLong(bytes);
  if (most == -1 && PyErr_Occurred()) return nullptr;
  set_kept_memory(most);
  Py_RETURN_NONE;
}

// ---- configuration

// configure(numbers, entrances, general_reduce, general_scan, wrap): see engine.py.
// An entrance is a route for each dtype: (fold, column, out, ending, number, integer).
PyObject* configure(PyObject*, PyObject* args) {
  PyObject *numbers, *entrances, *general_reduce, *general_scan, *wrap;
  if (!PyArg_ParseTuple(args, "O!O!OOU", &PyTuple_Type, &numbers, &PyTuple_Type, &entrances, &general_reduce,
                        &general_scan, &wrap)) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(entrances);
  if (PyTuple_GET_SIZE(numbers) != dtype_count || count > most_entrances) {
    return PyErr_Format(PyExc_ValueError, "configure: expected %d dtypes, and at most %d entrances", dtype_count,
                        most_entrances);
  }
  for (int code = 0; code < dtype_count; ++code) {
    declared.numbers[code] = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(numbers, code)));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* routes = PyTuple_GET_ITEM(entrances, i);
    if (!PyTuple_Check(routes) || PyTuple_GET_SIZE(routes) != dtype_count) {
      return PyErr_Format(PyExc_ValueError, "configure: entrance %zd does not fit the table", i);
    }
    for (int code = 0; code < dtype_count; ++code) {
      Route& route = declared.entrances[i].routes[code];
      unsigned long long integer;
      if (!PyArg_ParseTuple(PyTuple_GET_ITEM(routes, code), "iiiidK", &route.fold, &route.column, &route.out,
                            &route.ending, &route.number, &integer)) {
        return nullptr;
      }
      route.integer = integer;
    }
  }
  if (PyErr_Occurred()) return nullptr;
  declared.entrance_count = static_cast<int>(count);
  Py_XSETREF(declared.general_reduce, Py_NewRef(general_reduce));
  Py_XSETREF(declared.general_scan, Py_NewRef(general_scan));
  Py_XSETREF(declared.wrap, Py_NewRef(wrap));
  Py_RETURN_NONE;
}

PyObject* available_isas(PyObject*, PyObject*) {
  PyObject* names = PyList_New(0);
  for (const Isa& isa : isas) {
    if (!isa.supported()) continue;
    PyObject* name = PyUnicode_FromString(isa.name);
    if (!name || PyList_Append(names, name) < 0) return nullptr;
    Py_DECREF(name);
  }
  return names;
}

PyObject* use_isa(PyObject*, PyObject* name) {
  const char* wanted = PyUnicode_AsUTF8(name);
  if (!wanted) return nullptr;
  for (const Isa& isa : isas) {
    if (std::strcmp(isa.name, wanted) || !isa.supported()) continue;
    current = &isa;
    isa.fill(table);
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_ValueError, "no ISA '%s' on this machine", wanted);
}

PyObject* isa(PyObject*, PyObject*) { return PyUnicode_FromString(current ? current->name : ""); }

template <int count>
PyObject* names_of(const char* const (&names)[count]) {
  PyObject* list = PyTuple_New(count);
  for (int i = 0; list && i < count; ++i) PyTuple_SET_ITEM(list, i, PyUnicode_FromString(names[i]));
  return list;
}

PyObject* fold_names(PyObject*, PyObject*) {
#define FOLDWISE_FOLD(name, ...) #name,
  return names_of({
#include "folds.def"
  });
#undef FOLDWISE_FOLD
}

PyObject* ending_names(PyObject*, PyObject*) { return names_of(endings); }

PyObject* set_threads(PyObject*, PyObject* count) {
  const long threads = PyLong_AsLong(count);
  if (threads == -1 && PyErr_Occurred()) return nullptr;
  set_thread_count(static_cast<int>(threads));
  Py_RETURN_NONE;
}

PyObject* threads(PyObject*, PyObject*) { return PyLong_FromLong(thread_count()); }

PyObject* read_probe(PyObject*, PyObject* object) {
  if (!PyArray_Check(object) || !PyArray_ISONESEGMENT(reinterpret_cast<PyArrayObject*>(object))) {
    return PyErr_Format(PyExc_TypeError, "probe_read takes a contiguous array");
  }
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
  uint64_t all;
  Py_BEGIN_ALLOW_THREADS
  all = probe_read(PyArray_BYTES(array), PyArray_NBYTES(array));
  Py_END_ALLOW_THREADS
  return PyLong_FromUnsignedLongLong(all);
}

PyObject* copy_probe(PyObject*, PyObject* args) {
  PyArrayObject *to, *from;
  if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &to, &PyArray_Type, &from)) return nullptr;
  if (!PyArray_ISONESEGMENT(to) || !PyArray_ISONESEGMENT(from) || !PyArray_ISWRITEABLE(to) ||
      PyArray_NBYTES(to) != PyArray_NBYTES(from)) {
    return PyErr_Format(PyExc_TypeError, "probe_copy takes two contiguous arrays of one size, the first writable");
  }
  Py_BEGIN_ALLOW_THREADS
  probe_copy(PyArray_BYTES(to), PyArray_BYTES(from), PyArray_NBYTES(from));
  Py_END_ALLOW_THREADS
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"reduce", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(reduce)), METH_FASTCALL, nullptr},
    {"scan", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(scan)), METH_FASTCALL, nullptr},
    {"direct_reduce", direct<reduce>, METH_VARARGS, nullptr},
    {"direct_scan", direct<scan>, METH_VARARGS, nullptr},
    {"run_reduce", run_reduce, METH_VARARGS, nullptr},
    {"run_scan", run_scan, METH_VARARGS, nullptr},
    {"empty", empty, METH_VARARGS, nullptr},
    {"keep_memory", keep_memory, METH_O, nullptr},
    {"configure", configure, METH_VARARGS, nullptr},
    {"available_isas", available_isas, METH_NOARGS, nullptr},
    {"use_isa", use_isa, METH_O, nullptr},
    {"isa", isa, METH_NOARGS, nullptr},
    {"fold_names", fold_names, METH_NOARGS, nullptr},
    {"ending_names", ending_names, METH_NOARGS, nullptr},
    {"set_threads", set_threads, METH_O, nullptr},
    {"threads", threads, METH_NOARGS, nullptr},
    {"probe_read", read_probe, METH_O, nullptr},
    {"probe_copy", copy_probe, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foldwise._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace foldwise

PyMODINIT_FUNC PyInit__native() {
  import_array();
  if (!foldwise::ready_direct()) return nullptr;
  PyObject* module = PyModule_Create(&foldwise::definition);
  if (module && PyModule_AddStringConstant(module, "VERSION", FOLDWISE_VERSION) < 0) Py_CLEAR(module);
#if defined(Py_GIL_DISABLED)
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

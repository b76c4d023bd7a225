// The Python face: argument parsing, array creation, nothing else. What is plain and frequent is answered here at
// once; everything else goes to the general functions of engine.py, which come back through run_reduce and run_scan.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstring>

#include "plan.h"
#include "probe.h"
#include "threads.h"

namespace foldwise {

#if defined(FOLDWISE_HAS_SSE2)
#define FOLDWISE_ISA sse2
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_AVX2)
#define FOLDWISE_ISA avx2
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_AVX512)
#define FOLDWISE_ISA avx512
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_NEON)
#define FOLDWISE_ISA neon
#include "isa_rows.h"
#endif

namespace {

// ---- ISAs, the most capable last

struct Isa {
  const char* name;
  bool (*supported)();
  void (*fill)(KernelTable&);
};

const Isa isas[] = {
#if defined(FOLDWISE_HAS_SSE2)
    {"sse2", [] { return true; }, fill_sse2_all},
#endif
#if defined(FOLDWISE_HAS_AVX2)
    {"avx2", [] { return bool(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                              __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2")); }, fill_avx2_all},
#endif
#if defined(FOLDWISE_HAS_AVX512)
    {"avx512", [] { return bool(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                                __builtin_cpu_supports("f16c")); }, fill_avx512_all},
#endif
#if defined(FOLDWISE_HAS_NEON)
    {"neon", [] { return true; }, fill_neon_all},
#endif
};

const Isa* current = nullptr;
KernelTable table;

// ---- what Python declares, given once by configure()

// The default way of a fold through a dtype: what reads it, and what comes out.
struct Route {
  int column;  // -1: not for the fast path
  int out;     // dtype code
};

struct {
  int numbers[dtype_count];  // NumPy's type number of each dtype
  Route routes[fold_count][dtype_count];
  double identity[fold_count];
  PyObject* general_reduce;
  PyObject* general_scan;
  PyObject* wrap;  // the string "wrap"
} declared;

int code_of(int number) {
  for (int code = 0; code < dtype_count; ++code) {
    if (declared.numbers[code] == number) return code;
  }
  return -1;
}

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

// Same-sized integers wrap alike, so a column of one signedness reads the other as it lies.
Dtype seen_by(Column column, Dtype dtype, bool judged) {
  if (!judged && column == Column::int64 && dtype == Dtype::uint64) return Dtype::int64;
  return dtype;
}

bool sink_is_direct(Column column, bool scan, Dtype out) {
  switch (column) {
    case Column::float16: case Column::bfloat16: return out == Dtype::float32;
    case Column::float32: return out == (scan ? Dtype::float64 : Dtype::float32);
    case Column::float64: return out == Dtype::float64;
    default: return out == Dtype::int64 || out == Dtype::uint64;
  }
}

struct Job {
  FoldId fold;
  Column column;
  Dtype in, out;
};

int64_t work_bytes(PyArrayObject* x) { return PyArray_SIZE(x) * PyArray_ITEMSIZE(x); }

// Reduces x over the axes in `folded`; `out` has strides for every axis of x in `out_strides`, 0 where folded.
bool reduce_array(const Job& job, PyArrayObject* x, PyArrayObject* mask, uint64_t folded, PyArrayObject* out,
                  const int64_t* out_strides, const Finish& finish) {
  ReducePlan plan;
  const Dtype in = seen_by(job.column, job.in, job.fold >= FoldId::judged_sum);
  const Dtype column_dtype = column_dtypes[static_cast<int>(job.column)];
  plan.source = source_of(x, in, column_dtype, mask);
  plan.sink = {job.out, sink_is_direct(job.column, false, job.out), PyArray_BYTES(out)};
  plan.finish = finish;
  const Geometry geometry{PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x),
                          mask ? PyArray_STRIDES(mask) : nullptr, out_strides};
  lay_out(plan, geometry, folded, item_size(column_dtype));
  return run(table.kernels[static_cast<int>(job.fold)][static_cast<int>(job.column)].reduce, plan, work_bytes(x));
}

bool scan_array(const Job& job, PyArrayObject* x, int axis, PyArrayObject* out, bool reverse, bool shifted,
                const Finish& finish) {
  ScanPlan plan;
  const Dtype in = seen_by(job.column, job.in, job.fold >= FoldId::judged_sum);
  plan.source = source_of(x, in, column_dtypes[static_cast<int>(job.column)], nullptr);
  plan.sink = {job.out, sink_is_direct(job.column, true, job.out), PyArray_BYTES(out)};
  plan.finish = finish;
  plan.shifted = shifted;
  const Geometry geometry{PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), nullptr, PyArray_STRIDES(out)};
  lay_out(plan, geometry, axis, PyArray_DIM(out, axis < 0 ? 0 : axis), reverse);
  return run(table.kernels[static_cast<int>(job.fold)][static_cast<int>(job.column)].scan, plan, work_bytes(x));
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

// The code of a plain array's dtype, or -1.
int plain_code(PyObject* x) {
  if (!PyArray_CheckExact(x)) return -1;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(x);
  if (!PyArray_ISNOTSWAPPED(array)) return -1;
  return code_of(PyArray_TYPE(array));
}

PyArrayObject* new_array(int rank, const npy_intp* shape, int code) {
  PyArray_Descr* descr = PyArray_DescrFromType(declared.numbers[code]);
  if (!descr) return nullptr;
  return reinterpret_cast<PyArrayObject*>(
      PyArray_NewFromDescr(&PyArray_Type, descr, rank, shape, nullptr, nullptr, 0, nullptr));
}

int fold_argument(PyObject* value) {
  const long fold = PyLong_AsLong(value);
  if (fold >= 0 && fold < fold_count) return static_cast<int>(fold);
  if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "fold %ld is not in the table", fold);
  return -1;
}

bool is_wrap(PyObject* overflow) { return overflow == declared.wrap; }

// reduce(fold, x, axis, dtype, out, keepdims, initial, where, overflow)
PyObject* reduce(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9) return PyErr_Format(PyExc_TypeError, "reduce takes 9 arguments, got %zd", count);
  const int fold = fold_argument(args[0]);
  if (fold < 0) return nullptr;
  PyObject* const keepdims = args[5];
  uint64_t folded;
  const int code = plain_code(args[1]);
  const bool plain = code >= 0 && declared.routes[fold][code].column >= 0 && args[3] == Py_None && args[4] == Py_None &&
                     (keepdims == Py_False || keepdims == Py_True) && args[6] == Py_None && args[7] == Py_None &&
                     is_wrap(args[8]);
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[1]);
  if (!plain || !plain_axes(args[2], PyArray_NDIM(x), &folded)) {
    return PyObject_Vectorcall(declared.general_reduce, args, count, nullptr);
  }
  const Route route = declared.routes[fold][code];
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
  if (empty) return PyObject_Vectorcall(declared.general_reduce, args, count, nullptr);
  PyArrayObject* out = new_array(out_rank, shape, route.out);
  if (!out) return nullptr;
  int64_t stride = PyArray_ITEMSIZE(out);
  for (int a = rank - 1; a >= 0; --a) {
    const bool fold_axis = folded >> a & 1;
    strides[a] = fold_axis ? 0 : stride;
    if (!fold_axis) stride *= PyArray_DIM(x, a);
  }
  const double identity = declared.identity[fold];
  const Finish finish{identity, static_cast<uint64_t>(identity), 0, 0};
  reduce_array({static_cast<FoldId>(fold), static_cast<Column>(route.column), static_cast<Dtype>(code),
                static_cast<Dtype>(route.out)},
               x, nullptr, folded, out, strides, finish);
  return PyArray_Return(out);
}

// scan(fold, x, axis, dtype, out, exclusive, reverse, include_initial, overflow)
PyObject* scan(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 9) return PyErr_Format(PyExc_TypeError, "scan takes 9 arguments, got %zd", count);
  const int fold = fold_argument(args[0]);
  if (fold < 0) return nullptr;
  uint64_t axis_bit;
  const int code = plain_code(args[1]);
  const auto is_flag = [](PyObject* o) { return o == Py_False || o == Py_True; };
  PyArrayObject* x = reinterpret_cast<PyArrayObject*>(args[1]);
  const bool plain = code >= 0 && declared.routes[fold][code].column >= 0 && args[3] == Py_None && args[4] == Py_None &&
                     is_flag(args[5]) && is_flag(args[6]) && args[7] == Py_False && is_wrap(args[8]) &&
                     PyLong_CheckExact(args[2]) && plain_axes(args[2], PyArray_NDIM(x), &axis_bit) && PyArray_SIZE(x) > 0;
  if (!plain) return PyObject_Vectorcall(declared.general_scan, args, count, nullptr);
  const Route route = declared.routes[fold][code];
  PyArrayObject* out = new_array(PyArray_NDIM(x), PyArray_DIMS(x), route.out);
  if (!out) return nullptr;
  const double identity = declared.identity[fold];
  const Finish finish{identity, static_cast<uint64_t>(identity), 0, 0};
  scan_array({static_cast<FoldId>(fold), static_cast<Column>(route.column), static_cast<Dtype>(code),
              static_cast<Dtype>(route.out)},
             x, __builtin_ctzll(axis_bit), out, args[6] == Py_True, args[5] == Py_True, finish);
  return reinterpret_cast<PyObject*>(out);
}

// ---- the general path's way in: everything checked, nothing guessed

// run_reduce(fold, column, in, out_code, x, mask, folded, out, (number, integer, lowest, highest)) -> fits
// `out` has the rank of x, with length 1 along folded axes.
PyObject* run_reduce(PyObject*, PyObject* args) {
  int fold, column, in, out_code;
  PyArrayObject *x, *out;
  PyObject* mask;
  double number;
  long long lowest;
  unsigned long long folded, integer, highest;
  if (!PyArg_ParseTuple(args, "iiiiO!OKO!(dKLK)", &fold, &column, &in, &out_code, &PyArray_Type, &x, &mask, &folded,
                        &PyArray_Type, &out, &number, &integer, &lowest, &highest)) {
    return nullptr;
  }
  const Finish finish{number, integer, lowest, highest};
  int64_t strides[max_rank];
  for (int a = 0; a < PyArray_NDIM(x); ++a) strides[a] = folded >> a & 1 ? 0 : PyArray_STRIDE(out, a);
  const bool fits = reduce_array({static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in),
                                  static_cast<Dtype>(out_code)},
                                 x, mask == Py_None ? nullptr : reinterpret_cast<PyArrayObject*>(mask), folded, out,
                                 strides, finish);
  return PyBool_FromLong(fits);
}

// run_scan(fold, column, in, out_code, x, axis, out, reverse, shifted, (number, integer, lowest, highest)) -> fits
// axis -1 walks all axes in C order; `out` is then of rank 1.
PyObject* run_scan(PyObject*, PyObject* args) {
  int fold, column, in, out_code, axis, reverse, shifted;
  PyArrayObject *x, *out;
  double number;
  long long lowest;
  unsigned long long integer, highest;
  if (!PyArg_ParseTuple(args, "iiiiO!iO!pp(dKLK)", &fold, &column, &in, &out_code, &PyArray_Type, &x, &axis,
                        &PyArray_Type, &out, &reverse, &shifted, &number, &integer, &lowest, &highest)) {
    return nullptr;
  }
  const Finish finish{number, integer, lowest, highest};
  const bool fits = scan_array({static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in),
                                static_cast<Dtype>(out_code)},
                               x, axis, out, reverse, shifted, finish);
  return PyBool_FromLong(fits);
}

// ---- configuration

// configure(numbers, routes, identities, general_reduce, general_scan, wrap): see engine.py.
PyObject* configure(PyObject*, PyObject* args) {
  PyObject *numbers, *routes, *identities, *general_reduce, *general_scan, *wrap;
  if (!PyArg_ParseTuple(args, "O!O!O!OOU", &PyTuple_Type, &numbers, &PyTuple_Type, &routes, &PyTuple_Type, &identities,
                        &general_reduce, &general_scan, &wrap)) {
    return nullptr;
  }
  if (PyTuple_GET_SIZE(numbers) != dtype_count || PyTuple_GET_SIZE(routes) != fold_count * dtype_count ||
      PyTuple_GET_SIZE(identities) != fold_count) {
    return PyErr_Format(PyExc_ValueError, "configure: expected %d dtypes and %d folds", dtype_count, fold_count);
  }
  for (int code = 0; code < dtype_count; ++code) {
    declared.numbers[code] = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(numbers, code)));
  }
  for (int i = 0; i < fold_count * dtype_count; ++i) {
    Route& route = declared.routes[i / dtype_count][i % dtype_count];
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(routes, i), "ii", &route.column, &route.out)) return nullptr;
  }
  for (int fold = 0; fold < fold_count; ++fold) {
    declared.identity[fold] = PyFloat_AsDouble(PyTuple_GET_ITEM(identities, fold));
  }
  if (PyErr_Occurred()) return nullptr;
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

PyObject* fold_names(PyObject*, PyObject*) {
#define FOLDWISE_FOLD(name, Struct) #name,
  const char* names[] = {
#include "folds.def"
  };
#undef FOLDWISE_FOLD
  PyObject* list = PyTuple_New(fold_count);
  for (int i = 0; list && i < fold_count; ++i) PyTuple_SET_ITEM(list, i, PyUnicode_FromString(names[i]));
  return list;
}

PyObject* set_threads(PyObject*, PyObject* count) {
  const long threads = PyLong_AsLong(count);
  if (threads == -1 && PyErr_Occurred()) return nullptr;
  set_thread_count(static_cast<int>(threads));
  Py_RETURN_NONE;
}

PyObject* threads(PyObject*, PyObject*) { return PyLong_FromLong(thread_count()); }
PyObject* cpus(PyObject*, PyObject*) { return PyLong_FromLong(available_cpus()); }

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
    {"run_reduce", run_reduce, METH_VARARGS, nullptr},
    {"run_scan", run_scan, METH_VARARGS, nullptr},
    {"configure", configure, METH_VARARGS, nullptr},
    {"available_isas", available_isas, METH_NOARGS, nullptr},
    {"use_isa", use_isa, METH_O, nullptr},
    {"isa", isa, METH_NOARGS, nullptr},
    {"fold_names", fold_names, METH_NOARGS, nullptr},
    {"set_threads", set_threads, METH_O, nullptr},
    {"threads", threads, METH_NOARGS, nullptr},
    {"cpus", cpus, METH_NOARGS, nullptr},
    {"probe_read", read_probe, METH_O, nullptr},
    {"probe_copy", copy_probe, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foldwise._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace foldwise

PyMODINIT_FUNC PyInit__native() {
  import_array();
  PyObject* module = PyModule_Create(&foldwise::definition);
  if (module && PyModule_AddStringConstant(module, "VERSION", FOLDWISE_VERSION) < 0) Py_CLEAR(module);
#if defined(Py_GIL_DISABLED)
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

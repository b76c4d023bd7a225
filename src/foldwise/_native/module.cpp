// The Python face: argument parsing, array creation, nothing else.
#define PY_SSIZE_T_CLEAN
#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstring>

#include "direct.h"
#include "entrances.h"
#include "exact.h"
#include "isas.h"
#include "jobs.h"
#include "memory.h"
#include "onnxruntime.h"
#include "probe.h"
#include "threads.h"

namespace foldwise {

namespace {

const Isa* current = nullptr;

// direct_reduce(function, entrance, arguments), and so on for the others: see direct.h.
template <Target target>
PyObject* direct(PyObject*, PyObject* args) {
  PyObject *function, *entrance, *arguments;
  if (!PyArg_ParseTuple(args, "OOO!", &function, &entrance, &PyDict_Type, &arguments)) return nullptr;
  return make_direct(function, entrance, arguments, target);
}

// ---- the general path's way in: everything checked, nothing guessed

// (fold, column, in, out_code), and (number, integer, lowest, highest, ending).
#define FOLDWISE_JOB "(iiii)"
#define FOLDWISE_FINISH "(dKLKi)"
struct Asked {
  int fold, column, in, out_code, ending;
  double number;
  long long lowest;
  unsigned long long integer, highest;

  Job job() const {
    return {static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in), static_cast<Dtype>(out_code)};
  }
  Finish finish() const { return {number, integer, lowest, highest, static_cast<Ending>(ending)}; }
};

// run_reduce(x, mask, folded, ((job, finish, out), ...)) -> whether each of them fits
// Every `out` has the rank of x, with length 1 along folded axes.
PyObject* run_reduce(PyObject*, PyObject* args) {
  PyArrayObject* x;
  PyObject *mask, *all;
  unsigned long long folded;
  if (!PyArg_ParseTuple(args, "O!OKO!", &PyArray_Type, &x, &mask, &folded, &PyTuple_Type, &all)) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(all);
  const int rank = PyArray_NDIM(x);
  std::vector<Reduced> reduced(count);
  std::vector<int64_t> strides(count * rank);
  for (Py_ssize_t i = 0; i < count; ++i) {
    Asked a;
    PyArrayObject* out;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(all, i), FOLDWISE_JOB FOLDWISE_FINISH "O!", &a.fold, &a.column, &a.in, &a.out_code,
                          &a.number, &a.integer, &a.lowest, &a.highest, &a.ending, &PyArray_Type, &out)) {
      return nullptr;
    }
    int64_t* steps = strides.data() + i * rank;
    for (int d = 0; d < rank; ++d) steps[d] = folded >> d & 1 ? 0 : PyArray_STRIDE(out, d);
    reduced[i] = {a.job(), {PyArray_BYTES(out), steps}, a.finish()};
  }
  reduce_array(x, mask == Py_None ? nullptr : reinterpret_cast<PyArrayObject*>(mask), folded, reduced.data(),
               static_cast<int>(count));
  PyObject* fits = PyTuple_New(count);
  for (Py_ssize_t i = 0; fits && i < count; ++i) PyTuple_SET_ITEM(fits, i, PyBool_FromLong(reduced[i].fits));
  return fits;
}

// ---- exact sums as Python keeps them: the words of a Total along the last axis

constexpr npy_intp total_words = sizeof(Total) / sizeof(int64_t);

// How many there are; -1 with an error set where that is not what the array holds.
npy_intp totals_in(PyArrayObject* array, bool written) {
  const int rank = PyArray_NDIM(array);
  const bool fits = PyArray_TYPE(array) == NPY_INT64 && PyArray_IS_C_CONTIGUOUS(array) && rank > 0 &&
                    PyArray_DIM(array, rank - 1) == total_words && (!written || PyArray_ISWRITEABLE(array));
  if (!fits) PyErr_Format(PyExc_TypeError, "exact sums are a contiguous int64 array of %zd words each", total_words);
  return fits ? PyArray_SIZE(array) / total_words : -1;
}
Total* totals_of(PyArrayObject* array) { return reinterpret_cast<Total*>(PyArray_BYTES(array)); }

// merge_totals(totals, others, subtract)
PyObject* merge_totals(PyObject*, PyObject* args) {
  PyArrayObject *to, *from;
  int subtract;
  if (!PyArg_ParseTuple(args, "O!O!p", &PyArray_Type, &to, &PyArray_Type, &from, &subtract)) return nullptr;
  const npy_intp count = totals_in(to, true);
  if (count < 0 || totals_in(from, false) != count) {
    return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "merge_totals takes as many sums as there are");
  }
  for (npy_intp i = 0; i < count; ++i) totals_of(to)[i].add(totals_of(from)[i], subtract);
  Py_RETURN_NONE;
}

// round_totals(totals, counts, ending, code, out): `out` is float64, its values those of the dtype with that code.
PyObject* round_totals(PyObject*, PyObject* args) {
  PyArrayObject *from, *out;
  PyObject* counts;
  int ending, code;
  if (!PyArg_ParseTuple(args, "O!OiiO!", &PyArray_Type, &from, &counts, &ending, &code, &PyArray_Type, &out)) return nullptr;
  const npy_intp count = totals_in(from, false);
  if (count < 0) return nullptr;
  const bool counted = counts != Py_None;
  const auto holds = [&](PyObject* object, int type) {
    if (!PyArray_Check(object)) return false;
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    return PyArray_TYPE(array) == type && PyArray_IS_C_CONTIGUOUS(array) && PyArray_SIZE(array) == count;
  };
  if (!holds(reinterpret_cast<PyObject*>(out), NPY_DOUBLE) || (counted && !holds(counts, NPY_INT64))) {
    return PyErr_Format(PyExc_TypeError, "round_totals takes a count and a place of float64 for each sum");
  }
  auto* results = reinterpret_cast<double*>(PyArray_BYTES(out));
  const auto* each = counted ? reinterpret_cast<const int64_t*>(PyArray_BYTES(reinterpret_cast<PyArrayObject*>(counts))) : nullptr;
  for (npy_intp i = 0; i < count; ++i) {
    Finish finish{};
    finish.ending = static_cast<Ending>(ending);
    if (counted) finish.count = each[i];
    results[i] = totals_of(from)[i].rounded(finish, static_cast<Dtype>(code));
  }
  Py_RETURN_NONE;
}

// run_scan(job, finish, x, axis, out, reverse, shifted) -> whether it fits
// axis -1 walks all axes in C order; `out` is then of rank 1.
PyObject* run_scan(PyObject*, PyObject* args) {
  Asked a;
  int axis, reverse, shifted;
  PyArrayObject *x, *out;
  if (!PyArg_ParseTuple(args, FOLDWISE_JOB FOLDWISE_FINISH "O!iO!pp", &a.fold, &a.column, &a.in, &a.out_code, &a.number,
                        &a.integer, &a.lowest, &a.highest, &a.ending, &PyArray_Type, &x, &axis, &PyArray_Type, &out,
                        &reverse, &shifted)) {
    return nullptr;
  }
  return PyBool_FromLong(scan_array(a.job(), x, axis, {PyArray_BYTES(out), PyArray_STRIDES(out)},
                                    PyArray_DIM(out, axis < 0 ? 0 : axis), reverse, shifted, a.finish()));
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

// configure(numbers, entrances, (general_reduce, general_scan, general_place, general_many), (wrap, default, exact)): see
// entrances.py. An entrance is two routes for each dtype: (fold, column, out, ending, number, integer).
PyObject* configure(PyObject*, PyObject* args) {
  PyObject *numbers, *entrances, *general[4], *words[3];
  if (!PyArg_ParseTuple(args, "O!O!(OOOO)(UUU)", &PyTuple_Type, &numbers, &PyTuple_Type, &entrances, &general[0], &general[1],
                        &general[2], &general[3], &words[0], &words[1], &words[2])) {
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
    if (!PyTuple_Check(routes) || PyTuple_GET_SIZE(routes) != 2 * dtype_count) {
      return PyErr_Format(PyExc_ValueError, "configure: entrance %zd does not fit the table", i);
    }
    for (int code = 0; code < 2 * dtype_count; ++code) {
      Route& route = declared.entrances[i].routes[code / dtype_count][code % dtype_count];
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
  PyObject** const kept[] = {&declared.general_reduce, &declared.general_scan, &declared.general_place, &declared.general_many};
  for (int i = 0; i < 4; ++i) Py_XSETREF(*kept[i], Py_NewRef(general[i]));
  PyObject** const known[] = {&declared.wrap, &declared.by_default, &declared.exactly};
  for (int i = 0; i < 3; ++i) Py_XSETREF(*known[i], Py_NewRef(words[i]));
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
    {"place", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(place)), METH_FASTCALL, nullptr},
    {"reduce_many", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(reduce_many)), METH_FASTCALL, nullptr},
    {"direct_reduce", direct<reduce>, METH_VARARGS, nullptr},
    {"direct_scan", direct<scan>, METH_VARARGS, nullptr},
    {"direct_place", direct<place>, METH_VARARGS, nullptr},
    {"direct_many", direct<reduce_many>, METH_VARARGS, nullptr},
    {"run_reduce", run_reduce, METH_VARARGS, nullptr},
    {"run_scan", run_scan, METH_VARARGS, nullptr},
    {"merge_totals", merge_totals, METH_VARARGS, nullptr},
    {"round_totals", round_totals, METH_VARARGS, nullptr},
    {"empty", empty, METH_VARARGS, nullptr},
    {"keep_memory", keep_memory, METH_O, nullptr},
    {"declare_operators", declare_operators, METH_O, nullptr},
    {"choose_operators", choose_operators, METH_O, nullptr},
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
  if (module && PyModule_AddIntConstant(module, "TOTAL_WORDS", foldwise::total_words) < 0) Py_CLEAR(module);
#if defined(Py_GIL_DISABLED)
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

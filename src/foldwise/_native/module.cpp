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
struct Asked {
  int fold, column, in, out_code, ending;
  double number;
  long long lowest;
  unsigned long long integer, highest;

  // Beyond the codes of dtypes come those of sums that are kept.
  Job job() const {
    const auto kept = static_cast<Kept>(std::max(0, out_code - dtype_count + 1));
    return {static_cast<FoldId>(fold), static_cast<Column>(column), static_cast<Dtype>(in), static_cast<Dtype>(out_code), kept};
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
  const View chosen = mask == Py_None ? View{} : view_of(reinterpret_cast<PyArrayObject*>(mask));
  reduce_array(view_of(x), bytes_of(x), mask == Py_None ? nullptr : &chosen, folded, reduced.data(), static_cast<int>(count));
  PyObject* fits = PyTuple_New(count);
  for (Py_ssize_t i = 0; fits && i < count; ++i) PyTuple_SET_ITEM(fits, i, PyBool_FromLong(reduced[i].fits));
  return fits;
}

// ---- exact sums as Python keeps them: the words of a Total, or Doubles, along the last axis

template <class Sum> constexpr int word_type = std::is_same_v<Sum, Total> ? NPY_INT64 : NPY_DOUBLE;
template <class Sum> constexpr npy_intp words_of = sizeof(Sum) / 8;

// Such sums in an array; they are null, with an error set, where that is not what it holds.
template <class Sum>
struct Sums {
  Sum* each = nullptr;
  npy_intp count = 0;

  Sums(PyArrayObject* array, bool written) {
    const int rank = PyArray_NDIM(array);
    if (PyArray_TYPE(array) != word_type<Sum> || !PyArray_IS_C_CONTIGUOUS(array) || rank == 0 ||
        PyArray_DIM(array, rank - 1) != words_of<Sum> || (written && !PyArray_ISWRITEABLE(array))) {
      PyErr_Format(PyExc_TypeError, "exact sums are a contiguous array of %zd words each", words_of<Sum>);
      return;
    }
    each = reinterpret_cast<Sum*>(PyArray_BYTES(array));
    count = PyArray_SIZE(array) / words_of<Sum>;
  }
};

// merge_totals(totals, others, subtract), merge_doubles(doubles, others) -> whether all have room
template <class Sum>
PyObject* merge_sums(PyObject*, PyObject* args) {
  PyArrayObject *to, *from;
  int subtract = 0;
  const char* format = std::is_same_v<Sum, Total> ? "O!O!p" : "O!O!";
  if (!PyArg_ParseTuple(args, format, &PyArray_Type, &to, &PyArray_Type, &from, &subtract)) return nullptr;
  const Sums<Sum> sums(to, true), others(from, false);
  if (!sums.each || !others.each) return nullptr;
  if (sums.count != others.count) return PyErr_Format(PyExc_ValueError, "as many sums can be merged as there are");
  bool fit = true;
  run(sums.count * sizeof(Sum), [&] {
    for (npy_intp i = 0; i < sums.count; ++i) {
      if constexpr (std::is_same_v<Sum, Total>) sums.each[i].add(others.each[i], subtract);
      else fit &= sums.each[i].add(others.each[i]);
    }
  });
  return PyBool_FromLong(fit);
}

// convert_sums(sums, into): Doubles to Totals, or the other way -> whether all have room
PyObject* convert_sums(PyObject*, PyObject* args) {
  PyArrayObject *from, *to;
  if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &from, &PyArray_Type, &to)) return nullptr;
  const bool in_doubles = PyArray_TYPE(from) == NPY_DOUBLE;
  const Sums<Doubles> doubles(in_doubles ? from : to, !in_doubles);
  const Sums<Total> totals(in_doubles ? to : from, in_doubles);
  if (!doubles.each || !totals.each) return nullptr;
  if (doubles.count != totals.count) return PyErr_Format(PyExc_ValueError, "as many sums come out as there are");
  bool fit = true;
  run(totals.count * sizeof(Total), [&] {
    for (npy_intp i = 0; i < totals.count; ++i) {
      if (in_doubles) {
        totals.each[i].add(doubles.each[i].total());
      } else {
        Total digits = totals.each[i];
        fit &= doubles.each[i].add(digits);
      }
    }
  });
  return PyBool_FromLong(fit);
}

// round_totals(totals, counts, ending, code, out), and round_doubles: `out` is float64, its values those of the dtype with
// that code.
template <class Sum>
PyObject* round_sums(PyObject*, PyObject* args) {
  PyArrayObject *from, *out;
  PyObject* counts;
  int ending, code;
  if (!PyArg_ParseTuple(args, "O!OiiO!", &PyArray_Type, &from, &counts, &ending, &code, &PyArray_Type, &out)) return nullptr;
  const Sums<Sum> sums(from, false);
  if (!sums.each) return nullptr;
  const bool counted = counts != Py_None;
  const auto holds = [&](PyObject* object, int type) {
    if (!PyArray_Check(object)) return false;
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    return PyArray_TYPE(array) == type && PyArray_IS_C_CONTIGUOUS(array) && PyArray_SIZE(array) == sums.count;
  };
  if (!holds(reinterpret_cast<PyObject*>(out), NPY_DOUBLE) || (counted && !holds(counts, NPY_INT64))) {
    return PyErr_Format(PyExc_TypeError, "for each sum there is a count, and a place of float64");
  }
  auto* results = reinterpret_cast<double*>(PyArray_BYTES(out));
  const auto* each = counted ? reinterpret_cast<const int64_t*>(PyArray_BYTES(reinterpret_cast<PyArrayObject*>(counts))) : nullptr;
  run(sums.count * sizeof(Sum), [&] {
    for (npy_intp i = 0; i < sums.count; ++i) {
      Finish finish{};
      finish.ending = static_cast<Ending>(ending);
      if (counted) finish.count = each[i];
      results[i] = sums.each[i].rounded(finish, static_cast<Dtype>(code));
    }
  });
  Py_RETURN_NONE;
}

// run_scan(job, finish, x, axis, out, reverse, shifted, carried) -> whether it fits
// axis -1 walks all axes in C order; `out` is then of rank 1. `carried` is None, or has the rank of x and one axis more, of
// Doubles: for exact sums what comes before each line, with length 1 along the axis. It becomes what comes before the next.
PyObject* run_scan(PyObject*, PyObject* args) {
  Asked a;
  int axis, reverse, shifted;
  PyArrayObject *x, *out;
  PyObject* carried;
  if (!PyArg_ParseTuple(args, FOLDWISE_JOB FOLDWISE_FINISH "O!iO!ppO", &a.fold, &a.column, &a.in, &a.out_code, &a.number,
                        &a.integer, &a.lowest, &a.highest, &a.ending, &PyArray_Type, &x, &axis, &PyArray_Type, &out,
                        &reverse, &shifted, &carried)) {
    return nullptr;
  }
  Output before{};
  if (carried != Py_None) {
    auto* array = reinterpret_cast<PyArrayObject*>(carried);
    if (!PyArray_Check(carried) || !Sums<Doubles>(array, true).each) return nullptr;
    before = {PyArray_BYTES(array), PyArray_STRIDES(array)};
  }
  return PyBool_FromLong(scan_array(a.job(), x, axis, {PyArray_BYTES(out), PyArray_STRIDES(out)},
                                    PyArray_DIM(out, axis < 0 ? 0 : axis), reverse, shifted, a.finish(), before));
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

// configure(numbers, how many entrances, route, (general_reduce, general_scan, general_place, general_many), (wrap, saturate,
// raise), (default, exact)): see entrances.py.
PyObject* configure(PyObject*, PyObject* args) {
  PyObject *numbers, *route, *general[4], *words[5];
  int count;
  if (!PyArg_ParseTuple(args, "O!iO(OOOO)(UUU)(UU)", &PyTuple_Type, &numbers, &count, &route, &general[0], &general[1], &general[2],
                        &general[3], &words[0], &words[1], &words[2], &words[3], &words[4])) {
    return nullptr;
  }
  if (PyTuple_GET_SIZE(numbers) != dtype_count || count < 0 || count > most_entrances) {
    return PyErr_Format(PyExc_ValueError, "configure: expected %d dtypes, and at most %d entrances", dtype_count,
                        most_entrances);
  }
  for (int code = 0; code < dtype_count; ++code) {
    declared.numbers[code] = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(numbers, code)));
  }
  if (PyErr_Occurred()) return nullptr;
  declared.entrance_count = count;
  Py_XSETREF(declared.route, Py_NewRef(route));
  PyObject** const kept[] = {&declared.general_reduce, &declared.general_scan, &declared.general_place, &declared.general_many};
  for (int i = 0; i < 4; ++i) Py_XSETREF(*kept[i], Py_NewRef(general[i]));
  PyObject** const known[] = {&declared.wrap, &declared.saturate, &declared.raise, &declared.by_default, &declared.exact};
  for (int i = 0; i < 5; ++i) Py_XSETREF(*known[i], Py_NewRef(words[i]));
  Py_RETURN_NONE;
}

PyObject* available_isas(PyObject*, PyObject*) {
  PyObject* names = PyList_New(0);
  for (const Isa& isa : isas) {
    if (!names || !isa.supported()) continue;
    PyObject* name = PyUnicode_FromString(isa.name);
    if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
    Py_XDECREF(name);
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
  PyObject* all = PyTuple_New(count);
  for (int i = 0; all && i < count; ++i) {
    PyObject* name = PyUnicode_FromString(names[i]);
    if (name) PyTuple_SET_ITEM(all, i, name);
    else Py_CLEAR(all);
  }
  return all;
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

PyObject* alone(PyObject*, PyObject* whether) { return PyBool_FromLong(work_alone(whether == Py_True)); }

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
    {"merge_totals", merge_sums<Total>, METH_VARARGS, nullptr},
    {"merge_doubles", merge_sums<Doubles>, METH_VARARGS, nullptr},
    {"convert_sums", convert_sums, METH_VARARGS, nullptr},
    {"round_totals", round_sums<Total>, METH_VARARGS, nullptr},
    {"round_doubles", round_sums<Doubles>, METH_VARARGS, nullptr},
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
    {"work_alone", alone, METH_O, nullptr},
    {"probe_read", read_probe, METH_O, nullptr},
    {"probe_copy", copy_probe, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foldwise._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace foldwise

PyMODINIT_FUNC PyInit__native() {
  foldwise::keep_constants_at_hand();
  import_array();
  if (!foldwise::ready_direct()) return nullptr;
  PyObject* module = PyModule_Create(&foldwise::definition);
  if (module && PyModule_AddStringConstant(module, "VERSION", FOLDWISE_VERSION) < 0) Py_CLEAR(module);
  if (module && PyModule_AddIntConstant(module, "MOST_THREADS", foldwise::most_threads) < 0) Py_CLEAR(module);
  if (module && PyModule_AddIntConstant(module, "TOTAL_WORDS", foldwise::words_of<foldwise::Total>) < 0) Py_CLEAR(module);
  if (module && PyModule_AddIntConstant(module, "DOUBLES", foldwise::Doubles::count) < 0) Py_CLEAR(module);
#if defined(Py_GIL_DISABLED)
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

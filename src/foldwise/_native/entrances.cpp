#define PY_SSIZE_T_CLEAN
#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#define NO_IMPORT_ARRAY
#include "entrances.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "jobs.h"

namespace foldwise {

namespace {

// One axis as a number of 0..rank-1; false when the general path must look at it.
bool plain_axis(PyObject* axis, int rank, int* at) {
  if (!PyLong_CheckExact(axis)) return false;
  int overflow;
  long a = PyLong_AsLongAndOverflow(axis, &overflow);
  if (a < 0) a += rank;
  *at = static_cast<int>(a);
  return !overflow && a >= 0 && a < rank;
}

// A plain axis argument as a set of bits.
bool plain_axes(PyObject* axis, int rank, uint64_t* folded) {
  const auto add = [&](PyObject* item) {
    int a;
    if (!plain_axis(item, rank, &a) || (*folded >> a & 1)) return false;
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

// The code of a dtype as callers name it, one of NumPy's, a type or a word; -1 where the general path must look at it.
int named_code(PyObject* dtype) {
  if (!PyArray_DescrCheck(dtype) && !PyType_Check(dtype) && !PyUnicode_CheckExact(dtype)) return -1;
  PyArray_Descr* descr;
  if (!PyArray_DescrConverter(dtype, &descr)) {
    PyErr_Clear();
    return -1;
  }
  const int code = PyArray_ISNBO(descr->byteorder) ? code_of(descr->type_num) : -1;
  Py_DECREF(descr);
  return code;
}

// How a call folds; `manner_count` where the general path must look at it.
Manner manner_of(PyObject* overflow, PyObject* accuracy) {
  if (overflow == declared.wrap && accuracy == declared.exact) return exactly;
  if (accuracy != declared.by_default) return manner_count;
  return overflow == declared.wrap       ? plainly
         : overflow == declared.saturate ? saturating
         : overflow == declared.raise    ? raising
                                         : manner_count;
}

// What Python says the first time that a route is wanted; null with an error set where it does not.
const Route* asked_route(long entrance, int code, int result, Manner manner) {
  PyObject* overflow = manner == saturating ? declared.saturate : manner == raising ? declared.raise : declared.wrap;
  PyObject* accuracy = manner == exactly ? declared.exact : declared.by_default;
  PyObject* answer = PyObject_CallFunction(declared.route, "liiOO", entrance, code, result, overflow, accuracy);
  Route route;
  const bool understood = answer && PyArg_Parse(answer, FOLDWISE_ROUTE, &route.fold, &route.column, &route.out, &route.number,
                                                &route.integer, &route.lowest, &route.highest, &route.ending);
  Py_XDECREF(answer);
  return understood ? new Route(route) : nullptr;
}

// The route of an entrance; null with an error set, or with none where the general path must look at it.
const Route* route_for(PyObject* entrance, int code, PyObject* dtype = Py_None, Manner manner = plainly) {
  const long number = PyLong_AsLong(entrance);
  if (number < 0 || number >= declared.entrance_count) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "there is no entrance %ld", number);
    return nullptr;
  }
  const int result = dtype == Py_None ? Entrance::unsaid : named_code(dtype);
  if (result < 0) return nullptr;
  std::atomic<const Route*>& known = declared.entrances[number].routes[manner][code][result];
  const Route* route = known.load(std::memory_order_acquire);
  if (!route && (route = asked_route(number, code, result, manner))) {
    const Route* first = nullptr;
    if (!known.compare_exchange_strong(first, route)) delete std::exchange(route, first);
  }
  return route && route->fold >= 0 ? route : nullptr;
}

bool takes(const char* name, Py_ssize_t wanted, Py_ssize_t given) {
  if (given != wanted) PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", name, wanted, given);
  return given == wanted;
}

bool is_flag(PyObject* object) { return object == Py_False || object == Py_True; }

// A call as the functions below get it, and what all of them look at.
struct Call {
  PyObject* const* args;
  Py_ssize_t count;
  PyArrayObject* x;
  int code;  // of a plain array, or -1

  Call(PyObject* const* given, Py_ssize_t given_count)
      : args(given), count(given_count), x(reinterpret_cast<PyArrayObject*>(args[1])), code(plain_code(args[1])) {}

  int rank() const { return PyArray_NDIM(x); }
  PyObject* general(PyObject* function) const { return PyObject_Vectorcall(function, args, count, nullptr); }
  // There is no plain place for the result, or no room: the general path makes it, or says whose result has none.
  PyObject* without_result(PyObject* function) const {
    PyErr_Clear();
    return general(function);
  }
};

// Over no axis a sum copies its element, the sign of a zero included, if it starts from what changes nothing.
bool is_sum(const Route& route) {
  const auto fold = static_cast<FoldId>(route.fold);
  return fold == FoldId::sum || fold == FoldId::exact_sum;
}

// Whether a number that a fold begins with is plain: a float for floats, an integer in its range for integers.
bool begins_with(PyObject* initial, const Route& route, Manner manner, Finish* finish) {
  const Dtype out = static_cast<Dtype>(route.out);
  if (is_float(out)) {
    if (!PyFloat_CheckExact(initial) && !(PyLong_CheckExact(initial) && manner == plainly)) return false;
    finish->number = PyFloat_AsDouble(initial);
    const bool too_large = PyErr_Occurred();
    if (too_large) PyErr_Clear();
    return !too_large;
  }
  if (!PyLong_CheckExact(initial) || manner != plainly || out == Dtype::boolean) return false;
  int beyond;
  const long long integer = PyLong_AsLongLongAndOverflow(initial, &beyond);
  const bool is_signed = out < Dtype::uint8;
  const __int128 limit = __int128{1} << (8 * item_size(out) - is_signed);
  finish->number = static_cast<double>(integer);
  finish->integer = integer;
  return !beyond && integer < limit && integer >= (is_signed ? -limit : 0);
}

// What is chosen of x: nothing said, or a plain array of bools of whatever shape becomes that of x.
struct Chosen {
  View view{};
  bool plain = true;
  int64_t strides[max_rank];

  Chosen(PyObject* where, PyArrayObject* x) {
    if (where == Py_None) return;
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(where);
    const int rank = PyArray_NDIM(x);
    plain = PyArray_CheckExact(where) && PyArray_TYPE(array) == NPY_BOOL && PyArray_NDIM(array) <= rank;
    for (int a = 0, o = plain ? PyArray_NDIM(array) - rank : 0; plain && a < rank; ++a, ++o) {
      const npy_intp length = o < 0 ? 1 : PyArray_DIM(array, o);
      plain = length == 1 || length == PyArray_DIM(x, a);
      strides[a] = length == 1 ? 0 : PyArray_STRIDE(array, o);
    }
    if (plain) view = {PyArray_BYTES(array), false, rank, PyArray_DIMS(x), strides};
  }

  const View* mask() const { return view.data ? &view : nullptr; }
  // Whether a route takes it: a mean must know how many were chosen.
  bool goes(const Route& route) const {
    const Ending ending = static_cast<Ending>(route.ending);
    return !view.data || (ending != Ending::mean && ending != Ending::ratio);
  }
  // Whether results may be written into what was given.
  bool apart(PyObject* where, PyObject* out) const {
    return !view.data || out == Py_None || !PyArray_Check(out) ||
           !extent_of(reinterpret_cast<PyArrayObject*>(where)).meets(extent_of(reinterpret_cast<PyArrayObject*>(out)));
  }
};

// Whether `out` is the array x itself, or one just like it in the same place.
bool same_memory(PyObject* out, PyArrayObject* x) {
  if (plain_code(out) < 0) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(out);
  const int rank = PyArray_NDIM(x);
  return PyArray_BYTES(array) == PyArray_BYTES(x) && PyArray_TYPE(array) == PyArray_TYPE(x) && PyArray_NDIM(array) == rank &&
         PyArray_ISNOTSWAPPED(array) && PyArray_ISNOTSWAPPED(x) && PyArray_ISWRITEABLE(array) &&
         PyArray_CompareLists(PyArray_DIMS(array), PyArray_DIMS(x), rank) &&
         PyArray_CompareLists(PyArray_STRIDES(array), PyArray_STRIDES(x), rank);
}

// Whether the general path must see to it: means of so many integers need more than 64 bits on the way.
bool too_many(const Route& route, PyArrayObject* x) {
  constexpr npy_intp exact_in_64_bits = npy_intp{1} << 31;
  return route.ending == static_cast<int>(Ending::ratio) && PyArray_SIZE(x) > exact_in_64_bits;
}

// The result of a call that folds some axes.
struct Result : Left {
  const Call& call;

  Result(const Call& by, uint64_t axes, PyObject* keep) : Left(view_of(by.x), axes, keep == Py_True), call(by) {}

  // `given`, if it will do, or a new array; null with no error set where the general path must look at it.
  PyArrayObject* array(int code, PyObject* given) {
    if (empty || (given != Py_None && !plain_out(given, call.x, code, rank, shape))) return nullptr;
    PyArrayObject* out = given != Py_None ? reinterpret_cast<PyArrayObject*>(Py_NewRef(given))
                                          : new_array(rank, shape, code, nullptr);
    if (out) spread(call.rank(), PyArray_STRIDES(out));
    return out;
  }
};

// An array that was given is handed back as it is; of a new one of rank 0, its element.
PyObject* handed_back(PyArrayObject* out, PyObject* given) {
  return given == Py_None ? PyArray_Return(out) : reinterpret_cast<PyObject*>(out);
}

// Means of what is chosen: sums in the accumulator's own dtype, or exact ones of integers, by how many there are.
PyObject* mean_of_chosen(const Call& call, const Route& route, const Chosen& chosen, uint64_t folded) {
  const Dtype in = static_cast<Dtype>(call.code), out = static_cast<Dtype>(route.out);
  const int most_bits = 8 * static_cast<int>(item_size(in)) + std::bit_width(static_cast<uint64_t>(PyArray_SIZE(call.x)));
  const bool exact_in_doubles = is_float(in) || most_bits <= 53;
  const Route* counting = route_for(call.args[0], static_cast<int>(Dtype::boolean));
  if (PyErr_Occurred()) return nullptr;
  Result result(call, folded, call.args[5]);
  // The general path divides what it rounds twice, and what is exact beyond doubles.
  const bool plain = counting && exact_in_doubles && call.args[4] == Py_None && call.args[6] == Py_None &&
                     manner_of(call.args[8], call.args[9]) == plainly && (out == Dtype::float32 || out == Dtype::float64);
  PyArrayObject* means = plain ? result.array(route.out, Py_None) : nullptr;
  const bool whole = static_cast<Ending>(route.ending) == Ending::ratio;
  const Dtype wide = whole ? Dtype::int64 : static_cast<Column>(route.column) == Column::float64 ? Dtype::float64 : Dtype::float32;
  const auto folded_into = [&](Dtype dtype, Job job, const View& x, const View* mask, int64_t bytes) {
    PyArrayObject* made = result.array(static_cast<int>(dtype), Py_None);
    if (!made) return made;
    job.out = dtype;
    Reduced asked{job, {PyArray_BYTES(made), result.strides}, Finish{}};
    reduce_array(x, bytes, mask, folded, &asked, 1);
    return made;
  };
  PyArrayObject* sums = means ? folded_into(wide, job_of(route, call.code), view_of(call.x), chosen.mask(), bytes_of(call.x)) : nullptr;
  PyArrayObject* counts = sums ? folded_into(Dtype::int64, job_of(*counting, static_cast<int>(Dtype::boolean)), chosen.view, nullptr,
                                             PyArray_SIZE(call.x)) : nullptr;
  for (npy_intp i = 0; counts && i < PyArray_SIZE(means); ++i) {
    const char* sum = PyArray_BYTES(sums) + i * item_size(wide);
    const double total = whole ? *reinterpret_cast<const int64_t*>(sum)
                         : wide == Dtype::float64 ? *reinterpret_cast<const double*>(sum) : *reinterpret_cast<const float*>(sum);
    const double ratio = total / reinterpret_cast<const int64_t*>(PyArray_BYTES(counts))[i];
    const double mean = std::isnan(ratio) ? NAN : ratio;  // the one NaN, whatever the division made of it
    if (out == Dtype::float32) reinterpret_cast<float*>(PyArray_BYTES(means))[i] = static_cast<float>(mean);
    else reinterpret_cast<double*>(PyArray_BYTES(means))[i] = mean;
  }
  Py_XDECREF(sums);
  Py_XDECREF(counts);
  if (counts) return PyArray_Return(means);
  Py_XDECREF(means);
  return call.without_result(declared.general_reduce);
}

// The results of several folds over the same axes.
PyObject* reduce_together(const Call& call, PyObject* names, uint64_t folded, const Chosen& chosen) {
  const Py_ssize_t folds = PyTuple_GET_SIZE(names);
  std::vector<const Route*> routes(folds);
  for (Py_ssize_t i = 0; i < folds; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    PyObject* number = PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(call.args[0], name) : nullptr;
    routes[i] = number ? route_for(number, call.code) : nullptr;
    if (!routes[i] || too_many(*routes[i], call.x) || !chosen.goes(*routes[i])) {
      return PyErr_Occurred() ? nullptr : call.general(declared.general_many);
    }
  }
  std::vector<Result> each(folds, Result(call, folded, call.args[4]));
  if (each.empty() || each[0].empty) return call.general(declared.general_many);
  PyObject* results = PyTuple_New(folds);
  std::vector<Reduced> asked;
  for (Py_ssize_t i = 0; results && i < folds; ++i) {
    PyArrayObject* out = each[i].array(routes[i]->out, Py_None);
    if (!out) Py_CLEAR(results);
    else PyTuple_SET_ITEM(results, i, reinterpret_cast<PyObject*>(out));
    if (out) asked.push_back({job_of(*routes[i], call.code), {PyArray_BYTES(out), each[i].strides}, routes[i]->finish()});
  }
  if (!results) return call.without_result(declared.general_many);
  reduce_array(view_of(call.x), bytes_of(call.x), chosen.mask(), folded, asked.data(), static_cast<int>(folds));
  for (Py_ssize_t i = 0; i < folds; ++i) {
    PyTuple_SET_ITEM(results, i, PyArray_Return(reinterpret_cast<PyArrayObject*>(PyTuple_GET_ITEM(results, i))));
  }
  return results;
}

}  // namespace

// reduce(entrance, x, axis, dtype, out, keepdims, initial, where, overflow, accuracy)
PyObject* reduce(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("reduce", 10, count)) return nullptr;
  const Call call(args, count);
  uint64_t folded;
  const Manner manner = manner_of(args[8], args[9]);
  bool plain = call.code >= 0 && is_flag(args[5]) && manner != manner_count && plain_axes(args[2], call.rank(), &folded);
  const Route* route = plain ? route_for(args[0], call.code, args[3], manner) : nullptr;
  if (!route || too_many(*route, call.x)) return PyErr_Occurred() ? nullptr : call.general(declared.general_reduce);
  const Chosen chosen(args[7], call.x);
  if (chosen.plain && !chosen.goes(*route)) return mean_of_chosen(call, *route, chosen, folded);
  Finish finish = route->finish();
  if (!folded && !chosen.view.data && is_sum(*route)) finish.number = -0.0;
  plain = chosen.plain && chosen.apart(args[7], args[4]) &&
          (args[6] == Py_None || begins_with(args[6], *route, manner, &finish)) && (manner != raising || args[4] == Py_None);
  Result result(call, folded, args[5]);
  PyArrayObject* out = plain ? result.array(route->out, args[4]) : nullptr;
  if (!out) return call.without_result(declared.general_reduce);
  Reduced asked{job_of(*route, call.code), {PyArray_BYTES(out), result.strides}, finish};
  reduce_array(view_of(call.x), bytes_of(call.x), chosen.mask(), folded, &asked, 1);
  if (asked.fits || manner != raising) return handed_back(out, args[4]);
  Py_DECREF(out);
  return call.general(declared.general_reduce);  // which says what has overflowed
}

// scan(entrance, x, axis, dtype, out, exclusive, reverse, include_initial, overflow, accuracy)
PyObject* scan(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("scan", 10, count)) return nullptr;
  const Call call(args, count);
  int axis = -1;  // all of them, in C order
  const bool every = args[2] == Py_None;
  const Manner manner = manner_of(args[8], args[9]);
  const bool plain = call.code >= 0 && is_flag(args[5]) && is_flag(args[6]) && is_flag(args[7]) && manner != manner_count &&
                     PyArray_SIZE(call.x) > 0 && call.rank() > 0 && (every || plain_axis(args[2], call.rank(), &axis));
  const bool exclusive = args[5] == Py_True, one_more = args[7] == Py_True, given = args[4] != Py_None;
  const Route* route = plain && !(exclusive && one_more) && !(given && manner == raising)
                           ? route_for(args[0], call.code, args[3], manner) : nullptr;
  if (!route || too_many(*route, call.x)) return PyErr_Occurred() ? nullptr : call.general(declared.general_scan);
  const int rank = every ? 1 : call.rank(), along = every ? 0 : axis;
  npy_intp shape[max_rank] = {PyArray_SIZE(call.x)};
  if (!every) std::copy_n(PyArray_DIMS(call.x), rank, shape);
  shape[along] += one_more;
  const bool in_place = given && same_memory(args[4], call.x) && route->out == call.code && !exclusive && !one_more && !route->number;
  if (given && !in_place && !plain_out(args[4], call.x, route->out, rank, shape)) return call.general(declared.general_scan);
  PyArrayObject* out = given ? reinterpret_cast<PyArrayObject*>(Py_NewRef(args[4]))
                             : new_array(rank, shape, route->out, every ? nullptr : call.x);
  if (!out) return call.without_result(declared.general_scan);
  const bool fits = scan_array(job_of(*route, call.code), call.x, axis, {PyArray_BYTES(out), PyArray_STRIDES(out)}, shape[along],
                               args[6] == Py_True, exclusive || one_more, route->finish());
  if (fits || manner != raising) return reinterpret_cast<PyObject*>(out);
  Py_DECREF(out);
  return call.general(declared.general_scan);  // which says what has overflowed
}

// place(entrance, x, axis, out, keepdims, select_last_index)
PyObject* place(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("place", 6, count)) return nullptr;
  const Call call(args, count);
  int axis = -1;
  const bool plain = call.code >= 0 && is_flag(args[4]) && is_flag(args[5]) && call.rank() > 0 &&
                     (args[2] == Py_None || plain_axis(args[2], call.rank(), &axis));
  const Route* route = plain ? route_for(args[0], call.code) : nullptr;
  if (!route) return PyErr_Occurred() ? nullptr : call.general(declared.general_place);
  const uint64_t every = ~uint64_t{0} >> (64 - call.rank());
  Result result(call, axis < 0 ? every : uint64_t{1} << axis, args[4]);
  PyArrayObject* out = result.array(route->out, args[3]);
  if (!out) return call.without_result(declared.general_place);
  scan_array(job_of(*route, call.code), call.x, axis, {PyArray_BYTES(out), result.strides}, 1, false, args[5] == Py_True,
             route->finish());
  return handed_back(out, args[3]);
}

// reduce_many(entrances by name, x, folds, axis, keepdims, where)
PyObject* reduce_many(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!takes("reduce_many", 6, count)) return nullptr;
  const Call call(args, count);
  uint64_t folded;
  const bool plain = call.code >= 0 && (PyTuple_CheckExact(args[2]) || PyList_CheckExact(args[2])) && is_flag(args[4]) &&
                     plain_axes(args[3], call.rank(), &folded) && folded;
  const Chosen chosen(plain ? args[5] : Py_None, call.x);
  if (!plain || !chosen.plain) return call.general(declared.general_many);
  PyObject* names = PySequence_Tuple(args[2]);  // a list may change while Python is asked for a route
  PyObject* results = names ? reduce_together(call, names, folded, chosen) : nullptr;
  Py_XDECREF(names);
  return results;
}

}  // namespace foldwise

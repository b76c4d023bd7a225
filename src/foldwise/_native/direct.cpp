#include "direct.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>

namespace foldwise {

namespace {

constexpr Py_ssize_t most_parameters = 15, most_arguments = 15;

struct Direct {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* function;
  PyObject* number;
  Target target;
  Py_ssize_t positional;  // parameters that may be given by position
  Py_ssize_t parameters;
  Py_ssize_t arguments;   // of the target, after the number
  PyObject* names[most_parameters];   // interned, owned
  Py_ssize_t places[most_parameters];  // where each goes among the arguments
  PyObject* defaults[most_arguments];  // owned; None where one must be given
};

PyObject* call_direct(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  Direct* direct = reinterpret_cast<Direct*>(self);
  const Py_ssize_t given = PyVectorcall_NARGS(flags);
  bool fits = given <= direct->positional;
  PyObject* slots[1 + most_arguments] = {direct->number};
  for (Py_ssize_t i = 0; i < direct->arguments; ++i) slots[1 + i] = direct->defaults[i];
  for (Py_ssize_t i = 0; fits && i < given; ++i) slots[1 + direct->places[i]] = args[i];
  const Py_ssize_t named = fits && keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; fits && k < named; ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    Py_ssize_t i = std::max<Py_ssize_t>(given, 1);  // the first parameter has no name to callers
    while (i < direct->parameters && direct->names[i] != name) ++i;
    fits = i < direct->parameters;
    if (fits) slots[1 + direct->places[i]] = args[given + k];
  }
  fits = fits && given > 0;
  if (!fits) return PyObject_Vectorcall(direct->function, args, flags, keywords);
  return direct->target(nullptr, slots, 1 + direct->arguments);
}

int visit_direct(PyObject* self, visitproc visit, void* arg) {
  Direct* direct = reinterpret_cast<Direct*>(self);
  Py_VISIT(direct->function);
  return 0;
}

void free_direct(PyObject* self) {
  Direct* direct = reinterpret_cast<Direct*>(self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF(direct->function);
  Py_XDECREF(direct->number);
  for (PyObject* name : direct->names) Py_XDECREF(name);
  for (PyObject* value : direct->defaults) Py_XDECREF(value);
  Py_TYPE(self)->tp_free(self);
}

// Name, documentation, signature and module are the function's.
PyObject* attribute(PyObject* self, PyObject* name) {
  Direct* direct = reinterpret_cast<Direct*>(self);
  if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) return Py_NewRef(direct->function);
  for (const char* own : {"__class__", "__reduce__", "__reduce_ex__", "__call__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) return PyObject_GenericGetAttr(self, name);
  }
  return PyObject_GetAttr(direct->function, name);
}

PyObject* describe(PyObject* self) {
  PyObject* name = PyObject_GetAttrString(reinterpret_cast<Direct*>(self)->function, "__name__");
  PyObject* text = name ? PyUnicode_FromFormat("<foldwise.%U>", name) : nullptr;
  Py_XDECREF(name);
  return text;
}

// Pickled as the function is: by its name.
PyObject* reduce_to_name(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(reinterpret_cast<Direct*>(self)->function, "__qualname__");
}

PyMethodDef direct_methods[] = {{"__reduce__", reduce_to_name, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

// A type with nothing but its head, which is a macro for lists.
PyTypeObject blank_type() {
  const PyVarObject heads[] = {PyVarObject_HEAD_INIT(nullptr, 0)};
  PyTypeObject type{};
  type.ob_base = heads[0];
  return type;
}

PyTypeObject direct_type = blank_type();

}  // namespace

bool ready_direct() {
  direct_type.tp_name = "foldwise._native.direct";
  direct_type.tp_basicsize = sizeof(Direct);
  direct_type.tp_dealloc = free_direct;
  direct_type.tp_free = PyObject_GC_Del;
  direct_type.tp_traverse = visit_direct;
  direct_type.tp_vectorcall_offset = offsetof(Direct, call);
  direct_type.tp_call = PyVectorcall_Call;
  direct_type.tp_getattro = attribute;
  direct_type.tp_repr = describe;
  direct_type.tp_methods = direct_methods;
  direct_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  return PyType_Ready(&direct_type) == 0;
}

PyObject* make_direct(PyObject* function, PyObject* number, PyObject* arguments, Target target) {
  if (!PyFunction_Check(function)) return PyErr_Format(PyExc_TypeError, "direct takes a Python function");
  PyCodeObject* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const Py_ssize_t parameters = code->co_argcount + code->co_kwonlyargcount;
  if (parameters > most_parameters) return PyErr_Format(PyExc_ValueError, "direct takes %zd parameters at most", most_parameters);
  if (PyDict_GET_SIZE(arguments) > most_arguments) return PyErr_Format(PyExc_ValueError, "direct takes %zd arguments at most", most_arguments);
  Direct* direct = PyObject_GC_New(Direct, &direct_type);
  if (!direct) return nullptr;
  direct->call = call_direct;
  direct->function = Py_NewRef(function);
  direct->number = Py_NewRef(number);
  direct->target = target;
  direct->positional = code->co_argcount;
  direct->parameters = parameters;
  direct->arguments = PyDict_GET_SIZE(arguments);
  std::fill_n(direct->names, most_parameters, nullptr);
  std::fill_n(direct->defaults, most_arguments, nullptr);
  PyObject *argument, *blank, *known[most_arguments];
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(arguments, &at, &argument, &blank); ++i) {
    known[i] = argument;
    direct->defaults[i] = Py_NewRef(blank);
  }
  PyObject* names = PyCode_GetVarnames(code);
  PyObject* by_position = PyFunction_GET_DEFAULTS(function);
  PyObject* by_name = PyFunction_GET_KW_DEFAULTS(function);
  const Py_ssize_t first_default = code->co_argcount - (by_position ? PyTuple_GET_SIZE(by_position) : 0);
  bool all_known = names != nullptr;
  for (Py_ssize_t i = 0; all_known && i < parameters; ++i) {
    direct->names[i] = Py_NewRef(PyTuple_GET_ITEM(names, i));
    PyUnicode_InternInPlace(&direct->names[i]);
    Py_ssize_t place = 0;
    while (place < direct->arguments && PyUnicode_Compare(known[place], direct->names[i]) != 0) ++place;
    all_known = place < direct->arguments;
    if (!all_known) break;
    direct->places[i] = place;
    PyObject* value = nullptr;
    if (i < code->co_argcount) {
      if (i >= first_default) value = PyTuple_GET_ITEM(by_position, i - first_default);
    } else if (by_name) {
      value = PyDict_GetItem(by_name, direct->names[i]);
    }
    if (value) Py_XSETREF(direct->defaults[place], Py_NewRef(value));
  }
  Py_XDECREF(names);
  PyObject_GC_Track(reinterpret_cast<PyObject*>(direct));
  if (all_known) return reinterpret_cast<PyObject*>(direct);
  Py_DECREF(direct);
  return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "direct: a parameter is no argument of the core");
}

}  // namespace foldwise

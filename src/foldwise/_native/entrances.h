// The public functions: what is plain and frequent is answered here at once; everything else goes to Python's general
// functions, which come back through run_reduce and run_scan.
#pragma once
#include <Python.h>

namespace foldwise {

// Each as Python calls it: an entrance, then x, axis, ..., as entrances.py lists them.
PyObject* reduce(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* scan(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* place(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* reduce_many(PyObject* self, PyObject* const* args, Py_ssize_t count);

}  // namespace foldwise

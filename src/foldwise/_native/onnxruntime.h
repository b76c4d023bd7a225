// The operators of the ONNX standard inside onnxruntime's sessions: Python declares them, nodes that are plain and frequent
// are run here at once, everything else goes to Python.
#pragma once
#include <Python.h>

namespace foldwise {

// Each as Python calls it: see _native.pyi.
PyObject* declare_operators(PyObject* self, PyObject* operators);
PyObject* choose_operators(PyObject* self, PyObject* number);

}  // namespace foldwise

// Callables that take a Python function's place: the same signature and documentation, without its frame.
#pragma once
#include <Python.h>

namespace foldwise {

// What a direct call ends in: `arguments` holds a number, then what the target takes.
using Target = PyObject* (*)(PyObject* self, PyObject* const* arguments, Py_ssize_t count);

// A callable like `function`, whose calls go to `target` with `number` and the target's own arguments: `arguments` names
// them in order, each with what stands for it where the function has no such parameter. Calls that do not fit the function's signature
// go to the function itself, for it to say so.
PyObject* make_direct(PyObject* function, PyObject* number, PyObject* arguments, Target target);

bool ready_direct();

}  // namespace foldwise

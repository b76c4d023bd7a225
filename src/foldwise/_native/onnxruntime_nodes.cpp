#define PY_SSIZE_T_CLEAN
#define PY_ARRAY_UNIQUE_SYMBOL foldwise_numpy
#define NO_IMPORT_ARRAY
#include "onnxruntime_nodes.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <variant>

#include "jobs.h"
#include "threads.h"

namespace foldwise::onnxruntime {

namespace {

// ---- Python, from whatever thread onnxruntime runs

class Interpreter {
 public:
  Interpreter() {
    if (!Py_IsInitialized()) throw std::runtime_error("foldwise: Python has ended, this node can no longer be run");
    state_ = PyGILState_Ensure();
  }
  ~Interpreter() { PyGILState_Release(state_); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

 private:
  PyGILState_STATE state_;
};

struct Forget {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Owned = std::unique_ptr<PyObject, Forget>;

// An object that was made, or what Python says against it.
Owned made(PyObject* object) {
  if (object) return Owned(object);
  PyErr_WriteUnraisable(nullptr);
  throw std::runtime_error("foldwise: Python failed; the reason is in its error output");
}

// A function's answer. Ours answer a call that they refuse with the text of the refusal.
Owned asked_of(PyObject* function, std::initializer_list<PyObject*> arguments) {
  Owned answer = made(PyObject_Vectorcall(function, arguments.begin(), arguments.size(), nullptr));
  if (!PyUnicode_Check(answer.get())) return answer;
  const char* text = PyUnicode_AsUTF8(answer.get());
  if (!text) made(nullptr);
  throw Failure{failed(text)};
}

// ---- tensors

void row_major(int rank, const int64_t* shape, int64_t item, int64_t* strides) {
  for (int a = rank - 1; a >= 0; --a) {
    strides[a] = item;
    item *= shape[a];
  }
}

struct Tensor {
  Value* value = nullptr;  // none: this input is left out
  char* data = nullptr;
  int rank = 0;
  int64_t shape[max_rank], strides[max_rank];

  explicit Tensor(const Operator& op, Dtype dtype, const Value* given) : value(const_cast<Value*>(given)) {
    if (!value) return;
    TensorInfo* info;
    ask(Slot::tensor_info, given, &info);
    std::size_t axes = 0;
    Status* status = tried(Slot::rank, static_cast<const TensorInfo*>(info), &axes);
    if (!status && axes <= max_rank) status = tried(Slot::shape, static_cast<const TensorInfo*>(info), shape, axes);
    release(Slot::release_tensor_info, info);
    if (status) throw Failure{status};
    if (axes > max_rank) {
      throw std::runtime_error(op.title + "-" + std::to_string(op.since) + ": an input has rank " + std::to_string(axes) +
                               " (accepted: 0.." + std::to_string(max_rank) + "); reshape it first");
    }
    rank = static_cast<int>(axes);
    row_major(rank, shape, item_size(dtype), strides);
    ask(Slot::tensor_data, value, reinterpret_cast<void**>(&data));
  }

  bool empty() const {
    for (int a = 0; a < rank; ++a) {
      if (!shape[a]) return true;
    }
    return false;
  }

  View view() const { return {data, false, rank, shape, strides}; }

  Owned array(Dtype dtype) const {
    const int number = declared.numbers[static_cast<int>(dtype)];
    return made(PyArray_New(&PyArray_Type, rank, shape, number, nullptr, empty() ? nullptr : data, 0,
                            empty() ? 0 : NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, nullptr));
  }
};

// ---- a node

// An attribute as the node gives it, which need not be of the right type.
struct Given {
  const char* name;
  std::variant<int64_t, float, std::vector<int64_t>> value;
};

Owned object_of(int64_t value) { return made(PyLong_FromLongLong(value)); }
Owned object_of(float value) { return made(PyFloat_FromDouble(value)); }
Owned object_of(const std::vector<int64_t>& values) {
  Owned list = made(PyList_New(0));
  for (const int64_t value : values) {
    if (PyList_Append(list.get(), object_of(value).get()) < 0) made(nullptr);
  }
  return list;
}

struct Node {
  const Operator& op;
  std::vector<Given> given;
  std::size_t inputs;
  Dtype dtype;
  // What Python made of it.
  Route route;
  int keepdims, everything, reverse, shifted;
  std::vector<int64_t> axes;  // the named ones
  bool axes_settled;          // and so they are at every run

  Node(const Operator& by, const KernelInfo* info) : op(by) {
    read_attributes(info);
    ask(Slot::input_count, info, &inputs);
    prepare(data_type(info));
    axes_settled = inputs < 2 || settles_axes(info);
  }

  void read_attributes(const KernelInfo* info) {
    for (const std::string& attribute : op.attributes) {
      const char* name = attribute.c_str();
      int64_t integer;
      float number;
      std::size_t size = 0;
      if (had(Slot::int_attribute, info, name, &integer)) {
        given.push_back({name, integer});
      } else if (had(Slot::float_attribute, info, name, &number)) {
        given.push_back({name, number});
      } else if (had(Slot::ints_attribute, info, name, static_cast<int64_t*>(nullptr), &size)) {
        std::vector<int64_t> integers(size);
        if (size) ask(Slot::ints_attribute, info, name, integers.data(), &size);
        given.push_back({name, std::move(integers)});
      }
    }
  }

  // Whether the second input is a constant that names them.
  bool settles_axes(const KernelInfo* info) {
    int constant = 0;
    const Value* value = nullptr;
    ask(Slot::constant_input, info, std::size_t{1}, &constant, &value);
    return constant && value && read_axes(Tensor(op, second(), value), axes);
  }

  Dtype second() const { return op.inputs[1].dtype; }

  // The axes that a tensor of the right rank names; one that is left out names none.
  bool read_axes(const Tensor& named, std::vector<int64_t>& into) const {
    const int rank = op.kind == Kind::scan ? 0 : 1;
    if (!named.value) return rank == 1;
    if (named.rank != rank) return false;
    const int64_t count = rank ? named.shape[0] : 1;
    for (int64_t i = 0; i < count; ++i) {
      into.push_back(second() == Dtype::int32 ? reinterpret_cast<const int32_t*>(named.data)[i]
                                              : reinterpret_cast<const int64_t*>(named.data)[i]);
    }
    return true;
  }

  static int data_type(const KernelInfo* info) {
    TypeInfo* type;
    ask(Slot::input_type, info, std::size_t{0}, &type);
    const TensorInfo* tensor = nullptr;  // the type's own
    int element = any_type;
    Status* status = tried(Slot::tensor_info_of_type, static_cast<const TypeInfo*>(type), &tensor);
    if (!status && tensor) status = tried(Slot::element_type, tensor, &element);
    release(Slot::release_type, type);
    if (status) throw Failure{status};
    return element;
  }

  Owned attributes() const {
    Owned all = made(PyDict_New());
    for (const Given& each : given) {
      const Owned object = std::visit([](const auto& value) { return object_of(value); }, each.value);
      if (PyDict_SetItemString(all.get(), each.name, object.get()) < 0) made(nullptr);
    }
    return all;
  }

  // prepare(dtype, element_type, inputs, attributes) -> (route, keepdims, everything, reverse, shifted, axes)
  void prepare(int element) {
    dtype = dtype_of(element);
    Interpreter interpreter;
    Owned code = made(PyLong_FromLong(dtype == no_dtype ? -1 : static_cast<int>(dtype)));
    Owned type = made(PyLong_FromLong(element));
    Owned count = made(PyLong_FromSize_t(inputs));
    Owned named = attributes();
    Owned prepared = asked_of(op.prepare, {code.get(), type.get(), count.get(), named.get()});
    PyObject* listed;
    if (!PyArg_ParseTuple(prepared.get(), FOLDWISE_ROUTE "iiiiO!", &route.fold, &route.column, &route.out, &route.number,
                          &route.integer, &route.lowest, &route.highest, &route.ending, &keepdims, &everything, &reverse,
                          &shifted, &PyTuple_Type, &listed)) {
      made(nullptr);
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(listed); ++i) {
      axes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(listed, i)));
      if (PyErr_Occurred()) made(nullptr);
    }
  }
};

// ---- a node run

char* output(KernelContext* context, int rank, const int64_t* shape) {
  Value* value;
  void* data;
  ask(Slot::output, context, std::size_t{0}, shape, static_cast<std::size_t>(rank), &value);
  ask(Slot::tensor_data, value, &data);
  return static_cast<char*>(data);
}

struct Call {
  const Node& node;
  KernelContext* context;
  Tensor x;

  Call(const Node& by, KernelContext* in) : node(by), context(in), x(by.op, by.dtype, input(0)) {}

  const Value* input(std::size_t place) const {
    const Value* value;
    ask(Slot::input, context, place, &value);
    return value;
  }

  Tensor second() const {
    return Tensor(node.op, node.inputs < 2 ? no_dtype : node.second(), node.inputs < 2 ? nullptr : input(1));
  }

  // The axes as bits; none where Python must look at them.
  uint64_t axes() const {
    if (node.axes_settled) return bits(node.axes);
    std::vector<int64_t> named;
    return node.read_axes(second(), named) ? bits(named) : 0;
  }

  uint64_t bits(const std::vector<int64_t>& named) const {
    if (named.empty() && node.everything && x.rank) return ~uint64_t{0} >> (64 - x.rank);
    uint64_t folded = 0;
    for (const int64_t axis : named) {
      const int64_t at = axis < 0 ? axis + x.rank : axis;
      if (at < 0 || at >= x.rank || (folded >> at & 1)) return 0;
      folded |= uint64_t{1} << at;
    }
    return folded;
  }

  // Whether it was plain enough to be run without Python.
  bool run_alone() const {
    if (node.route.fold < 0 || x.empty()) return false;
    const uint64_t folded = axes();
    if (!folded) return false;
    const Job job = job_of(node.route, static_cast<int>(node.dtype));
    if (node.op.kind == Kind::scan) {
      const int axis = __builtin_ctzll(folded);
      walk(job, axis, {output(context, x.rank, x.shape), x.strides}, x.shape[axis]);
      return true;
    }
    Left left(x.view(), folded, node.keepdims);
    int64_t steps[max_rank];
    row_major(left.rank, left.shape, item_size(job.out), steps);
    left.spread(x.rank, steps);
    const Output out{output(context, left.rank, left.shape), left.strides};
    if (node.op.kind == Kind::arg) walk(job, __builtin_ctzll(folded), out, 1);
    else fold(job, folded, out);
    return true;
  }

  void fold(const Job& job, uint64_t folded, Output out) const {
    ReducePlan plan;
    make_plan(plan, {job, out, node.route.finish()}, x.view(), nullptr, folded);
    FloatEnvironment environment;
    reduce_as_planned(job, plan);
  }

  void walk(const Job& job, int axis, Output out, int64_t length) const {
    ScanPlan plan;
    make_plan(plan, job, x.view(), axis, out, length, node.reverse, node.shifted, node.route.finish());
    FloatEnvironment environment;
    job.scan().run(plan);
  }

  // answer(attributes, x, axes) -> the result
  void run_in_python() const {
    Interpreter interpreter;
    Owned attributes = node.attributes();
    Owned data = x.array(node.dtype);
    const Tensor named = second();
    Owned axes = named.value ? named.array(node.second()) : Owned(Py_NewRef(Py_None));
    Owned answer = asked_of(node.op.answer, {attributes.get(), data.get(), axes.get()});
    auto* result = reinterpret_cast<PyArrayObject*>(answer.get());
    const int wanted = node.op.output == no_dtype ? static_cast<int>(node.dtype) : static_cast<int>(node.op.output);
    if (plain_code(answer.get()) != wanted || !PyArray_IS_C_CONTIGUOUS(result)) {
      throw std::runtime_error("foldwise: the answer does not fit the operator");
    }
    char* to = output(context, PyArray_NDIM(result), PyArray_DIMS(result));
    if (PyArray_NBYTES(result)) std::memcpy(to, PyArray_BYTES(result), static_cast<std::size_t>(PyArray_NBYTES(result)));
  }
};

}  // namespace

Status* create_node(const CustomOperator* base, Table, const KernelInfo* info, void** node) {
  return answered([&] { *node = new Node(Operator::of(base), info); });
}

Status* run_node(void* node, KernelContext* context) {
  return answered([&] {
    const Call call(*static_cast<const Node*>(node), context);
    if (!call.run_alone()) call.run_in_python();
  });
}

void drop_node(void* node) { delete static_cast<Node*>(node); }

}  // namespace foldwise::onnxruntime

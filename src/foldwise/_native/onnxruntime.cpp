#define PY_SSIZE_T_CLEAN
#include "onnxruntime.h"

#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "onnxruntime_nodes.h"

namespace foldwise {

namespace onnxruntime {

namespace {

// What a session of one opset is given.
struct Family {
  std::vector<std::unique_ptr<Operator>> operators;
  Domain* domain = nullptr;
};

std::vector<std::unique_ptr<Family>>& families = *new std::vector<std::unique_ptr<Family>>;
std::mutex& declaring = *new std::mutex;
thread_local Family* chosen = nullptr;  // for the registration to come

// ---- onnxruntime's questions, answered

// No shape is inferred: with this table, lengths that have no name could only be passed on as -1.
void answer_questions(Operator& op) {
  op.version = table_version;
  op.create_kernel_unchecked = [](const CustomOperator*, Table, const KernelInfo*) -> void* { return nullptr; };
  op.name = [](const CustomOperator* base) { return Operator::of(base).title.c_str(); };
  op.provider = [](const CustomOperator*) -> const char* { return nullptr; };  // CPUs
  op.input_type = [](const CustomOperator* base, std::size_t i) { return element_type_of(Operator::of(base).inputs[i].dtype); };
  op.input_count = [](const CustomOperator* base) { return Operator::of(base).inputs.size(); };
  op.output_type = [](const CustomOperator* base, std::size_t) { return element_type_of(Operator::of(base).output); };
  op.output_count = [](const CustomOperator*) { return std::size_t{1}; };
  op.compute_unchecked = [](void*, KernelContext*) {};
  op.destroy_kernel = drop_node;
  op.input_presence = [](const CustomOperator* base, std::size_t i) { return int{Operator::of(base).inputs[i].optional}; };
  op.output_presence = [](const CustomOperator*, std::size_t) { return 0; };
  op.input_memory = op.output_presence;
  op.least_variadic_inputs = [](const CustomOperator*) { return 0; };
  op.alike_variadic_inputs = op.least_variadic_outputs = op.alike_variadic_outputs = op.least_variadic_inputs;
  op.create_kernel = create_node;
  op.compute = run_node;
  op.first_version = [](const CustomOperator* base) { return Operator::of(base).since; };
  op.last_version = [](const CustomOperator*) { return std::numeric_limits<int>::max(); };
}

Dtype declared_dtype(int code) { return code < 0 ? no_dtype : static_cast<Dtype>(code); }

// (name, since, kind, ((dtype, optional), ...), output, (attribute, ...), prepare, answer); null with an error set.
std::unique_ptr<Operator> operator_from(PyObject* row) {
  auto op = std::make_unique<Operator>();
  const char* title;
  int kind, output;
  PyObject *inputs, *attributes;
  if (!PyArg_ParseTuple(row, "siiO!iO!OO", &title, &op->since, &kind, &PyTuple_Type, &inputs, &output, &PyTuple_Type,
                        &attributes, &op->prepare, &op->answer)) {
    return nullptr;
  }
  op->title = title;
  op->kind = static_cast<Kind>(kind);
  op->output = declared_dtype(output);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    int dtype, optional;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(inputs, i), "ip", &dtype, &optional)) return nullptr;
    op->inputs.push_back({declared_dtype(dtype), optional != 0});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(attributes); ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(attributes, i));
    if (!name) return nullptr;
    op->attributes.push_back(name);
  }
  Py_INCREF(op->prepare);
  Py_INCREF(op->answer);
  answer_questions(*op);
  return op;
}

// The family's operators as a domain of onnxruntime's, which lives for ever, as sessions may.
void make_domain(Family& family) {
  Domain* domain;
  ask(Slot::create_domain, "", &domain);
  for (const auto& op : family.operators) ask(Slot::add_operator, domain, static_cast<CustomOperator*>(op.get()));
  family.domain = domain;
}

}  // namespace
}  // namespace onnxruntime

PyObject* declare_operators(PyObject*, PyObject* operators) {
  if (!PyTuple_Check(operators)) return PyErr_Format(PyExc_TypeError, "declare_operators takes a tuple");
  auto family = std::make_unique<onnxruntime::Family>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operators); ++i) {
    auto op = onnxruntime::operator_from(PyTuple_GET_ITEM(operators, i));
    if (!op) return nullptr;
    family->operators.push_back(std::move(op));
  }
  std::lock_guard lock(onnxruntime::declaring);
  onnxruntime::families.push_back(std::move(family));
  return PyLong_FromSize_t(onnxruntime::families.size() - 1);
}

PyObject* choose_operators(PyObject*, PyObject* number) {
  const std::size_t wanted = PyLong_AsSize_t(number);
  if (PyErr_Occurred()) return nullptr;
  std::lock_guard lock(onnxruntime::declaring);
  if (wanted >= onnxruntime::families.size()) return PyErr_Format(PyExc_ValueError, "there are no operators %zu", wanted);
  onnxruntime::chosen = onnxruntime::families[wanted].get();
  Py_RETURN_NONE;
}

}  // namespace foldwise

// What onnxruntime looks for in a library of operators: registers those that this thread has chosen.
extern "C" __attribute__((visibility("default"))) foldwise::onnxruntime::Status* RegisterCustomOps(
    foldwise::onnxruntime::Options* options, const foldwise::onnxruntime::Base* base) {
  using namespace foldwise::onnxruntime;
  std::lock_guard lock(declaring);
  const Table given = base->table(table_version);
  if (!given) return nullptr;  // too old for us; Python asks for its version before
  if (!table) table = given;
  return answered([&] {
    Family* family = std::exchange(chosen, nullptr);
    if (!family) throw std::runtime_error("foldwise: register its operators with foldwise.plugins.onnxruntime.register");
    if (!family->domain) make_domain(*family);
    ask(Slot::add_domain, options, family->domain);
  });
}

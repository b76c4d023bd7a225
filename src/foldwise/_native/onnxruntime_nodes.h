// Operators inside onnxruntime's sessions, and their nodes: what is plain is folded at once, everything else goes to Python.
#pragma once
#include <Python.h>

#include <iterator>
#include <string>
#include <vector>

#include "onnxruntime_api.h"
#include "types.h"

namespace foldwise::onnxruntime {

// ---- dtypes by onnxruntime's numbers, which are those of ONNX

inline constexpr int any_type = 0;
inline constexpr Dtype no_dtype = Dtype::count;
inline constexpr Dtype dtypes[] = {
    no_dtype,         Dtype::float32, Dtype::uint8,    Dtype::int8,    Dtype::uint16,  Dtype::int16,
    Dtype::int32,     Dtype::int64,   no_dtype,        Dtype::boolean, Dtype::float16, Dtype::float64,
    Dtype::uint32,    Dtype::uint64,  no_dtype,        no_dtype,       Dtype::bfloat16};

inline Dtype dtype_of(int element_type) {
  return element_type < static_cast<int>(std::size(dtypes)) ? dtypes[element_type] : no_dtype;
}

inline int element_type_of(Dtype dtype) {
  for (int type = 0; type < static_cast<int>(std::size(dtypes)); ++type) {
    if (dtype != no_dtype && dtypes[type] == dtype) return type;
  }
  return any_type;
}

// ---- operators as they are declared, for ever

enum class Kind { reduce, arg, scan };

struct Input {
  Dtype dtype;
  bool optional;
};

// One version of an operator.
struct Operator : CustomOperator {
  std::string title;
  int since;
  Kind kind;
  std::vector<Input> inputs;
  Dtype output;
  std::vector<std::string> attributes;  // all that any operator of the family has
  PyObject *prepare, *answer;

  static const Operator& of(const CustomOperator* base) { return *static_cast<const Operator*>(base); }
};

// ---- their nodes, as onnxruntime makes, runs and drops them

Status* create_node(const CustomOperator* base, Table, const KernelInfo* info, void** node);
Status* run_node(void* node, KernelContext* context);
void drop_node(void* node);

}  // namespace foldwise::onnxruntime

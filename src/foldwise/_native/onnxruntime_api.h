// As much of onnxruntime's C interface as an operator needs. Nothing of it is linked: onnxruntime hands over a table of
// functions, in an order that never changes, and calls back through a struct of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>

namespace foldwise::onnxruntime {

struct Status;
struct Value;
struct TypeInfo;
struct TensorInfo;
struct Options;
struct Domain;
struct KernelInfo;
struct KernelContext;
struct ShapeContext;

using Table = void* const*;

// The functions used here, by their places in the table.
enum class Slot : int {
  create_status = 0,
  create_domain = 26,
  add_operator = 27,
  add_domain = 28,
  tensor_data = 51,
  tensor_info_of_type = 55,
  element_type = 60,
  rank = 61,
  shape = 62,
  tensor_info = 65,
  float_attribute = 85,
  int_attribute = 86,
  input = 90,
  output = 91,
  release_status = 93,
  release_type = 98,
  release_tensor_info = 99,
  ints_attribute = 163,
  input_count = 230,
  input_type = 234,
  constant_input = 249,
};

constexpr std::uint32_t table_version = 17;  // of onnxruntime 1.17; every later one has this table too

struct Base {
  Table (*table)(std::uint32_t version);
  const char* (*version)();
};

// An operator as onnxruntime asks about it. Members keep their order; the last four came later, and stay empty.
struct CustomOperator {
  std::uint32_t version;
  void* (*create_kernel_unchecked)(const CustomOperator*, Table, const KernelInfo*);
  const char* (*name)(const CustomOperator*);
  const char* (*provider)(const CustomOperator*);
  int (*input_type)(const CustomOperator*, std::size_t);
  std::size_t (*input_count)(const CustomOperator*);
  int (*output_type)(const CustomOperator*, std::size_t);
  std::size_t (*output_count)(const CustomOperator*);
  void (*compute_unchecked)(void* kernel, KernelContext*);
  void (*destroy_kernel)(void* kernel);
  int (*input_presence)(const CustomOperator*, std::size_t);
  int (*output_presence)(const CustomOperator*, std::size_t);
  int (*input_memory)(const CustomOperator*, std::size_t);
  int (*least_variadic_inputs)(const CustomOperator*);
  int (*alike_variadic_inputs)(const CustomOperator*);
  int (*least_variadic_outputs)(const CustomOperator*);
  int (*alike_variadic_outputs)(const CustomOperator*);
  Status* (*create_kernel)(const CustomOperator*, Table, const KernelInfo*, void** kernel);
  Status* (*compute)(void* kernel, KernelContext*);
  Status* (*infer_shape)(const CustomOperator*, ShapeContext*);
  int (*first_version)(const CustomOperator*);
  int (*last_version)(const CustomOperator*);
  std::size_t (*may_share)(int** inputs, int** outputs);
  void (*release_may_share)(int* inputs, int* outputs);
  std::size_t (*aliases)(int** inputs, int** outputs);
  void (*release_aliases)(int* inputs, int* outputs);
};

inline Table table = nullptr;

template <class... Args>
Status* tried(Slot slot, Args... args) {
  return reinterpret_cast<Status* (*)(Args...)>(table[static_cast<int>(slot)])(args...);
}

template <class Thing>
void release(Slot slot, Thing* thing) {
  reinterpret_cast<void (*)(Thing*)>(table[static_cast<int>(slot)])(thing);
}

inline Status* failed(const char* text) {
  return reinterpret_cast<Status* (*)(int, const char*)>(table[static_cast<int>(Slot::create_status)])(1, text);
}

// What onnxruntime refused, on its way back to onnxruntime.
struct Failure {
  Status* status;
};

template <class... Args>
void ask(Slot slot, Args... args) {
  if (Status* status = tried(slot, args...)) throw Failure{status};
}

// Whether it could be had.
template <class... Args>
bool had(Slot slot, Args... args) {
  Status* status = tried(slot, args...);
  if (status) release(Slot::release_status, status);
  return !status;
}

// Nothing is thrown at onnxruntime: it gets a status.
template <class Work>
Status* answered(Work&& work) {
  try {
    work();
    return nullptr;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace foldwise::onnxruntime

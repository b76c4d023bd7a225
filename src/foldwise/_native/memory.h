// Large results come from memory kept for them. Touching fresh pages costs more than most folds: the kernel clears
// them first, at a fraction of the speed at which they are then written.
#pragma once
#include <Python.h>

#include <cstdint>

namespace foldwise {

// From this size on a result is worth keeping memory for; below it, malloc keeps its own.
constexpr std::int64_t large_result = 8 << 20;

// How much freed memory may be kept, in bytes. The kernel may take it back under pressure; 0 keeps none.
void set_kept_memory(std::int64_t bytes);
std::int64_t kept_memory();

// NumPy arrays made inside this scope take their data from the memory kept.
class LargeResults {
 public:
  explicit LargeResults(std::int64_t bytes);
  ~LargeResults();
  LargeResults(const LargeResults&) = delete;
  LargeResults& operator=(const LargeResults&) = delete;

 private:
  PyObject* before_ = nullptr;
};

}  // namespace foldwise

// One fold on one ISA: this file is compiled once for each pair.
#include "reduce.h"
#include "scan.h"

#define FOLDWISE_JOIN_(a, b, c) a##b##_##c
#define FOLDWISE_JOIN(a, b, c) FOLDWISE_JOIN_(a, b, c)

namespace foldwise {

namespace FOLDWISE_ISA {

template <class S>
Kernel kernel_of() {
  constexpr FoldId id = FoldId::FOLDWISE_FAMILY;
  using Reduced = typename FoldFor<id, S, typename ReducedIn<S>::type>::type;
  using Scanned = typename FoldFor<id, S, typename ScannedIn<S>::type>::type;
  // Whether a dtype overflows is a question for 64-bit integers, into which the narrower ones are read.
  if constexpr (is_judged<Reduced>) {
    if constexpr (std::is_integral_v<S> && sizeof(S) == 8) return {reduce<Reduced>, scan<Scanned>};
    else return {nullptr, nullptr};
  } else if constexpr (std::is_same_v<S, uint64_t>) {
    return kernel_of<int64_t>();
  } else {
    return {reduce<Reduced>, scan<Scanned>};
  }
}

}  // namespace FOLDWISE_ISA

// The row of the kernel table, in the order of Column.
void FOLDWISE_JOIN(fill_, FOLDWISE_ISA, FOLDWISE_FAMILY)(Kernel* row) {
  using namespace FOLDWISE_ISA;
  row[static_cast<int>(Column::float16)] = kernel_of<half>();
  row[static_cast<int>(Column::bfloat16)] = kernel_of<bfloat>();
  row[static_cast<int>(Column::float32)] = kernel_of<float>();
  row[static_cast<int>(Column::float64)] = kernel_of<double>();
  row[static_cast<int>(Column::int32)] = kernel_of<std::int32_t>();
  row[static_cast<int>(Column::int64)] = kernel_of<int64_t>();
  row[static_cast<int>(Column::uint64)] = kernel_of<uint64_t>();
}

}  // namespace foldwise

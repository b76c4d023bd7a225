// One fold on one ISA: this file is compiled once for each pair.
#include "arg.h"
#include "exact_reduce.h"
#include "reduce.h"
#include "scan.h"

#define FOLDWISE_JOIN_(a, b, c) a##b##_##c
#define FOLDWISE_JOIN(a, b, c) FOLDWISE_JOIN_(a, b, c)

namespace foldwise {

namespace FOLDWISE_ISA {

#if defined(FOLDWISE_SCANS_APART)
#define FOLDWISE_SCAN(S) extern template bool (*scan_of<FoldOf<FoldId::FOLDWISE_FAMILY>, S>())(const ScanPlan&);
FOLDWISE_EACH_SCANNED(FOLDWISE_SCAN)
#undef FOLDWISE_SCAN
#endif

template <class A>
constexpr Dtype dtype_of = std::is_same_v<A, float>           ? Dtype::float32
                           : std::is_same_v<A, double>        ? Dtype::float64
                           : std::is_same_v<A, std::int32_t>  ? Dtype::int32
                           : std::is_same_v<A, int64_t>       ? Dtype::int64
                           : std::is_same_v<A, uint64_t>      ? Dtype::uint64
                           : std::is_same_v<A, std::uint32_t> ? Dtype::uint32
                           : std::is_same_v<A, std::int16_t>  ? Dtype::int16
                           : std::is_same_v<A, std::uint16_t> ? Dtype::uint16
                           : std::is_same_v<A, std::int8_t>   ? Dtype::int8
                                                              : Dtype::uint8;

// Whether a dtype overflows is a question for 64-bit integers, into which the narrower ones are read.
template <class Fold, class S>
constexpr bool is_needed = is_judged<Fold>                ? std::is_integral_v<S> && sizeof(S) == 8
                           : std::is_same_v<S, uint64_t> ? !Fold::signless
                                                         : true;

// Whether there is a scan for results as short as its elements, where others are longer.
template <class Fold>
constexpr bool scans_short = !small && requires { requires Fold::is_scanned_short; } && !std::is_same_v<typename Fold::Source, typename Fold::Value>;

template <class S>
Kernel kernel_of() {
  constexpr Kernel::Scan none = {nullptr, Dtype::count};
  using Family = FoldOf<FoldId::FOLDWISE_FAMILY>;
  if constexpr (Family::template exists<S>) {
    using Reduced = typename Family::template Reduced<S>;
    if constexpr (requires(const ScanPlan& plan) { Reduced::place(plan); }) {
      return {nullptr, Dtype::int64, {Reduced::place, Dtype::int64}, none};
    } else if constexpr (is_needed<Reduced, S>) {
      Kernel kernel{reduce<Reduced>, dtype_of<typename Reduced::Value>, none, none, part_of<Reduced>};
      if constexpr (Family::template is_scanned<S>) {
        kernel.scan = {scan_of<Family, S>(), dtype_of<typename Family::template Scanned<S>::Value>};
        if constexpr (scans_short<Reduced>) kernel.wrapping = {scan<typename Family::template ScannedShort<S>>, dtype_of<S>};
      }
      return kernel;
    }
  }
  return {nullptr, Dtype::count, none, none};
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
  row[static_cast<int>(Column::uint8)] = kernel_of<std::uint8_t>();
  row[static_cast<int>(Column::int8)] = kernel_of<std::int8_t>();
  row[static_cast<int>(Column::int16)] = kernel_of<std::int16_t>();
  row[static_cast<int>(Column::uint16)] = kernel_of<std::uint16_t>();
}

}  // namespace foldwise

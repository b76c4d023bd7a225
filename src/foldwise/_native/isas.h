// The ISAs this library was built for, the most capable last.
#pragma once
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "types.h"

namespace foldwise {

#if defined(FOLDWISE_HAS_SSE2)
#define FOLDWISE_ISA sse2
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_AVX2)
#define FOLDWISE_ISA avx2
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_AVX512)
#define FOLDWISE_ISA avx512
#include "isa_rows.h"
#endif
#if defined(FOLDWISE_HAS_NEON)
#define FOLDWISE_ISA neon
#include "isa_rows.h"
#endif

struct Isa {
  const char* name;
  bool (*supported)();
  void (*fill)(KernelTable&);
};

#if defined(__x86_64__)
// Clang 15 has no name for it.
inline bool runs_f16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
// What CMakeLists.txt has the compiler use for them: a virtual machine may hide any of it.
inline bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && runs_f16c() &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
inline bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

inline const Isa isas[] = {
#if defined(FOLDWISE_HAS_SSE2)
    {"sse2", [] { return true; }, fill_sse2_all},
#endif
#if defined(FOLDWISE_HAS_AVX2)
    {"avx2", runs_avx2, fill_avx2_all},
#endif
#if defined(FOLDWISE_HAS_AVX512)
    {"avx512", runs_avx512, fill_avx512_all},
#endif
#if defined(FOLDWISE_HAS_NEON)
    {"neon", [] { return true; }, fill_neon_all},
#endif
};

}  // namespace foldwise

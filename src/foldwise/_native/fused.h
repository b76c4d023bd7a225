// x * y + z of floats, rounded once: by one instruction where there is one, elsewhere put together from others that lead to the
// same bits.
#pragma once
#include "vec.h"

namespace foldwise::FOLDWISE_ISA {

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool fuses = true;

template <class V>
FW_INLINE V fused(V x, V y, V z) {
  [[maybe_unused]] constexpr bool wide = sizeof(x[0]) == 8;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && wide) return (V)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
  else if constexpr (sizeof(V) == 64) return (V)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
  else
#endif
#if defined(__FMA__)
  if constexpr (sizeof(V) == 32 && wide) return (V)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
  else if constexpr (sizeof(V) == 32) return (V)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
  else if constexpr (sizeof(V) == 16 && wide) return (V)_mm_fmadd_pd((__m128d)x, (__m128d)y, (__m128d)z);
  else if constexpr (sizeof(V) == 16) return (V)_mm_fmadd_ps((__m128)x, (__m128)y, (__m128)z);
  else
#else
  if constexpr (sizeof(V) == 16 && wide) return (V)vfmaq_f64((float64x2_t)z, (float64x2_t)x, (float64x2_t)y);
  else if constexpr (sizeof(V) == 16) return (V)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
  else
#endif
  {
    V r;
    for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof(x[0])); ++i) {
      if constexpr (wide) r[i] = __builtin_fma(x[i], y[i], z[i]);
      else r[i] = __builtin_fmaf(x[i], y[i], z[i]);
    }
    return r;
  }
}

#else
constexpr bool fuses = false;

// A sum, and what rounding took from it: together they are exact.
template <class V>
struct SumAndLoss {
  V sum, lost;
  FW_INLINE SumAndLoss(V a, V b) : sum(a + b) {
    const V of_b = sum - a;
    lost = (a - (sum - of_b)) + (b - of_b);
  }
};

// A sum of doubles rounded to odd: where digits are lost, the last one that is left is odd. Whatever is made of it afterwards, of
// fewer digits, is then rounded as if nothing had been lost before.
template <class V>
FW_INLINE V sum_to_odd(V a, V b) {
  using Bits = typename VectorOf<int64_t, sizeof(V) / 8>::type;
  const SumAndLoss<V> exact(a, b);
  const Bits bits = std::bit_cast<Bits>(exact.sum);
  const Bits inexact = (Bits)(exact.lost > 0) | (Bits)(exact.lost < 0), even = (bits & 1) - 1;
  const Bits away = (Bits)((exact.lost > 0) ^ (exact.sum > 0)) | 1;  // from zero: 1, and otherwise -1
  return std::bit_cast<V>(bits + (inexact & even & away));
}

template <class V>
FW_OUTLINE V fused(V x, V y, V z) {
  if constexpr (sizeof(x[0]) == 4) {
    using Wide = typename VectorOf<double, sizeof(V) / 4>::type;
    const auto wide = [](V v) { return __builtin_convertvector(v, Wide); };
    return __builtin_convertvector(sum_to_odd(wide(x) * wide(y), wide(z)), V);  // the product is exact
  } else {
    const auto upper = [](V v) {
      const V far = v * 0x8000001p0;
      return far - (far - v);
    };
    const V product = x * y, a = upper(x), b = upper(y), c = x - a, d = y - b;
    const V rest = c * d - (((product - a * b) - c * b) - a * d);
    const SumAndLoss<V> low(z, rest), high(product, low.sum);
    return high.sum + sum_to_odd(low.lost, high.lost);
  }
}
#endif

// The same where x * y is exact: rounded once or twice, it is one result.
template <class T, int N>
FW_INLINE Pack<T, N> multiplied_and_added(const Pack<T, N>& a, const Pack<T, N>& b, const Pack<T, N>& c) {
  return each([](auto x, auto y, auto z) FW_INLINED {
    if constexpr (fuses) return fused(x, y, z);
    else return x * y + z;
  }, a, b, c);
}

// a + b, and what is left of a without b, by the units that multiply: where everything is added, they would idle.
template <class V>
FW_INLINE V added_aside(V a, V b) {
#if defined(__FMA__)
  return fused(a, V{} + 1, b);
#else
  return a + b;
#endif
}
template <class V>
FW_INLINE V taken_aside(V a, V b) {
#if defined(__FMA__)
  return fused(b, V{} - 1, a);
#else
  return a - b;
#endif
}

}  // namespace foldwise::FOLDWISE_ISA

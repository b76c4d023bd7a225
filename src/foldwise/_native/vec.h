// Packs: fixed numbers of elements on the compilers' vector extensions.
// Everything here has the same value on every ISA; only the number of native vectors in a pack differs.
#pragma once
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define FW_INLINE inline __attribute__((always_inline))
// For steps that are rare or heavy by themselves: inlined everywhere they would be most of the library.
#define FW_OUTLINE __attribute__((noinline))
#define FW_RARELY __attribute__((noinline, cold))
// Steps that belong into the loops that take them, but on the instruction set that hardly any machine stops at, where each of them
// is a page of instructions.
#if defined(__x86_64__) && !defined(__AVX2__)
#define FW_STEP FW_OUTLINE
#else
#define FW_STEP FW_INLINE
#endif
// Behind a lambda's parameters: part of the loop it is called in.
#define FW_INLINED __attribute__((always_inline))

namespace foldwise::FOLDWISE_ISA {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

// Whether this is built for size.
#if defined(FOLDWISE_SMALL)
constexpr bool small = true;
#else
constexpr bool small = false;
#endif

// step(0), ..., step(N - 1), one after the other in the code: what they index stays in registers.
template <int N, class Step>
FW_INLINE void repeat(Step&& step) {
  if constexpr (N == 0) return;
  else if constexpr (N == 1) step(0);
  else [&]<int... i>(std::integer_sequence<int, i...>) FW_INLINED { (step(i), ...); }(std::make_integer_sequence<int, N>{});
}

template <class T> constexpr int native = vector_bytes / static_cast<int>(sizeof(T));

template <int Bytes> struct BitsOf;
template <> struct BitsOf<1> { using type = std::int8_t; };
template <> struct BitsOf<2> { using type = std::int16_t; };
template <> struct BitsOf<4> { using type = std::int32_t; };
template <> struct BitsOf<8> { using type = int64_t; };
template <class T> using bits_of = typename BitsOf<sizeof(T)>::type;

template <class T, int N> struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
  typedef T loose __attribute__((vector_size(N * sizeof(T)), aligned(1), may_alias));
};

// N elements of T: one vector, or several native ones.
template <class T, int N>
struct Pack {
  static constexpr int width = N < native<T> ? N : native<T>;
  static constexpr int chunks = N / width;
  using Vector = typename VectorOf<T, width>::type;
  Vector v[chunks];

  T operator[](int i) const { return v[i / width][i % width]; }
};

template <class T, int N>
FW_INLINE Pack<T, N> splat(T value) {
  Pack<T, N> r;
  repeat<Pack<T, N>::chunks>([&](int c) FW_INLINED { r.v[c] = value - typename Pack<T, N>::Vector{}; });  // not 0 + value: -0.0 stays
  return r;
}

// Applies a function of native vectors to packs, chunk by chunk.
template <class F, class T, int N, class... More>
FW_INLINE Pack<T, N> each(F&& f, const Pack<T, N>& a, const More&... more) {
  Pack<T, N> r;
  repeat<Pack<T, N>::chunks>([&](int c) FW_INLINED { r.v[c] = f(a.v[c], more.v[c]...); });
  return r;
}

// Integers wrap: their arithmetic is done without signs, where overflow is defined.
template <class F, class T, int N>
FW_INLINE Pack<T, N> wrapping(F&& f, const Pack<T, N>& a, const Pack<T, N>& b) {
  if constexpr (std::is_integral_v<T>) {
    using Signless = typename VectorOf<std::make_unsigned_t<T>, Pack<T, N>::width>::type;
    using Vector = typename Pack<T, N>::Vector;
    return each([&](Vector x, Vector y) { return (Vector)f((Signless)x, (Signless)y); }, a, b);
  } else {
    return each(f, a, b);
  }
}

template <class T, int N> FW_INLINE Pack<T, N> operator+(Pack<T, N> a, Pack<T, N> b) {
  return wrapping([](auto x, auto y) { return x + y; }, a, b);
}
template <class T, int N> FW_INLINE Pack<T, N> operator-(Pack<T, N> a, Pack<T, N> b) {
  return wrapping([](auto x, auto y) { return x - y; }, a, b);
}
template <class T, int N> FW_INLINE Pack<T, N> operator*(Pack<T, N> a, Pack<T, N> b) {
  return wrapping([](auto x, auto y) { return x * y; }, a, b);
}

template <class T, int N> FW_INLINE Pack<T, N> magnitude(const Pack<T, N>& a) {
  using Bits = std::make_unsigned_t<bits_of<T>>;
  using Words = typename VectorOf<Bits, Pack<T, N>::width>::type;
  if constexpr (std::is_floating_point_v<T>) {
    return each([](auto x) { return std::bit_cast<decltype(x)>(std::bit_cast<Words>(x) & (~Bits{0} >> 1)); }, a);
  } else if constexpr (std::is_signed_v<T>) {
    return each([](auto x) { return x < 0 ? (decltype(x))(Words{} - (Words)x) : x; }, a);
  } else {
    return a;
  }
}

// 0, 1, 2, ...
template <class T, int N>
FW_INLINE auto lane_numbers() {
  return []<int... i>(std::integer_sequence<int, i...>) {
    return typename VectorOf<T, N>::type{static_cast<T>(i)...};
  }(std::make_integer_sequence<int, N>{});
}

// Where x or y is a NaN.
template <class V>
FW_INLINE auto unordered(V x, V y) { return (x != x) | (y != y); }

// The lanes of four or eight bytes in which a comparison holds, as bits.
template <class V>
FW_INLINE unsigned lanes_where(V holds) {
  [[maybe_unused]] constexpr bool wide = sizeof(holds[0]) == 8;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && wide) return _mm512_movepi64_mask((__m512i)holds);
  else if constexpr (sizeof(V) == 64) return _mm512_movepi32_mask((__m512i)holds);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && wide) return _mm256_movemask_pd((__m256d)holds);
  else if constexpr (sizeof(V) == 32) return _mm256_movemask_ps((__m256)holds);
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16 && wide) return _mm_movemask_pd((__m128d)holds);
  else if constexpr (sizeof(V) == 16) return _mm_movemask_ps((__m128)holds);
#endif
  unsigned bits = 0;
  for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof(holds[0])); ++i) bits |= unsigned(holds[i] != 0) << i;
  return bits;
}

// The same of one or two bytes.
template <class V>
FW_INLINE uint64_t short_lanes_where(V holds) {
  [[maybe_unused]] constexpr bool bytes = sizeof(holds[0]) == 1;
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64 && bytes) return _mm512_movepi8_mask((__m512i)holds);
  else if constexpr (sizeof(V) == 64) return _mm512_movepi16_mask((__m512i)holds);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && bytes) return static_cast<unsigned>(_mm256_movemask_epi8((__m256i)holds));
  else if constexpr (sizeof(V) == 32) {
    const __m256i all = (__m256i)holds;
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1))));
  }
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16 && bytes) return static_cast<unsigned>(_mm_movemask_epi8((__m128i)holds));
  else if constexpr (sizeof(V) == 16) return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16((__m128i)holds, __m128i{})));
#endif
  uint64_t bits = 0;
  for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof(holds[0])); ++i) bits |= uint64_t{holds[i] != 0} << i;
  return bits;
}

// ---- moving elements about

template <int... I, class V>
FW_INLINE auto picked(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}

template <int M, class V, class Index, int... I>
FW_INLINE auto pick(V a, V b, Index, std::integer_sequence<int, I...>) {
  return picked(a, b, std::integer_sequence<int, Index{}(I)...>{});
}

// The M elements index(0..M-1) of a followed by b.
template <int M, class V, class Index>
FW_INLINE auto pick(V a, V b, Index index) {
  return pick<M>(a, b, index, std::make_integer_sequence<int, M>{});
}

// N rows of N elements become N columns.
template <int N, int half = N / 2, class V>
FW_INLINE void transpose(V* rows) {
  repeat<N>([&](int i) FW_INLINED {
    if (i & half) return;
    const V a = rows[i], b = rows[i + half];
    rows[i] = pick<N>(a, b, [](int k) { return k & half ? N + k - half : k; });
    rows[i + half] = pick<N>(a, b, [](int k) { return k & half ? N + k : k + half; });
  });
  if constexpr (half > 1) transpose<N, half / 2>(rows);
}

template <class T, int N> FW_INLINE Pack<T, N / 2> lower(const Pack<T, N>& a) {
  Pack<T, N / 2> r;
  if constexpr (Pack<T, N>::chunks > 1) {
    repeat<Pack<T, N / 2>::chunks>([&](int c) FW_INLINED { r.v[c] = a.v[c]; });
  } else {
    r.v[0] = pick<N / 2>(a.v[0], a.v[0], [](int i) { return i; });
  }
  return r;
}

template <class T, int N> FW_INLINE Pack<T, N / 2> upper(const Pack<T, N>& a) {
  Pack<T, N / 2> r;
  if constexpr (Pack<T, N>::chunks > 1) {
    repeat<Pack<T, N / 2>::chunks>([&](int c) FW_INLINED { r.v[c] = a.v[Pack<T, N / 2>::chunks + c]; });
  } else {
    r.v[0] = pick<N / 2>(a.v[0], a.v[0], [](int i) { return i + N / 2; });
  }
  return r;
}

// All elements together, the halves first.
template <class T, int N>
FW_INLINE T summed(const Pack<T, N>& a) {
  if constexpr (N == 1) return a[0];
  else return summed(lower(a) + upper(a));
}

template <class T, int N> FW_INLINE Pack<T, 2 * N> joined_halves(const Pack<T, N>& a, const Pack<T, N>& b) {
  return {{pick<2 * N>(a.v[0], b.v[0], [](int i) { return i; })}};
}

// Elements i * M to (i + 1) * M - 1, whole native vectors of them.
template <int M, class T, int N> FW_INLINE Pack<T, M> part(const Pack<T, N>& a, int i) {
  Pack<T, M> r;
  repeat<Pack<T, M>::chunks>([&](int c) FW_INLINED { r.v[c] = a.v[i * Pack<T, M>::chunks + c]; });
  return r;
}

// The lower (Half = 0) or upper (Half = 1) halves of the groups of G elements in a, then in b.
template <int G, int Half, class T, int N>
FW_INLINE Pack<T, N> halves(const Pack<T, N>& a, const Pack<T, N>& b) {
  constexpr auto index = [](int k) { return k / (G / 2) * G + k % (G / 2) + Half * (G / 2); };
  Pack<T, N> r;
  if constexpr (Pack<T, N>::chunks == 1) {
    r.v[0] = pick<N>(a.v[0], b.v[0], index);
  } else {
    T both[2 * N], chosen[N];
    std::memcpy(both, &a, sizeof a);
    std::memcpy(both + N, &b, sizeof b);
    for (int k = 0; k < N; ++k) chosen[k] = both[index(k)];
    std::memcpy(&r, chosen, sizeof r);
  }
  return r;
}

// The lower half of a, the upper half of b, each in its place.
template <class T, int N>
FW_INLINE Pack<T, N> halves_of(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> r;
  if constexpr (Pack<T, N>::chunks == 1) {
    r.v[0] = pick<N>(a.v[0], b.v[0], [](int i) { return i < N / 2 ? i : N + i; });
  } else {
    repeat<Pack<T, N>::chunks>([&](int c) FW_INLINED { r.v[c] = c < Pack<T, N>::chunks / 2 ? a.v[c] : b.v[c]; });
  }
  return r;
}

// The even (Odd = 0) or odd (Odd = 1) elements of a, then of b.
template <int Odd, class T, int N>
FW_INLINE Pack<T, N> every_second(const Pack<T, N>& a, const Pack<T, N>& b) {
  constexpr auto index = [](int k) { return 2 * k + Odd; };
  Pack<T, N> r;
  if constexpr (Pack<T, N>::chunks == 1) {
    r.v[0] = pick<N>(a.v[0], b.v[0], index);
  } else {
    constexpr int C = Pack<T, N>::chunks, W = Pack<T, N>::width;
    repeat<C>([&](int c) FW_INLINED {
      const auto& from = c < C / 2 ? a : b;
      r.v[c] = pick<W>(from.v[2 * c % C], from.v[2 * c % C + 1], index);
    });
  }
  return r;
}

// The elements of a and b in turns: the lower (Half = 0) or upper (Half = 1) half of them all.
template <int Half, class T, int N>
FW_INLINE Pack<T, N> in_turns(const Pack<T, N>& a, const Pack<T, N>& b) {
  constexpr int C = Pack<T, N>::chunks, W = Pack<T, N>::width;
  constexpr auto lower = [](int k) { return k / 2 + k % 2 * W; };
  constexpr auto upper = [](int k) { return W / 2 + k / 2 + k % 2 * W; };
  Pack<T, N> r;
  repeat<C>([&](int c) FW_INLINED {
    const int half = Half * C + c, from = half / 2;
    r.v[c] = half % 2 ? pick<W>(a.v[from], b.v[from], upper) : pick<W>(a.v[from], b.v[from], lower);
  });
  return r;
}

// Inside every group of 2H elements: the last of the lower half, seen by the upper half; what `absent` has there elsewhere.
template <int H, class T, int N>
FW_INLINE Pack<T, N> carried_up(const Pack<T, N>& a, const Pack<T, N>& absent) {
  constexpr int W = Pack<T, N>::width;
  Pack<T, N> r;
  repeat<Pack<T, N>::chunks>([&](int c) FW_INLINED {
    if constexpr (H < W) {
      constexpr auto seen = [](int i) { return i % (2 * H) >= H ? i / (2 * H) * 2 * H + H - 1 : Pack<T, N>::width + i; };
      r.v[c] = pick<W>(a.v[c], absent.v[c], seen);
    } else {
      constexpr int step = H / W;
      const int group = c / (2 * step) * 2 * step;
      r.v[c] = c % (2 * step) >= step ? a.v[group + step - 1][W - 1] - typename Pack<T, N>::Vector{} : absent.v[c];
    }
  });
  return r;
}

// One NaN: quiet, positive, no payload, whatever the hardware and the operands' order made of it.
template <class A, int N>
FW_INLINE Pack<A, N> canonical(const Pack<A, N>& a) {
  if constexpr (std::is_floating_point_v<A>) {
    const Pack<A, N> nan = splat<A, N>(std::numeric_limits<A>::quiet_NaN());
    return each([](auto x, auto quiet) { return x != x ? quiet : x; }, a, nan);
  } else {
    return a;
  }
}

template <class T>
FW_INLINE T canonical_nan() {
  if constexpr (std::is_same_v<T, half>) return {0x7e00};
  else if constexpr (std::is_same_v<T, bfloat>) return {0x7fc0};
  else return std::numeric_limits<T>::quiet_NaN();
}
template <class T>
FW_INLINE bool is_nan(T value) {
  if constexpr (std::is_same_v<T, half>) return (value.bits & 0x7fff) > 0x7c00;
  else if constexpr (std::is_same_v<T, bfloat>) return (value.bits & 0x7fff) > 0x7f80;
  else return value != value;
}

// ---- the floating-point unit's own notes

#if defined(__x86_64__)
constexpr unsigned flag_of_invalid = 0x1, flag_of_range = 0x18, flag_of_any = 0x3d;  // any but that of subnormal operands
#else
constexpr unsigned flag_of_invalid = 0x1, flag_of_range = 0xc, flag_of_any = 0x1f;
#endif

// What operations since the last clear noted: that one has no answer, or compared a NaN; that it overflowed or underflowed.
FW_INLINE unsigned noted_flags() {
#if defined(__x86_64__)
  unsigned control;
  asm volatile("stmxcsr %0" : "=m"(control)::"memory");
  return control;
#else
  uint64_t status;
  asm volatile("mrs %0, fpsr" : "=r"(status)::"memory");
  return static_cast<unsigned>(status);
#endif
}
FW_INLINE bool raised_flags(unsigned flags) { return noted_flags() & flags; }

FW_INLINE void clear_flags() {
#if defined(__x86_64__)
  const unsigned control = 0x1f80;
  asm volatile("ldmxcsr %0" ::"m"(control) : "memory");
#else
  asm volatile("msr fpsr, %0" ::"r"(uint64_t{0}) : "memory");
#endif
}

// a + b, a * b; where an instruction set can, the flags are not told of it.
#if defined(__AVX512F__)
constexpr bool adds_unnoted = true;
template <class V>
FW_INLINE V added_unnoted(V a, V b) {
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (sizeof(a[0]) == 8) return (V)_mm512_add_round_pd((__m512d)a, (__m512d)b, how);
  else return (V)_mm512_add_round_ps((__m512)a, (__m512)b, how);
}
template <class V>
FW_INLINE V multiplied_unnoted(V a, V b) {
  return (V)_mm512_mul_round_pd((__m512d)a, (__m512d)b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
constexpr bool adds_unnoted = false;
template <class V>
FW_INLINE V added_unnoted(V a, V b) { return a + b; }
template <class V>
FW_INLINE V multiplied_unnoted(V a, V b) { return a * b; }
#endif

// The nearest floats, likewise.
#if defined(__AVX512F__)
FW_INLINE Pack<float, 8> narrowed_unnoted(const Pack<double, 8>& a) {
  return {{(Pack<float, 8>::Vector)_mm512_cvt_roundpd_ps((__m512d)a.v[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}};
}
#endif

// The nearest whole numbers, where an instruction gives them and the flags are not told of it.
#if defined(__AVX__) || defined(__aarch64__)
constexpr bool rounds_unnoted = true;
template <class V>
FW_INLINE V whole_unnoted(V a) {
  constexpr bool wide = sizeof(a[0]) == 8;
#if defined(__AVX512F__)
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (wide) return (V)_mm512_roundscale_pd((__m512d)a, how);
  else return (V)_mm512_roundscale_ps((__m512)a, how);
#elif defined(__AVX__)
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (wide) return (V)_mm256_round_pd((__m256d)a, how);
  else return (V)_mm256_round_ps((__m256)a, how);
#else
  if constexpr (wide) return (V)vrndnq_f64((float64x2_t)a);
  else return (V)vrndnq_f32((float32x4_t)a);
#endif
}
#else
constexpr bool rounds_unnoted = false;
template <class V>
V whole_unnoted(V a);
#endif

// Other code is slow for as long as the upper parts of vector registers are in use. Built for size, a function leaves them so.
struct ReleasesVectors {
  ~ReleasesVectors() {
#if defined(__AVX__)
    _mm256_zeroupper();
#endif
  }
};

// Everything computed before is in memory now.
FW_INLINE void settle(const void* results) { asm volatile("" ::"r"(results) : "memory"); }

}  // namespace foldwise::FOLDWISE_ISA

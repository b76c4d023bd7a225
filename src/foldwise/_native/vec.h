// Packs: fixed numbers of elements on the compilers' vector extensions, and how they come from and go to memory.
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

template <class T> constexpr int native = vector_bytes / static_cast<int>(sizeof(T));

template <int Bytes> struct BitsOf;
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
  for (auto& v : r.v) v = value - typename Pack<T, N>::Vector{};  // not 0 + value: -0.0 stays
  return r;
}

// Applies a function of native vectors to packs, chunk by chunk.
template <class F, class T, int N, class... More>
FW_INLINE Pack<T, N> each(F&& f, const Pack<T, N>& a, const More&... more) {
  Pack<T, N> r;
  for (int c = 0; c < Pack<T, N>::chunks; ++c) r.v[c] = f(a.v[c], more.v[c]...);
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

// a * b + c of floats, where a * b is exact: rounded once or twice, it is the same.
template <class T, int N>
FW_INLINE Pack<T, N> multiplied_and_added(const Pack<T, N>& a, const Pack<T, N>& b, const Pack<T, N>& c) {
  return each([](auto x, auto y, auto z) {
    [[maybe_unused]] constexpr bool wide = sizeof(T) == 8;
#if defined(__AVX512F__)
    if constexpr (sizeof(x) == 64 && wide) return (decltype(x))_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
    else if constexpr (sizeof(x) == 64) return (decltype(x))_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
    else
#elif defined(__FMA__)
    if constexpr (sizeof(x) == 32 && wide) return (decltype(x))_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
    else if constexpr (sizeof(x) == 32) return (decltype(x))_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
    else
#endif
    return x * y + z;
  }, a, b, c);
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

template <class T, int N> FW_INLINE Pack<T, N / 2> lower(const Pack<T, N>& a) {
  Pack<T, N / 2> r;
  if constexpr (Pack<T, N>::chunks > 1) {
    for (int c = 0; c < Pack<T, N / 2>::chunks; ++c) r.v[c] = a.v[c];
  } else {
    r.v[0] = pick<N / 2>(a.v[0], a.v[0], [](int i) { return i; });
  }
  return r;
}

template <class T, int N> FW_INLINE Pack<T, N / 2> upper(const Pack<T, N>& a) {
  Pack<T, N / 2> r;
  if constexpr (Pack<T, N>::chunks > 1) {
    for (int c = 0; c < Pack<T, N / 2>::chunks; ++c) r.v[c] = a.v[Pack<T, N / 2>::chunks + c];
  } else {
    r.v[0] = pick<N / 2>(a.v[0], a.v[0], [](int i) { return i + N / 2; });
  }
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
    for (int c = 0; c < Pack<T, N>::chunks; ++c) r.v[c] = c < Pack<T, N>::chunks / 2 ? a.v[c] : b.v[c];
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
    for (int c = 0; c < C; ++c) {
      const auto& from = c < C / 2 ? a : b;
      r.v[c] = pick<W>(from.v[2 * c % C], from.v[2 * c % C + 1], index);
    }
  }
  return r;
}

// Inside every group of 2H elements: the last of the lower half, seen by the upper half; `absent` elsewhere.
template <int H, class T, int N>
FW_INLINE Pack<T, N> carried_up(const Pack<T, N>& a, const Pack<T, N>& absent) {
  constexpr int W = Pack<T, N>::width;
  Pack<T, N> r;
  for (int c = 0; c < Pack<T, N>::chunks; ++c) {
    if constexpr (H < W) {
      r.v[c] = pick<W>(a.v[c], absent.v[c], [](int i) { return i % (2 * H) >= H ? i / (2 * H) * 2 * H + H - 1 : W + i; });
    } else {
      constexpr int step = H / W;
      const int group = c / (2 * step) * 2 * step;
      r.v[c] = c % (2 * step) >= step ? a.v[group + step - 1][W - 1] - typename Pack<T, N>::Vector{} : absent.v[c];
    }
  }
  return r;
}

// ---- memory

template <class T, int W>
FW_INLINE auto load_vector(const void* p) {
  return static_cast<typename VectorOf<T, W>::type>(*static_cast<const typename VectorOf<T, W>::loose*>(p));
}
template <class V>
FW_INLINE void store_vector(void* p, V v) {
  typedef V Loose __attribute__((aligned(1), may_alias));
  *static_cast<Loose*>(p) = v;
}

// W elements of S, widened to A without rounding.
template <class A, int W, class S>
FW_INLINE typename VectorOf<A, W>::type load_as(const S* p) {
  if constexpr (std::is_same_v<A, S>) {
    return load_vector<A, W>(p);
  } else if constexpr (std::is_same_v<A, double> && (std::is_same_v<S, half> || std::is_same_v<S, bfloat>)) {
#if defined(__AVX512F__)
    if constexpr (W == 8) return (typename VectorOf<double, 8>::type)_mm512_cvtps_pd((__m256)load_as<float, 8>(p));
#endif
    return __builtin_convertvector(load_as<float, W>(p), typename VectorOf<double, W>::type);
  } else if constexpr (std::is_same_v<S, bfloat>) {
    typename VectorOf<std::uint32_t, W>::type wide;
#if defined(__AVX512F__)
    if constexpr (W == 16) {
      wide = (typename VectorOf<std::uint32_t, W>::type)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    } else
#endif
#if defined(__AVX2__)
    if constexpr (W == 8) {
      wide = (typename VectorOf<std::uint32_t, W>::type)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
    } else
#endif
      wide = __builtin_convertvector(load_vector<std::uint16_t, W>(p), decltype(wide));
    return std::bit_cast<typename VectorOf<float, W>::type>(wide << 16);
  } else if constexpr (std::is_same_v<S, half>) {
#if defined(__AVX512F__)
    if constexpr (W == 16) return (typename VectorOf<float, 16>::type)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#endif
#if defined(__F16C__)
    if constexpr (W == 8) return (typename VectorOf<float, 8>::type)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#endif
    // Place sign, exponent and fraction, then let one exact product mend the exponent (subnormals too).
    typedef typename VectorOf<std::uint32_t, W>::type Bits;
    const Bits h = __builtin_convertvector(load_vector<std::uint16_t, W>(p), Bits);
    const auto scaled = std::bit_cast<typename VectorOf<float, W>::type>((h & 0x7fffu) << 13) * 0x1p112f;
    const Bits special = (Bits)((h & 0x7c00u) == 0x7c00u) & 0x7f800000u;
    return std::bit_cast<typename VectorOf<float, W>::type>(std::bit_cast<Bits>(scaled) | special | ((h & 0x8000u) << 16));
  } else {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<A, double> && std::is_same_v<S, float> && W == 8)
      return (typename VectorOf<double, 8>::type)_mm512_cvtps_pd(_mm256_loadu_ps(p));
    if constexpr (std::is_same_v<A, int64_t> && std::is_same_v<S, std::int32_t> && W == 8)
      return (typename VectorOf<int64_t, 8>::type)_mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i*)p));
#endif
    return __builtin_convertvector(load_vector<S, W>(p), typename VectorOf<A, W>::type);
  }
}

template <class A, int N, class S>
FW_INLINE Pack<A, N> load(const S* p) {
  Pack<A, N> r;
  for (int c = 0; c < Pack<A, N>::chunks; ++c) r.v[c] = load_as<A, Pack<A, N>::width>(p + c * Pack<A, N>::width);
  return r;
}

// What is used twice is loaded once: a compiler that folds loads into their uses would load it for each.
template <class A, int N>
FW_INLINE Pack<A, N> in_register(Pack<A, N> a) {
#if defined(__x86_64__)
  if constexpr (Pack<A, N>::width > 1) {
    for (auto& v : a.v) asm("" : "+v"(v));
  }
#endif
  return a;
}

// The first `count` of N elements; the rest are `absent`.
template <class A, int N, class S>
FW_INLINE Pack<A, N> load_some(const S* p, int count, A absent) {
#if defined(__AVX512F__)
  if constexpr (sizeof(S) == sizeof(A) && N == native<A>) {
    Pack<A, N> r = splat<A, N>(absent);
    if constexpr (sizeof(A) == 4) {
      r.v[0] = (typename Pack<A, N>::Vector)_mm512_mask_loadu_epi32((__m512i)r.v[0], __mmask16((1u << count) - 1), p);
    } else if constexpr (sizeof(A) == 1) {
      r.v[0] = (typename Pack<A, N>::Vector)_mm512_mask_loadu_epi8((__m512i)r.v[0], __mmask64((uint64_t{1} << count) - 1), p);
    } else {
      r.v[0] = (typename Pack<A, N>::Vector)_mm512_mask_loadu_epi64((__m512i)r.v[0], __mmask8((1u << count) - 1), p);
    }
    return r;
  }
#endif
  S padded[N] = {};
  std::memcpy(padded, p, count * sizeof(S));
  const Pack<A, N> all = load<A, N>(padded);
  Pack<A, N> r;
  for (int c = 0; c < Pack<A, N>::chunks; ++c) {
    for (int i = 0; i < Pack<A, N>::width; ++i) r.v[c][i] = c * Pack<A, N>::width + i < count ? all.v[c][i] : absent;
  }
  return r;
}

// Rounds once, to nearest even, from the accumulator's type to a narrower one.
FW_INLINE half to_half(float value) {
#if defined(__F16C__)
  return {static_cast<std::uint16_t>(_cvtss_sh(value, 0))};
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t h;
  if (magnitude > 0x7f800000u) {
    h = 0x7e00;
  } else if (magnitude >= 0x47800000u) {
    h = 0x7c00;
  } else if (magnitude < 0x38800000u) {  // subnormal: adding 1/2 aligns the last place, in the hardware's rounding
    h = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    h = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(h | ((bits >> 16) & 0x8000u))};
#endif
}

FW_INLINE bfloat to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fc0};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// A double rounded to float so that a second rounding, to a sixteen-bit float, gives what one rounding would:
// truncated, with the last bit set when anything was lost.
FW_INLINE float to_odd_float(double value) {
  float near = static_cast<float>(value);
  const double back = near;
  if (back == value || value != value || std::bit_cast<std::uint32_t>(near) & 1u) return near;
  const bool away = (value > 0) == (back > value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(near);
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

template <class Out, class A, int N>
FW_INLINE void store(Out* p, const Pack<A, N>& a) {
  constexpr int W = Pack<A, N>::width;
  for (int c = 0; c < Pack<A, N>::chunks; ++c) {
    if constexpr (std::is_same_v<Out, A>) {
      store_vector(p + c * W, a.v[c]);
    } else if constexpr (std::is_same_v<A, double> && std::is_same_v<Out, float>) {
#if defined(__AVX512F__)
      if constexpr (W == 8) _mm256_storeu_ps(p + c * W, _mm512_cvtpd_ps((__m512d)a.v[c]));
      else
#endif
      store_vector(p + c * W, __builtin_convertvector(a.v[c], typename VectorOf<float, W>::type));
    } else if constexpr (std::is_same_v<Out, bfloat>) {
      typedef typename VectorOf<std::uint32_t, W>::type Bits;
      const Bits bits = std::bit_cast<Bits>(a.v[c]);
      const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // a canonical NaN stays one
#if defined(__AVX512F__)
      if constexpr (W == 16) _mm256_storeu_si256((__m256i*)(p + c * W), _mm512_cvtepi32_epi16((__m512i)rounded));
      else
#endif
      store_vector(p + c * W, __builtin_convertvector(rounded, typename VectorOf<std::uint16_t, W>::type));
    } else {
      static_assert(std::is_same_v<Out, half>);
#if defined(__AVX512F__)
      if constexpr (W == 16) {
        _mm256_storeu_si256((__m256i*)(p + c * W), _mm512_cvtps_ph((__m512)a.v[c], 0));
        continue;
      }
#endif
#if defined(__F16C__)
      if constexpr (W == 8) {
        _mm_storeu_si128((__m128i*)(p + c * W), _mm256_cvtps_ph((__m256)a.v[c], 0));
        continue;
      }
#endif
      for (int i = 0; i < W; ++i) {
        const half each = to_half(a.v[c][i]);
        std::memcpy(static_cast<void*>(p + c * W + i), &each, sizeof each);  // where nothing is aligned
      }
    }
  }
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
constexpr unsigned flag_of_range = 0x18, flag_of_any = 0x3d;  // overflow and underflow; any but that of subnormal operands
#else
constexpr unsigned flag_of_range = 0xc, flag_of_any = 0x1f;
#endif

// Whether any operation since the last clear raised one of these flags.
FW_INLINE bool raised_flags(unsigned flags) {
#if defined(__x86_64__)
  unsigned control;
  asm volatile("stmxcsr %0" : "=m"(control)::"memory");
  return control & flags;
#else
  uint64_t status;
  asm volatile("mrs %0, fpsr" : "=r"(status)::"memory");
  return status & flags;
#endif
}

// Whether any overflowed, or lost digits below the normal range.
FW_INLINE bool left_normal_range() { return raised_flags(flag_of_range); }

FW_INLINE void clear_flags() {
#if defined(__x86_64__)
  const unsigned control = 0x1f80;
  asm volatile("ldmxcsr %0" ::"m"(control) : "memory");
#else
  asm volatile("msr fpsr, %0" ::"r"(uint64_t{0}) : "memory");
#endif
}

// a + b; where an instruction set can, the flags are not told of it.
#if defined(__AVX512F__)
constexpr bool adds_unnoted = true;
template <class V>
FW_INLINE V added_unnoted(V a, V b) {
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (sizeof(a[0]) == 8) return (V)_mm512_add_round_pd((__m512d)a, (__m512d)b, how);
  else return (V)_mm512_add_round_ps((__m512)a, (__m512)b, how);
}
#else
constexpr bool adds_unnoted = false;
template <class V>
FW_INLINE V added_unnoted(V a, V b) { return a + b; }
#endif

// Everything computed before is in memory now.
FW_INLINE void settle(const void* results) { asm volatile("" ::"r"(results) : "memory"); }

}  // namespace foldwise::FOLDWISE_ISA

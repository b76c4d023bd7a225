// Packs come from memory and go there: widened without rounding, narrowed with one.
#pragma once
#include <algorithm>

#include "vec.h"

namespace foldwise::FOLDWISE_ISA {

template <class T, int W>
FW_INLINE auto load_vector(const void* p) {
  return static_cast<typename VectorOf<T, W>::type>(*static_cast<const typename VectorOf<T, W>::loose*>(p));
}
template <class V>
FW_INLINE void store_vector(void* p, V v) {
  typedef V Loose __attribute__((aligned(1), may_alias));
  *static_cast<Loose*>(p) = v;
}

// A vector's elements as wider ones, without rounding. Where there is an instruction for it, it is named: compilers put it together
// from several that do half of it.
template <class A, class V>
FW_INLINE auto widened(V v) {
  using S = std::decay_t<decltype(v[0])>;
  constexpr int W = sizeof(V) / sizeof(S);
  using Wide = typename VectorOf<A, W>::type;
  [[maybe_unused]] constexpr auto is = []<class From, class To>(int bytes, From, To) {
    return std::is_same_v<S, From> && std::is_same_v<A, To> && sizeof(Wide) == bytes;
  };
#if defined(__AVX512F__)
  if constexpr (is(64, float{}, double{})) return (Wide)_mm512_cvtps_pd((__m256)v);
  else if constexpr (is(64, std::int32_t{}, double{})) return (Wide)_mm512_cvtepi32_pd((__m256i)v);
  else if constexpr (is(64, std::int32_t{}, int64_t{})) return (Wide)_mm512_cvtepi32_epi64((__m256i)v);
  else if constexpr (is(64, std::uint16_t{}, std::uint32_t{})) return (Wide)_mm512_cvtepu16_epi32((__m256i)v);
  else
#endif
#if defined(__AVX2__)
  if constexpr (is(32, float{}, double{})) return (Wide)_mm256_cvtps_pd((__m128)v);
  else if constexpr (is(32, std::int32_t{}, double{})) return (Wide)_mm256_cvtepi32_pd((__m128i)v);
  else if constexpr (is(32, std::int32_t{}, int64_t{})) return (Wide)_mm256_cvtepi32_epi64((__m128i)v);
  else if constexpr (is(32, std::uint16_t{}, std::uint32_t{})) return (Wide)_mm256_cvtepu16_epi32((__m128i)v);
  else if constexpr (is(16, std::uint16_t{}, std::uint32_t{})) {
    return (Wide)_mm_cvtepu16_epi32(_mm_cvtsi64_si128(std::bit_cast<int64_t>(v)));
  } else
#endif
  return __builtin_convertvector(v, Wide);
}

// Doubles as floats, each rounded once.
template <class V>
FW_INLINE auto rounded_to_floats(V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return (VectorOf<float, 8>::type)_mm512_cvtpd_ps((__m512d)v);
  else
#endif
  return __builtin_convertvector(v, typename VectorOf<float, sizeof(V) / sizeof(double)>::type);
}

// A vector of which a compiler knows nothing more, in a register.
template <class V>
FW_INLINE V by_itself(V v) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) >= 16) asm("" : "+v"(v));
#endif
  return v;
}
// Clang knows what these instructions do, and would compare the sixteen-bit floats instead, one by one and without a note of NaNs.
template <class V, class F>
FW_INLINE V from_halves(F floats) {
#if defined(__clang__)
  return by_itself((V)floats);
#else
  return (V)floats;
#endif
}

// W elements of S, widened to A; their bits, where that is an unsigned integer of their size.
template <class A, int W, class S>
FW_INLINE typename VectorOf<A, W>::type load_as(const S* p) {
  using Wide = typename VectorOf<A, W>::type;
  if constexpr (std::is_same_v<A, S> || (std::is_unsigned_v<A> && sizeof(A) == sizeof(S))) {
    return load_vector<A, W>(p);
  } else if constexpr (std::is_same_v<A, double> && (std::is_same_v<S, half> || std::is_same_v<S, bfloat>)) {
    return widened<double>(load_as<float, W>(p));
  } else if constexpr (std::is_same_v<S, bfloat>) {
    return std::bit_cast<Wide>(widened<std::uint32_t>(load_vector<std::uint16_t, W>(p)) << 16);
  } else if constexpr (std::is_same_v<S, half>) {
#if defined(__AVX512F__)
    if constexpr (W == 16) return from_halves<Wide>(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)));
#endif
#if defined(__F16C__)
    if constexpr (W == 8) return from_halves<Wide>(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)));
    if constexpr (W == 4) return from_halves<Wide>(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i*)p)));
#endif
    // Place sign, exponent and fraction, then let one exact product mend the exponent (subnormals too).
    typedef typename VectorOf<std::uint32_t, W>::type Bits;
    const Bits h = widened<std::uint32_t>(load_vector<std::uint16_t, W>(p));
    const auto scaled = std::bit_cast<Wide>((h & 0x7fffu) << 13) * 0x1p112f;
    const Bits special = (Bits)((h & 0x7c00u) == 0x7c00u) & 0x7f800000u;
    return std::bit_cast<Wide>(std::bit_cast<Bits>(scaled) | special | ((h & 0x8000u) << 16));
  } else {
    return widened<A>(load_vector<S, W>(p));
  }
}

template <class A, int N, class S>
FW_INLINE Pack<A, N> load(const S* p) {
  Pack<A, N> r;
  repeat<Pack<A, N>::chunks>([&](int c) FW_INLINED { r.v[c] = load_as<A, Pack<A, N>::width>(p + c * Pack<A, N>::width); });
  return r;
}

// Two vectors of bfloats: those of even places, which a shift makes floats, and those of odd ones, which a mask does.
template <int W>
FW_INLINE std::pair<Pack<float, W>, Pack<float, W>> load_by_parity(const bfloat* p) {
  const auto both = by_itself(load_vector<std::uint32_t, W>(p));
  const auto floats = [](auto bits) FW_INLINED { return Pack<float, W>{{std::bit_cast<typename Pack<float, W>::Vector>(bits)}}; };
  return {floats(both << 16), floats(both & 0xffff0000u)};
}

// What is used twice is loaded once: a compiler that folds loads into their uses would load it for each.
template <class A, int N>
FW_INLINE Pack<A, N> in_register(Pack<A, N> a) {
  for (auto& v : a.v) v = by_itself(v);
  return a;
}

// Vectors one after the other, each of which lies on two lines of cache: from the second cache that takes half as long again. Lines are
// loaded instead, and two of them make one vector. What they hold beside the elements is nobody's business here; a sanitizer would
// ask. (Of shorter vectors, of which only every second lies on two, it gains little.)
#if defined(__AVX512F__) && !defined(FOLDWISE_SANITIZED)
class AcrossLines {
  static constexpr int line = 64, word = 4;
  const __m512i order_;
  const __m512i* at_ = nullptr;
  __m512i held_ = {};

  static int beyond(const void* p) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(p) % line); }

 public:
  static constexpr bool pays = true;
  static bool suits(const void* p) { return beyond(p) && beyond(p) % word == 0; }

  explicit AcrossLines(const void* p) : order_((__m512i)(lane_numbers<std::int32_t, 16>() + beyond(p) / word)) {}
  // From here on, which lies as far from a line as `p`.
  FW_INLINE void begin(const void* here) {
    at_ = reinterpret_cast<const __m512i*>(static_cast<const char*>(here) - beyond(here));
    held_ = *at_;
  }
  template <class A>
  FW_INLINE Pack<A, native<A>> next() {
    __m512i more = *++at_;
    asm("" : "+v"(more));  // once, not for each use
    const __m512i elements = _mm512_permutex2var_epi32(held_, order_, more);
    held_ = more;
    return {{(typename VectorOf<A, native<A>>::type)elements}};
  }
};
#else
struct AcrossLines {
  static constexpr bool pays = false;
  // Never called.
  explicit AcrossLines(const void*);
  static bool suits(const void*);
  void begin(const void*);
  template <class A> Pack<A, native<A>> next();
};
#endif

#if defined(__AVX512BW__)
FW_INLINE __mmask64 first_bytes(int64_t count) { return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(count)); }
#endif

#if defined(__AVX2__)
// The first of eight words at `p`, and zeros.
FW_INLINE __m256i first_of_eight(const void* p, int64_t words) {
  const __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(words)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(static_cast<const int*>(p), present);
}
#endif
#if defined(__x86_64__)
// The first bytes at `p`, up to sixteen, and zeros: from few loads, since what small stores made of them would be waited for.
FW_INLINE __m128i first_of_sixteen(const char* p, int bytes) {
  const auto read = [p]<class Word>(Word, int at) FW_INLINED -> uint64_t {
    Word word;
    std::memcpy(&word, p + at, sizeof word);
    return word;
  };
  uint64_t low = 0, high = 0;
  if (bytes >= 8) {
    low = read(uint64_t{}, 0);
    if (bytes > 8) high = read(uint64_t{}, bytes - 8) >> (128 - 8 * bytes);
  } else if (bytes >= 4) {
    low = read(std::uint32_t{}, 0) | read(std::uint32_t{}, bytes - 4) << (8 * bytes - 32);
  } else if (bytes >= 2) {
    low = read(std::uint16_t{}, 0) | read(std::uint16_t{}, bytes - 2) << (8 * bytes - 16);
  } else if (bytes) {
    low = read(std::uint8_t{}, 0);
  }
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}
#endif

// The first `count` elements, and zeros.
template <class S, int N>
struct Padded {
  alignas(64) S elements[N < 64 / static_cast<int>(sizeof(S)) ? 64 / sizeof(S) : N];

  FW_INLINE Padded(const S* p, int count) {
#if defined(__AVX512BW__)
    constexpr int each = 64 / static_cast<int>(sizeof(S));
    if constexpr (2 * N == each) {  // half a vector, as what reads them does: then no memory lies between
      const auto present = static_cast<__mmask32>(first_bytes(count * sizeof(S)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(elements), _mm256_maskz_loadu_epi8(present, p));
    } else for (int i = 0; i < N; i += each) {
      _mm512_store_si512(elements + i, _mm512_maskz_loadu_epi8(first_bytes(std::clamp(count - i, 0, each) * sizeof(S)), p + i));
    }
#else
#if defined(__AVX2__)
    if constexpr (sizeof(S) >= 4 && N * sizeof(S) >= 32) {
      constexpr int words = sizeof(S) / 4, each = 8 / words;
      for (int i = 0; i < N; i += each) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(elements + i), first_of_eight(p + i, int64_t{count - i} * words));
      }
      return;
    }
#endif
#if defined(__x86_64__)
    if constexpr (N * sizeof(S) == 16) {
      _mm_store_si128(reinterpret_cast<__m128i*>(elements), first_of_sixteen(reinterpret_cast<const char*>(p), count * int{sizeof(S)}));
      return;
    }
#endif
    std::memset(elements, 0, sizeof elements);
    const char* from = reinterpret_cast<const char*>(p);
    char* to = reinterpret_cast<char*>(elements);
#pragma GCC unroll 7
    for (int bytes = 64; bytes >= 1; bytes /= 2) {
      if (!(count * static_cast<int>(sizeof(S)) & bytes)) continue;
      std::memcpy(to, from, bytes);
      from += bytes, to += bytes;
    }
#endif
  }
};

// The first `count` of N elements; the rest become `absent`, whatever they are.
template <class A, int N>
FW_INLINE Pack<A, N> only_first(Pack<A, N> some, int count, A absent) {
  constexpr int width = Pack<A, N>::width;
  using Place = bits_of<A>;
  const auto places = lane_numbers<Place, width>();
  for (int c = 0; c < Pack<A, N>::chunks; ++c) {
    const auto present = places < static_cast<Place>(std::min(count - c * width, width));
    some.v[c] = present ? some.v[c] : absent - typename Pack<A, N>::Vector{};
  }
  return some;
}
template <class A, int N, class S>
FW_INLINE Pack<A, N> load_padded(const S* p, int count, A absent) { return only_first(load<A, N>(p), count, absent); }

// The same, of which no more are read.
template <class A, int N, class S>
FW_INLINE Pack<A, N> load_some(const S* p, int count, A absent) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(A) == sizeof(S) && N == native<A>) {
    using Vector = typename Pack<A, N>::Vector;
    return {{(Vector)_mm512_mask_loadu_epi8((__m512i)splat<A, N>(absent).v[0], first_bytes(count * sizeof(S)), p)}};
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(A) == sizeof(S) && sizeof(S) >= 4 && N == native<A>) {
    return only_first(Pack<A, N>{{(typename Pack<A, N>::Vector)first_of_eight(p, count * int64_t{sizeof(S)} / 4)}}, count, absent);
  }
  if constexpr (sizeof(A) == sizeof(S) && sizeof(S) < 4 && N == native<A>) {
    const int bytes = count * int{sizeof(S)};
    const char* from = reinterpret_cast<const char*>(p);
    const __m128i low = first_of_sixteen(from, std::min(bytes, 16)), high = bytes > 16 ? first_of_sixteen(from + 16, bytes - 16) : __m128i{};
    return only_first(Pack<A, N>{{(typename Pack<A, N>::Vector)_mm256_set_m128i(high, low)}}, count, absent);
  }
#endif
  const Padded<S, N> padded(p, count);
  return load_padded<A, N>(padded.elements, count, absent);
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
  repeat<Pack<A, N>::chunks>([&](int c) FW_INLINED {
    if constexpr (std::is_same_v<Out, A>) {
      store_vector(p + c * W, a.v[c]);
    } else if constexpr (std::is_same_v<A, double> && std::is_same_v<Out, float>) {
      store_vector(p + c * W, rounded_to_floats(a.v[c]));
    } else if constexpr (std::is_same_v<Out, bfloat>) {
      typedef typename VectorOf<std::uint32_t, W>::type Bits;
      const Bits bits = std::bit_cast<Bits>(a.v[c]);
      const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // a canonical NaN stays one
#if defined(__AVX512F__)
      if constexpr (W == 16) _mm256_storeu_si256((__m256i*)(p + c * W), _mm512_cvtepi32_epi16((__m512i)rounded));
      else
#endif
#if defined(__AVX2__)
      if constexpr (W == 8) {
        const auto words = (__m256i)rounded;
        _mm_storeu_si128((__m128i*)(p + c * W), _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
      } else
#endif
      store_vector(p + c * W, __builtin_convertvector(rounded, typename VectorOf<std::uint16_t, W>::type));
    } else {
      static_assert(std::is_same_v<Out, half>);
#if defined(__AVX512F__)
      if constexpr (W == 16) {
        _mm256_storeu_si256((__m256i*)(p + c * W), _mm512_cvtps_ph((__m512)a.v[c], 0));
        return;
      }
#endif
#if defined(__F16C__)
      if constexpr (W == 8) {
        _mm_storeu_si128((__m128i*)(p + c * W), _mm256_cvtps_ph((__m256)a.v[c], 0));
        return;
      }
#endif
      for (int i = 0; i < W; ++i) {
        const half each = to_half(a.v[c][i]);
        std::memcpy(static_cast<void*>(p + c * W + i), &each, sizeof each);  // where nothing is aligned
      }
    }
  });
}

// The first `count` of N, fewer than these: under a mask, or by powers of two.
template <class Out, class A, int N>
FW_INLINE void store_some(Out* p, const Pack<A, N>& a, int64_t count) {
  alignas(64) Out some[N];
  store(some, a);
#if defined(__AVX512BW__)
  if constexpr (sizeof some == 64) {
    return _mm512_mask_storeu_epi8(p, first_bytes(count * sizeof(Out)), _mm512_load_si512(some));
  } else if constexpr (sizeof some == 32) {
    const auto present = static_cast<__mmask32>(first_bytes(count * sizeof(Out)));
    return _mm256_mask_storeu_epi8(p, present, _mm256_load_si256(reinterpret_cast<const __m256i*>(some)));
  }
#endif
  const Out* from = some;
#pragma GCC unroll 7
  for (int64_t part = N / 2; part >= 1; part /= 2) {
    if (!(count & part)) continue;
    std::memcpy(static_cast<void*>(p), from, part * sizeof(Out));
    from += part, p += part;
  }
}

}  // namespace foldwise::FOLDWISE_ISA

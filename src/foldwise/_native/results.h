// Results on their way to memory: to any strides and dtype, rounded once, and past the caches where they are large.
#pragma once
#include "blocks.h"
#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

template <class Out, class A>
FW_INLINE Out narrowed(A value) {
  if constexpr (std::is_same_v<Out, half> || std::is_same_v<Out, bfloat>) {
    float once;
    if constexpr (std::is_same_v<A, double>) once = to_odd_float(value);
    else once = value;
    if constexpr (std::is_same_v<Out, half>) return to_half(once);
    else return to_bfloat(once);
  } else {
    return static_cast<Out>(value);
  }
}

// Doubles as floats that can be rounded once more, to what rounding once would have given; false where this is not known.
#if defined(__AVX512F__)
// Cut, and where anything is lost, the last bit that is not is set; the flags are not told.
FW_INLINE __m512 odd_floats(__m512i lower, __m512i upper) {
  const auto odd = [](__m512i bits) FW_INLINED {
    const __m512i lost = _mm512_set1_epi64((1 << 29) - 1);
    const __m512i set = _mm512_mask_or_epi64(bits, _mm512_test_epi64_mask(bits, lost), bits, _mm512_set1_epi64(1 << 29));
    return _mm512_castps256_ps512(_mm512_cvt_roundpd_ps(_mm512_castsi512_pd(set), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
  };
  return _mm512_insertf32x8(odd(lower), _mm512_castps512_ps256(odd(upper)), 1);
}
template <class Out, int N>
FW_INLINE bool round_before(Pack<float, N>& to, const double* from) {
  constexpr int denormal = 0x20;
  const __m512 floats = odd_floats(_mm512_loadu_si512(from), _mm512_loadu_si512(from + N / 2));
  to.v[0] = (typename Pack<float, N>::Vector)floats;
  // Small floats lose more bits, which only a bfloat16 can tell.
  return std::is_same_v<Out, half> || !_mm512_fpclass_ps_mask(floats, denormal);
}
#else
// Doubles cut to the bits of a float, the last one set when anything was lost, so that they can be rounded once more; false
// where a float has fewer bits and the result is as small.
template <class Out, int N>
FW_INLINE bool cut_to_odd(float* to, const double* from) {
  constexpr int W = native<double>;
  typedef typename VectorOf<uint64_t, W>::type Bits;
  constexpr uint64_t lost = (uint64_t{1} << 29) - 1, normal = uint64_t(1023 - 126) << 52;
  Bits small = {};
  for (int i = 0; i < N; i += W) {
    const Bits bits = load_vector<uint64_t, W>(from + i);
    const Bits odd = (bits & lost) != 0 ? (bits & ~lost) | (lost + 1) : bits;
    small |= (Bits)(((bits << 1) >> 1) - 1 < normal - 1);
    store(to + i, Pack<double, W>{{std::bit_cast<typename VectorOf<double, W>::type>(odd)}});
  }
  bool fits = true;
  if constexpr (std::is_same_v<Out, bfloat>) {
    for (int i = 0; i < W; ++i) fits &= small[i] == 0;
  }
  return fits;
}

// Doubles as floats, whether a second rounding would be of what a first one has brought half way between two numbers of a
// shorter dtype; or of numbers so small that half ways lie elsewhere.
template <class Out, int N>
FW_INLINE bool round_to_floats(Pack<float, N>& to, const double* from) {
  constexpr int W = native<double>, halves = N / W;
  static_assert(halves == 2);
  const auto rounded = [](const double* p) FW_INLINED { return rounded_to_floats(load_vector<double, W>(p)); };
  to.v[0] = pick<N>(rounded(from), rounded(from + W), [](int i) { return i; });
  typedef typename VectorOf<std::uint32_t, N>::type Bits;
  const Bits bits = std::bit_cast<Bits>(to.v[0]);
  if constexpr (std::is_same_v<Out, bfloat>) return !lanes_where((bits & 0xffffu) == 0x8000u);
  constexpr std::uint32_t normal = std::uint32_t(127 - 14) << 23;
  return !lanes_where(((bits & 0x1fffu) == 0x1000u) | (((bits << 1) >> 1) - 1 < normal - 1));
}

template <class Out, int N>
FW_INLINE bool round_before(Pack<float, N>& to, const double* from) {
  if (round_to_floats<Out, N>(to, from)) return true;
  float odd[N];
  if (!cut_to_odd<Out, N>(odd, from)) return false;
  to = load<float, N>(odd);
  return true;
}
#endif

template <class Out, class A>
void scatter(char* to, int64_t stride, const A* from, int64_t count) {
  const auto scatter_until = [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const Out value = narrowed<Out>(from[i]);
      std::memcpy(to + i * stride, &value, sizeof(Out));
    }
  };
  int64_t i = 0;
  if (stride == static_cast<int64_t>(sizeof(Out))) {
    if constexpr (std::is_same_v<Out, bool> && (sizeof(A) < 4 || vector_bytes == 64)) {  // others GCC narrows one by one
      constexpr int N = native<A>;
      typedef typename VectorOf<std::int8_t, N>::type Truths;
      for (; i + N <= count; i += N) store_vector(to + i, -__builtin_convertvector(load_vector<A, N>(from + i) != 0, Truths));
    } else if constexpr (!std::is_same_v<Out, bool> &&
                         (std::is_same_v<A, float> || (std::is_same_v<A, double> && std::is_same_v<Out, float>))) {
      constexpr int N = native<A>;
      for (; i + N <= count; i += N) store(reinterpret_cast<Out*>(to) + i, load<A, N>(from + i));
    }
    if constexpr (std::is_same_v<A, double> && (std::is_same_v<Out, half> || std::is_same_v<Out, bfloat>)) {
      constexpr int N = native<float>;
      Pack<float, N> once;
      for (; i + N <= count; i += N) {
        if (round_before<Out, N>(once, from + i)) store(reinterpret_cast<Out*>(to) + i, once);
        else scatter_until(i, i + N);
      }
    }
  }
  scatter_until(i, count);
}

template <class A>
using Scatter = void (*)(char* to, int64_t stride, const A* from, int64_t count);

// Truths and extremes of short integers stay what they are.
template <class A, class Out>
constexpr bool scatters = std::is_same_v<Out, bool> || std::is_same_v<Out, A> ||
                          (std::is_integral_v<A> ? std::is_integral_v<Out> && sizeof(A) > 2
                                                 : !std::is_integral_v<Out> && sizeof(Out) <= sizeof(A));

template <class A>
Scatter<A> scatter_for(Dtype dtype) {
  return with_type(dtype, [](auto sample) -> Scatter<A> {
    using Out = decltype(sample);
    if constexpr (scatters<A, Out>) return scatter<Out, A>;
    else return nullptr;
  });
}

#define FOLDWISE_ELSEWHERE(A) extern template Scatter<A> scatter_for<A>(Dtype);
FOLDWISE_EACH_VALUE(FOLDWISE_ELSEWHERE)
#undef FOLDWISE_ELSEWHERE

// ---- past the caches

constexpr int64_t stream_bytes = 16 << 20;  // outputs beyond this bypass them

// To where a vector of this size begins.
template <class Vector>
FW_INLINE void stream_vector(char* to, Vector v) {
#if defined(__AVX512F__)
  if constexpr (sizeof v == 64) return _mm512_stream_si512((__m512i*)to, (__m512i)v);
  else
#endif
#if defined(__AVX2__)
  if constexpr (sizeof v == 32) return _mm256_stream_si256((__m256i*)to, (__m256i)v);
  else
#endif
#if defined(__x86_64__)
  _mm_stream_si128((__m128i*)to, (__m128i)v);
#else
  std::memcpy(to, &v, sizeof v);
#endif
}
// A pack's results, as soon as they are made, where a vector of them is not less than what passes the caches.
template <class Out, class A>
constexpr bool streams_packs = std::is_same_v<Out, A> || (std::is_same_v<Out, float> && std::is_same_v<A, double> && vector_bytes > 16);
template <class Out, class A, int N>
FW_INLINE void stream_pack(Out* to, const Pack<A, N>& a) requires streams_packs<Out, A> {
  constexpr int W = Pack<A, N>::width;
  repeat<Pack<A, N>::chunks>([&](int c) FW_INLINED {
    char* const here = reinterpret_cast<char*>(to + c * W);
    if constexpr (std::is_same_v<Out, A>) stream_vector(here, a.v[c]);
    else stream_vector(here, rounded_to_floats(a.v[c]));
  });
}

// So many bytes, a multiple of a line of cache, to where one begins.
template <int64_t bytes>
FW_INLINE void stream_lines(char* to, const char* from) {
  for (int64_t at = 0; at < bytes; at += vector_bytes) stream_vector(to + at, load_vector<uint64_t, native<uint64_t>>(from + at));
}

// Bytes `done` to `ready`, in whole lines; returns how far these went. (What passes the caches takes a line out of them, and what
// is then added to it waits for memory.)
FW_INLINE int64_t stream_up(char* to, const char* from, int64_t done, int64_t ready) {
  if (done == 0) {
    const int64_t head = -reinterpret_cast<std::uintptr_t>(to) & (line_bytes - 1);
    if (head > ready) return 0;
    std::memcpy(to, from, head);
    done = head;
  }
  for (; done + line_bytes <= ready; done += line_bytes) stream_lines<line_bytes>(to + done, from + done);
  return done;
}
// The same of elements that are turned round on the way: from[0] lies before `end`, from[1] before that.
template <class T>
FW_INLINE int64_t stream_down(char* end, const T* from, int64_t done, int64_t ready) {
  using Word = typename WordOf<sizeof(T)>::type;
  constexpr int64_t size = sizeof(T);
  const auto copy_to = [&](int64_t next) {
    copy_backwards(reinterpret_cast<T*>(end - next), from + next / size - 1, (next - done) / size);
    return next;
  };
  const int64_t over = reinterpret_cast<std::uintptr_t>(end) & (line_bytes - 1);
  if (over % size) return copy_to(ready);  // no line begins where an element does
  if (done == 0) {
    if (over > ready) return 0;
    done = copy_to(over);
  }
  while (done + line_bytes <= ready) {
    repeat<line_bytes / vector_bytes>([&](int) FW_INLINED {
      const auto some = load_vector<Word, native<Word>>(from + done / size);
      stream_vector(end - done - vector_bytes, pick<native<Word>>(some, some, [](int k) { return native<Word> - 1 - k; }));
      done += vector_bytes;
    });
  }
  return done;
}

FW_OUTLINE inline void stream(char* to, const char* from, int64_t bytes) {
  const int64_t done = stream_up(to, from, 0, bytes);
  std::memcpy(to + done, from + done, bytes - done);
}

inline void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace foldwise::FOLDWISE_ISA

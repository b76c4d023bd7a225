// Integers judged by their exact value: whether it fits, what it is divided by, what its root is.
#pragma once
#include "exact.h"
#include "fold.h"

namespace foldwise::FOLDWISE_ISA {

// A sum in 128 bits.
template <class S, class A>
struct JudgedSum {
  using Source = S;
  using Value = A;
  using Careful = JudgedSum;
  static constexpr bool guarded = false, heavy = false, signless = false;
  template <int N> struct Acc {
    Pack<uint64_t, N> low;
    Pack<int64_t, N> high;
    auto members() const { return std::tie(low, high); }
  };

  static constexpr A absent() { return 0; }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) {
    Acc<N> r;
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      r.low.v[c] = (typename Pack<uint64_t, N>::Vector)x.v[c];
      r.high.v[c] = (typename Pack<int64_t, N>::Vector)(std::is_signed_v<A> ? x.v[c] >> 63 : x.v[c] & 0);
    }
    return r;
  }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    Acc<N> r{a.low + b.low, a.high + b.high};
    for (int c = 0; c < Pack<A, N>::chunks; ++c) r.high.v[c] -= r.low.v[c] < b.low.v[c];
    return r;
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_OUTLINE Pack<A, N> judged(const Acc<N>& a, Judge& judge) {
    A out[N];
    if (judge.finish.ending == Ending::ratio && is_short<N>(a) && divide_small(a.low, judge.finish.count, out)) return load<A, N>(out);
    for (int i = 0; i < N; ++i) out[i] = A(judge((static_cast<__int128>(a.high[i]) << 64) | a.low[i]));
    return load<A, N>(out);
  }

 private:
  // Whether the low words are all there is, signs included.
  template <int N> static FW_INLINE bool is_short(const Acc<N>& a) {
    typename Pack<uint64_t, N>::Vector beyond{};
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      const auto high = a.high.v[c];
      beyond |= (typename Pack<uint64_t, N>::Vector)(high ^ ((decltype(high))a.low.v[c] >> 63));
    }
    return !lanes_where(beyond != 0);
  }
};

// A product as sign and magnitude; a magnitude past 64 bits only a zero can bring back.
template <class S, class A>
struct JudgedProd {
  using Source = S;
  using Value = A;
  using Careful = JudgedProd;
  static constexpr bool guarded = false, heavy = true, signless = false;
  template <int N> struct Acc {
    Pack<uint64_t, N> magnitude;
    Pack<int64_t, N> negative, beyond;  // all bits or none
    auto members() const { return std::tie(magnitude, negative, beyond); }
  };

  static constexpr A absent() { return 1; }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) {
    Acc<N> r{{}, splat<int64_t, N>(0), splat<int64_t, N>(0)};
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      if constexpr (std::is_signed_v<A>) r.negative.v[c] = x.v[c] < 0;
      r.magnitude.v[c] = ((typename Pack<uint64_t, N>::Vector)x.v[c] ^ (typename Pack<uint64_t, N>::Vector)r.negative.v[c]) -
                         (typename Pack<uint64_t, N>::Vector)r.negative.v[c];
    }
    return r;
  }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    uint64_t magnitude[N];
    int64_t negative[N], beyond[N];
    for (int i = 0; i < N; ++i) {
      const bool zero = (!a.beyond[i] && a.magnitude[i] == 0) || (!b.beyond[i] && b.magnitude[i] == 0);
      const bool past = __builtin_mul_overflow(a.magnitude[i], b.magnitude[i], &magnitude[i]);
      negative[i] = a.negative[i] ^ b.negative[i];
      beyond[i] = zero ? 0 : a.beyond[i] | b.beyond[i] | -int64_t(past);
      if (zero) magnitude[i] = 0;
    }
    return {load<uint64_t, N>(magnitude), load<int64_t, N>(negative), load<int64_t, N>(beyond)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_OUTLINE Pack<A, N> judged(const Acc<N>& a, Judge& judge) {
    A out[N];
    for (int i = 0; i < N; ++i) {
      const __int128 size = a.beyond[i] ? static_cast<__int128>(1) << 65 : static_cast<__int128>(a.magnitude[i]);
      out[i] = A(judge(a.negative[i] ? -size : size));
    }
    return load<A, N>(out);
  }
};

// A sum of squares in 128 bits, judged by its root.
template <class S, class A>
struct JudgedSquares {
  using Source = S;
  using Value = A;
  using Careful = JudgedSquares;
  static constexpr bool guarded = false, heavy = true, signless = false;
  template <int N> struct Acc {
    Pack<uint64_t, N> low, high;
    Pack<int64_t, N> beyond;  // not 0 once 128 bits were not enough
    auto members() const { return std::tie(low, high, beyond); }
  };

  static constexpr A absent() { return 0; }
  template <int N> static FW_OUTLINE Acc<N> start(const Pack<A, N>& x) {
    uint64_t low[N], high[N];
    for (int i = 0; i < N; ++i) {
      const uint64_t size = x[i] < 0 ? -static_cast<uint64_t>(x[i]) : static_cast<uint64_t>(x[i]);
      const unsigned __int128 square = static_cast<unsigned __int128>(size) * size;
      low[i] = static_cast<uint64_t>(square);
      high[i] = static_cast<uint64_t>(square >> 64);
    }
    return {load<uint64_t, N>(low), load<uint64_t, N>(high), splat<int64_t, N>(0)};
  }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    uint64_t low[N], high[N];
    int64_t beyond[N];
    for (int i = 0; i < N; ++i) {
      const bool carry = __builtin_add_overflow(a.low[i], b.low[i], &low[i]);
      const bool past = __builtin_add_overflow(a.high[i], b.high[i], &high[i]);
      beyond[i] = a.beyond[i] | b.beyond[i] | past | __builtin_add_overflow(high[i], uint64_t{carry}, &high[i]);
    }
    return {load<uint64_t, N>(low), load<uint64_t, N>(high), load<int64_t, N>(beyond)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_OUTLINE Pack<A, N> judged(const Acc<N>& a, Judge& judge) {
    A out[N];
    for (int i = 0; i < N; ++i) {
      out[i] = A(judge(root_of((static_cast<unsigned __int128>(a.high[i]) << 64) | a.low[i])));
      judge.fits &= !a.beyond[i];
    }
    return load<A, N>(out);
  }
};

}  // namespace foldwise::FOLDWISE_ISA

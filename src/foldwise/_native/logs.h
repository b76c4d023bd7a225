// The logarithm of a sum of exponentials, which may be far out of range while it is not.
#pragma once
#include "fold.h"

namespace foldwise::FOLDWISE_ISA {

// sum = exp(most) * scaled, `most` being the largest element: one exponential joins one more element or two accumulators.
template <class S, class A>
struct LogSumExp {
  using Source = S;
  using Value = A;
  using Careful = LogSumExp;
  static constexpr bool guarded = false, heavy = true, signless = false;
  template <int N> struct Acc {
    Pack<A, N> most, scaled;
    auto members() const { return std::tie(most, scaled); }
  };

  static constexpr A absent() { return -std::numeric_limits<A>::infinity(); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x, splat<A, N>(A(1))}; }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    // Alike, though both infinite, they weigh the same; a NaN is in the weight whoever is the larger.
    const Pack<A, N> apart = exp_of_negative(each([](auto p, auto q) { return p >= q ? q - p : p - q; }, a.most, b.most));
    const Pack<A, N> weight = each([](auto p, auto q, auto e) { return p == q ? decltype(e){} + A(1) : e; }, a.most, b.most, apart);
    return {each([](auto p, auto q) { return p >= q ? p : q; }, a.most, b.most),
            each([](auto p, auto q, auto s, auto t, auto w) { return p >= q ? s + t * w : t + s * w; }, a.most, b.most,
                 a.scaled, b.scaled, weight)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_OUTLINE Pack<A, N> result(const Acc<N>& a) { return a.most + log(a.scaled); }
};

}  // namespace foldwise::FOLDWISE_ISA

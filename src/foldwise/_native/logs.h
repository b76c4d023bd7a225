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
  template <int N> static FW_INLINE Acc<N> merge_inlined(const Acc<N>& a, const Acc<N>& b) {
    const Pack<A, N> weight = weight_of_lesser(a.most, b.most);
    return {larger(a.most, b.most), each([](auto p, auto q, auto s, auto t, auto w) FW_INLINED {
      return fused(p >= q ? t : s, w, p >= q ? s : t);
    }, a.most, b.most, a.scaled, b.scaled, weight)};
  }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return merge_inlined(a, b); }
  template <int N> static FW_INLINE Acc<N> join(const Acc<N>& a, const Pack<A, N>& x) {
    const Pack<A, N> weight = weight_of_lesser(a.most, x);
    return {larger(a.most, x), each([](auto p, auto q, auto s, auto w) FW_INLINED {
      return p >= q ? s + w : fused(s, w, decltype(s){} + A(1));
    }, a.most, x, a.scaled, weight)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_OUTLINE Pack<A, N> result(const Acc<N>& a) { return a.most + log(a.scaled); }

 private:
  template <int N> static FW_INLINE Pack<A, N> larger(const Pack<A, N>& a, const Pack<A, N>& b) {
    return each([](auto p, auto q) FW_INLINED { return at_least(q, p); }, a, b);
  }
  // Alike, though both infinite, they weigh the same; a NaN is in the weight whoever is the larger.
  template <int N> static FW_INLINE Pack<A, N> weight_of_lesser(const Pack<A, N>& a, const Pack<A, N>& b) {
    const auto below = [](auto p, auto q) FW_INLINED {
      using Pattern = pattern_of<decltype(p)>;
      constexpr auto sign = ~(~element_of<Pattern>{0} >> 1);
      return std::bit_cast<decltype(p)>(std::bit_cast<Pattern>(p - q) | sign);
    };
    return each([](auto p, auto q, auto e) FW_INLINED { return p == q ? decltype(e){} + A(1) : e; }, a, b,
                exp_of_negative(each(below, a, b)));
  }
};

}  // namespace foldwise::FOLDWISE_ISA

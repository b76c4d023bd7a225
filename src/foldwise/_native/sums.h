// Folds that add: plain sums, sums of magnitudes, sums of squares.
#pragma once
#include "fused.h"
#include "products.h"

namespace foldwise::FOLDWISE_ISA {

// What a scan hands from one segment to the next. For sums of floats it is an unevaluated pair of numbers, so that the
// error of one segment's carry does not reach the next.
template <class A, int N>
struct PairCarry {
  Pack<A, N> high = splat<A, N>(A(-0.0)), low = splat<A, N>(A(-0.0));

  static constexpr bool plain() { return true; }
  template <class Fold>
  FW_INLINE Pack<A, N> emit(const typename Fold::template Acc<N>& local, Judge&) const {
    // By the units that multiply, where that was seen to gain.
    const auto added = [](auto x, auto y) FW_INLINED { return vector_bytes == 64 ? added_aside(x, y) : x + y; };
    return each(added, high, each(added, low, local.total));
  }
  template <class Acc>
  FW_INLINE void advance(const Acc& last) {
    const auto term = low + last.total;
    const auto total = high + term;
    const auto back = total - high;
    const auto error = (high - (total - back)) + (term - back);
    const auto nothing = splat<A, N>(A(0));
    // An error that is no number belongs to a total that is none: nothing can be added to it.
    low = each([](auto e, auto t, auto zero) { return ((e == e) & (t - t == zero)) ? e : zero; }, error, total, nothing);
    high = total;
  }
};

template <class S, class A>
struct Sum {
  using Source = S;
  using Value = A;
  using Careful = Sum;
  static constexpr bool guarded = false, heavy = false, signless = true;
  static constexpr bool is_ended = true, is_scanned_short = std::is_integral_v<A>;
  template <int N> struct Acc {
    Pack<A, N> total;
    auto members() const { return std::tie(total); }
  };

  static constexpr A absent() { return std::is_floating_point_v<A> ? A(-0.0) : A(0); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x}; }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return {a.total + b.total}; }
  // The same by the units that multiply, for loops in which those that add convert what comes and what leaves, too.
  template <int N>
    requires(vector_bytes == 64 && std::is_floating_point_v<A> && !std::is_same_v<S, A>)
  static FW_INLINE Acc<N> merge_aside(const Acc<N>& a, const Acc<N>& b) {
    return {each([](auto x, auto y) FW_INLINED { return added_aside(x, y); }, a.total, b.total)};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) { return a.total; }

  template <int N>
    requires std::is_floating_point_v<A>
  using Carry = PairCarry<A, N>;
};

// A sum of magnitudes.
template <class S, class A>
struct Magnitudes : Sum<S, A> {
  using Careful = Magnitudes;
  static constexpr bool signless = false, is_ended = false;
  template <int N> using Acc = typename Sum<S, A>::template Acc<N>;

  static constexpr A absent() { return A(0); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {magnitude(x)}; }
};

// A sum of squares whose exponent has no end: a fraction in [1, 4) (or 0, inf, NaN) times an even power of two.
template <class S, class A>
struct CarefulSquares {
  using Source = S;
  using Value = A;
  using Careful = CarefulSquares;
  using Product = CarefulProd<S, A>;
  static constexpr bool guarded = false, heavy = true, rare = true, is_ended = true;
  template <int N> struct Acc {
    Pack<A, N> fraction;
    Pack<int64_t, N> exponent;
    auto members() const { return std::tie(fraction, exponent); }
  };

  static constexpr A absent() { return A(0); }
  static constexpr int64_t of_nothing = -(int64_t{1} << 40), negligible = -2 * (Product::fraction_bits + 4);

  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) {
    const auto parts = Product::start(x);
    return settled<N>(parts.fraction * parts.fraction, parts.exponent + parts.exponent);
  }
  // A sum that plain arithmetic made.
  template <int N> static FW_INLINE Acc<N> lifted(const Pack<A, N>& x) {
    const auto parts = Product::start(x);
    const auto odd = each([](auto exponent) { return exponent & 1; }, parts.exponent);
    return settled<N>(parts.fraction * bounded_powers(odd), parts.exponent - odd);
  }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    const auto exponent = each([](auto x, auto y) { return x > y ? x : y; }, a.exponent, b.exponent);
    const auto sum = a.fraction * bounded_powers(a.exponent - exponent) + b.fraction * bounded_powers(b.exponent - exponent);
    const auto carried = where([](auto x) { return x >= A(4); }, sum);
    return {each([](auto x) { return x >= A(4) ? x / A(4) : x; }, sum), exponent - carried - carried};
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }

  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) { return Product::scaled(a.fraction, a.exponent); }
  template <int N> static FW_OUTLINE Pack<A, N> root(const Acc<N>& a) {
    A roots[N];
    for (int i = 0; i < N; ++i) roots[i] = std::sqrt(a.fraction[i]);
    return Product::scaled(load<A, N>(roots), each([](auto exponent) { return exponent / 2; }, a.exponent));
  }

 private:
  // Of exponents that are not large; so little that it rounds away is enough for the smallest.
  template <int N> static FW_INLINE Pack<A, N> bounded_powers(const Pack<int64_t, N>& exponents) {
    return Product::power_of_two(Product::within(negligible, Product::bias, exponents));
  }
  // -1 where something is true of an element, and 0 elsewhere.
  template <int N, class Test> static FW_INLINE Pack<int64_t, N> where(Test&& test, const Pack<A, N>& x) {
    typename Product::Bits found[N];
    for (int c = 0; c < Pack<A, N>::chunks; ++c) store_vector(found + c * Pack<A, N>::width, test(x.v[c]));
    return load<int64_t, N>(found);
  }
  template <int N> static FW_INLINE Acc<N> settled(const Pack<A, N>& fraction, const Pack<int64_t, N>& exponent) {
    const auto nothing = where([](auto x) { return x == 0; }, fraction);
    return {fraction, each([](auto e, auto none) { return none ? of_nothing - (e ^ e) : e; }, exponent, nothing)};
  }
};

// A sum of squares. Those that could leave the range are checked, as products are.
template <class S, class A>
struct Squares : Sum<S, A> {
  static constexpr bool guarded = std::is_same_v<S, double> || std::is_same_v<S, bfloat>;
  static constexpr unsigned flags = flag_of_range;
  using Careful = std::conditional_t<guarded, CarefulSquares<S, A>, Squares>;
  template <int N> using Acc = typename Sum<S, A>::template Acc<N>;

  static constexpr A absent() { return A(0); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x * x}; }
  // The square is exact, so that it makes no difference whether it is rounded before it is added.
  template <int N>
    requires(std::is_same_v<S, float> || std::is_same_v<S, half>)
  static FW_INLINE Acc<N> join(const Acc<N>& a, const Pack<A, N>& x) {
    return {multiplied_and_added(x, x, a.total)};
  }
  template <int N> static FW_INLINE auto lift(const Acc<N>& a) {
    if constexpr (guarded) return Careful::lifted(a.total);
    else return a;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

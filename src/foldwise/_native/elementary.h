// Exponentials and logarithms of packs. Libraries differ in the last digit; here a result has the same bits on every
// ISA, because it takes nothing but + - * /, fused steps and integer steps, in one order. No tables: SSE2 cannot look
// things up.
//
// The largest errors, in units of the result's last place, over all floats and 3*10^9 doubles of all sizes:
//
//                       float    double
//   exp_of_negative     0.91     0.90
//   log                 0.5001   0.68
//
// For floats the logarithm never decreases where its argument grows. exp(0) is 1, log(1) is +0; infinities, zeros and
// NaN are as in C, but that exponentials below the normal range are 0.
#pragma once
#include <iterator>

#include "fused.h"
#include "load_store.h"

namespace foldwise::FOLDWISE_ISA {

template <class V> using element_of = std::remove_cvref_t<decltype(V{}[0])>;
template <class V> using pattern_of =
    typename VectorOf<std::make_unsigned_t<bits_of<element_of<V>>>, sizeof(V) / sizeof(element_of<V>)>::type;

// NaN stays.
template <class V>
FW_INLINE V at_least(V x, V bound) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (sizeof(V) >= 16) asm("" : "+x"(x), "+x"(bound));  // GCC takes one instruction for it, unless it knows more
#endif
  return x < bound ? bound : x;
}

// The terms of a polynomial, beginning with the constant one: by halves, since a chain of steps that wait for one
// another takes twice the time.
template <class Constants, std::size_t first, std::size_t count, class V>
FW_INLINE V some_terms(const V* powers) {
  if constexpr (count == 1) {
    return Constants::terms[first] - V{};
  } else {
    constexpr std::size_t half = std::bit_floor(count - 1);
    return some_terms<Constants, first, half>(powers) +
           some_terms<Constants, first + half, count - half>(powers) * powers[std::bit_width(half) - 1];
  }
}
template <class Constants, class V>
FW_INLINE V polynomial(V x) {
  const V square = x * x, fourth = square * square;
  const V powers[] = {x, square, fourth, fourth * fourth};
  return some_terms<Constants, 0, std::size(Constants::terms)>(powers);
}

// ---- the exponential
//
// e^x = 2^k * e^r, where k is the integer nearest to x / ln 2 and |r| <= ln 2 / 2. Fused steps leave all of what the two
// parts of ln 2, k times, leave of x.
//
// e^r = 1 + r + r^2 / 2 + r^3 * terms(r). The terms minimise the largest error relative to e^r (an exchange algorithm
// in 200-bit arithmetic); they were rounded one after the other, the later ones being fitted anew. That leaves 2^-28.0
// for float (degree 3) and 2^-57.4 for double (degree 8).
//
// A sum as large as `large` has no digits but an integer's, and its lowest bits are k + offset, the exponent of half of 2^k.
// (Where they are 0 it is no exponent, and the power 0.) The offset is even: ties go one way.
template <class A> struct Exponential;
template <>
struct Exponential<float> {
  static constexpr float log2_e = 0x1.715476p+0f, ln2_high = 0x1.62e43p-1f, ln2_low = -0x1.05c61p-29f;
  static constexpr float terms[] = {0x1.5554a4p-3f, 0x1.55568ap-5f, 0x1.122f1ep-7f, 0x1.6b6bccp-10f};
  static constexpr int offset = 126;
  static constexpr float large = 0x1.8p23f + offset;
};
template <>
struct Exponential<double> {
  static constexpr double log2_e = 0x1.71547652b82fep+0, ln2_high = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
  static constexpr double terms[] = {0x1.5555555555501p-3,  0x1.5555555553209p-5,  0x1.1111111128966p-7,
                                     0x1.6c16c17cc214bp-10, 0x1.a01a011bd7aa4p-13, 0x1.a019ab31d0bfep-16,
                                     0x1.71df55e8a7bd1p-19, 0x1.289f85468185ep-22, 0x1.ad1f06f5c69afp-26};
  static constexpr int offset = 1022;
  static constexpr double large = 0x1.8p52 + offset;
};

// Twice e^r, term after term from the highest on: of all vectors one step before any has the next, which fills the time that each
// step waits for the one before.
template <class C, class A, int N>
FW_INLINE Pack<A, N> twice_exponential(const Pack<A, N>& r) {
  constexpr int terms = std::size(C::terms);
  const auto plus = [&](const Pack<A, N>& sum, A term) FW_INLINED {
    return each([&](auto s, auto x) FW_INLINED { return fused(s, x, term - decltype(s){}); }, sum, r);
  };
  Pack<A, N> sum = splat<A, N>(2 * C::terms[terms - 1]);
  repeat<terms - 1>([&](int i) FW_INLINED { sum = plus(sum, 2 * C::terms[terms - 2 - i]); });
  return plus(plus(plus(sum, 1), 2), 2);
}

// Where x <= 0 or NaN. What is not in the normal range, or at its very end, is 0: beside 1 it is nothing.
template <class A, int N>
FW_INLINE Pack<A, N> exp_of_negative(const Pack<A, N>& x) {
  using C = Exponential<A>;
  constexpr double ln2 = 0.6931471805599453;
  const auto bounded = each([](auto v) FW_INLINED { return at_least(v, A(-C::offset * ln2) - decltype(v){}); }, x);
  const auto placed = each([](auto v) FW_INLINED { return fused(v, C::log2_e - decltype(v){}, C::large - decltype(v){}); }, bounded);
  const auto k = each([](auto p) FW_INLINED { return p - C::large; }, placed);
  const auto most = each([](auto n, auto v) FW_INLINED { return fused(n, -C::ln2_high - decltype(v){}, v); }, k, bounded);
  const auto r = each([](auto n, auto m) FW_INLINED { return fused(n, -C::ln2_low - decltype(m){}, m); }, k, most);
  return each([](auto e, auto p) FW_INLINED {
    using V = decltype(e);
    return e * std::bit_cast<V>(std::bit_cast<pattern_of<V>>(p) << (std::numeric_limits<A>::digits - 1));
  }, twice_exponential<C>(r), placed);
}

// ---- the logarithm
//
// log x = k * ln 2 + log(1 + f), with 1 + f between sqrt(1/2) and sqrt(2). With s = f / (2 + f),
//
//   log(1 + f) = 2 * artanh s = f - f^2 / 2 + s * (f^2 / 2 + s^2 * terms(s^2))
//
// where all but the last summand is computed exactly, in two parts. The terms come as those of the exponential do, for
// s^2 <= 0.02944; they leave 2^-66.6 of the result (degree 7). Of a float plain doubles are enough, and 2 * s + s^3 * terms(s^2)
// with what leaves 2^-43.6 (degree 4).
template <class A> struct Logarithm;
template <>
struct Logarithm<double> {
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;  // k times the first part is exact
  static constexpr double terms[] = {0x1.5555555555555p-1, 0x1.9999999999d11p-2, 0x1.249249243981ep-2,
                                     0x1.c71c724b60ab1p-3, 0x1.745ce1cbc80bcp-3, 0x1.3b2023d4392d4p-3,
                                     0x1.0f67568cd9149p-3, 0x1.0f0d135b18f02p-3};
};
template <>
struct Logarithm<float> {
  static constexpr double ln2 = 0x1.62e42fefa39efp-1;
  static constexpr double terms[] = {0x1.555555561d808p-1, 0x1.999996ab4bea7p-2, 0x1.2494111bc00a5p-2,
                                     0x1.c62ce37d49e99p-3, 0x1.90db61f0613p-3};
};

// Positive doubles in the normal range, taken apart: counted from sqrt(1/2), a pattern's exponent is k, the `bias` aside.
template <class V>
struct Normal {
  V k, f;

  FW_INLINE Normal(V x, V bias) {
    using Pattern = pattern_of<V>;
    constexpr uint64_t one = std::bit_cast<uint64_t>(1.0), root = std::bit_cast<uint64_t>(0x1.6a09e667f3bcdp-1);
    constexpr uint64_t fraction = (uint64_t{1} << 52) - 1;
    const Pattern from_root = std::bit_cast<Pattern>(x) + (one - root);
    k = std::bit_cast<V>((from_root >> 52) | std::bit_cast<uint64_t>(0x1p52)) - (0x1p52 + bias);
    f = std::bit_cast<V>((from_root & fraction) + root) - 1.0;
  }
};

// The result where there is one.
template <class V>
FW_INLINE V logarithm_or_limit(V x, V result) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const V outside = x == 0.0 ? -infinity - V{} : std::numeric_limits<double>::quiet_NaN() - V{};
  return x > 0.0 ? (x == infinity ? x : result) : outside;
}

template <class V>
FW_INLINE V logarithm(V x) {
  using C = Logarithm<double>;
  constexpr uint64_t exact_square = ~((uint64_t{1} << 27) - 1);

  const auto small = x < 0x1p-1022;  // subnormal numbers are made normal first
  const Normal<V> of(small ? x * 0x1p54 : x, small ? 1023 + 54 - V{} : 1023 - V{});
  const V k = of.k, f = of.f, s = f / (f + 2.0), z = s * s;
  const V first = std::bit_cast<V>(std::bit_cast<pattern_of<V>>(f) & exact_square), rest = f - first;
  const V half_square = first * first * 0.5, half_rest = (f + first) * rest * 0.5;
  const V main = f - half_square, lost = f - main - half_square;
  const V correction = s * (half_square + half_rest + z * polynomial<C>(z));
  const V whole = k * C::ln2_high, sum = whole + main, lost_too = main - (sum - whole);
  return logarithm_or_limit(x, sum + (lost_too + (k * C::ln2_low + (lost - half_rest + correction))));
}

template <class V>
FW_INLINE V logarithm_of_floats(V x) {
  using C = Logarithm<float>;
  const Normal<V> of(x, 1023 - V{});
  const V s = of.f / (of.f + 2.0), z = s * s;
  return logarithm_or_limit(x, of.k * C::ln2 + (s + s + s * z * polynomial<C>(z)));
}

template <int N>
FW_INLINE Pack<double, N> log(const Pack<double, N>& x) {
  return each([](auto v) FW_INLINED { return logarithm(v); }, x);
}

// As doubles, which then are rounded all but correctly.
template <int N>
FW_INLINE Pack<float, N> log(const Pack<float, N>& x) {
  return each([](auto v) FW_INLINED {
    constexpr int W = sizeof(v) / sizeof(float), part = std::min(W, native<double>);
    const auto from = [v]<int first>(std::integral_constant<int, first>) FW_INLINED {
      return rounded_to_floats(logarithm_of_floats(widened<double>(pick<part>(v, v, [](int i) { return first + i; }))));
    };
    if constexpr (part == W) return from(std::integral_constant<int, 0>{});
    else return pick<W>(from(std::integral_constant<int, 0>{}), from(std::integral_constant<int, part>{}), [](int i) { return i; });
  }, x);
}

}  // namespace foldwise::FOLDWISE_ISA

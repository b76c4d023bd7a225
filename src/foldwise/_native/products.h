// Products that neither overflow nor underflow on the way.
#pragma once
#include "fold.h"

namespace foldwise::FOLDWISE_ISA {

template <class S, class A> struct Prod;

// A product whose exponent has no end: a fraction in [1, 2) (or 0, inf, NaN) times a power of two.
template <class S, class A>
struct CarefulProd {
  using Source = S;
  using Value = A;
  using Careful = CarefulProd;
  using Plain = Prod<S, A>;
  static constexpr bool guarded = false, heavy = true, rare = true;
  template <int N> struct Acc {
    Pack<A, N> fraction;
    Pack<int64_t, N> exponent;
    auto members() const { return std::tie(fraction, exponent); }
  };

  using Bits = bits_of<A>;
  static constexpr int fraction_bits = std::numeric_limits<A>::digits - 1;
  static constexpr int bias = std::numeric_limits<A>::max_exponent - 1;
  static constexpr Bits least = Bits(1) << fraction_bits, one = Bits(bias) << fraction_bits, two = one + least;
  static constexpr Bits infinity = Bits(2 * bias + 1) << fraction_bits;
  static constexpr Bits sign = std::numeric_limits<Bits>::min();

  static constexpr A absent() { return A(1); }

  template <int N>
  static FW_OUTLINE Acc<N> start(const Pack<A, N>& x) {
    Acc<N> r;
    r.exponent = by_vectors(x, [&](int c, auto v) FW_INLINED {
      using V = decltype(words(v));
      V bits = words(v), magnitude = bits & ~sign, shift = (magnitude >> fraction_bits) - bias;
      V fraction = (bits & ~infinity) | one;
      const V special = (magnitude == 0) | (magnitude >= infinity), tiny = (magnitude < least) & ~special;
      if (lanes_where(special | tiny)) {
        bits = tiny ? words(v * A(least)) : bits;
        fraction = special ? bits : (bits & ~infinity) | one;
        shift = (((bits & ~sign) >> fraction_bits) - bias - (tiny & fraction_bits)) & ~special;
      }
      r.fraction.v[c] = std::bit_cast<decltype(v)>(fraction);
      return shift;
    });
    return r;
  }
  // A product of two fractions is in [1, 4).
  template <int N>
  static FW_INLINE Acc<N> merge_inlined(const Acc<N>& a, const Acc<N>& b) {
    Acc<N> r;
    const auto halved = by_vectors(a.fraction * b.fraction, [&](int c, auto v) FW_INLINED {
      const auto bits = words(v), magnitude = bits & ~sign;
      const decltype(words(v)) large = (magnitude >= two) & (magnitude < infinity);
      r.fraction.v[c] = std::bit_cast<decltype(v)>(bits - (large & least));
      return large;
    });
    r.exponent = a.exponent + b.exponent - halved;
    return r;
  }
  template <int N> static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return merge_inlined(a, b); }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }

  // Whether products of up to eight of such elements and a fraction stay in range; those with zeros do.
  template <int N> static FW_INLINE bool is_moderate(const Pack<A, N>& x) {
    constexpr Bits reach = Bits(bias / 8) << fraction_bits;
    unsigned outside = 0;
    repeat<Pack<A, N>::chunks>([&](int c) FW_INLINED {
      const auto magnitude = words(x.v[c]) & ~sign;
      outside |= lanes_where(((magnitude < one - reach) & (magnitude > 0)) | (magnitude >= one + reach));
    });
    return !outside;
  }
  // At most eight moderate elements join, one after the other.
  template <int N> static FW_OUTLINE Acc<N> join_moderate(const Acc<N>& a, const Pack<A, N>* x, int count) {
    Pack<A, N> product = a.fraction;
    for (int i = 0; i < count; ++i) product = product * x[i];
    Acc<N> r = start(product);
    r.exponent = r.exponent + a.exponent;
    return r;
  }

  // fraction * 2^exponent, rounded once more where it falls below the normal range. Far below it the power is 0: many processors take
  // a hundred times as long for a product that is rounded to 0.
  template <int N> static FW_INLINE Pack<A, N> scaled(const Pack<A, N>& fraction, const Pack<int64_t, N>& exponent) {
    const auto normal = within(1 - bias, bias, exponent);
    const auto far_below = each([](auto e) { return e < -bias - fraction_bits - 1; }, exponent);
    const auto near = each([](auto f, auto power) FW_INLINED {
      return f * (f - f == 0 ? power : A(1) - decltype(f){});  // infinity stays
    }, fraction, power_of_two(normal + far_below));
    return near * power_of_two(within(-fraction_bits - 2, 1, exponent - normal));
  }
  template <int N> static FW_OUTLINE Pack<A, N> result(const Acc<N>& a) { return scaled(a.fraction, a.exponent); }
  template <int N> static FW_OUTLINE Pack<A, N> after(const Acc<N>& before, const Acc<N>& a) {
    const Acc<N> whole = merge_inlined(before, a);
    return scaled(whole.fraction, whole.exponent);
  }

  template <int N> static FW_INLINE Pack<int64_t, N> within(int64_t lowest, int64_t highest, const Pack<int64_t, N>& x) {
    return each([=](auto v) FW_INLINED {
      const auto low = lowest - decltype(v){}, high = highest - decltype(v){};
      return v < low ? low : v > high ? high : v;
    }, x);
  }
  // Of exponents in the normal range, or just below it: there it is 0.
  template <int N> static FW_INLINE Pack<A, N> power_of_two(const Pack<int64_t, N>& exponents) {
    constexpr int W = Pack<int64_t, N>::width;
    A powers[N];
    repeat<Pack<int64_t, N>::chunks>([&](int c) FW_INLINED {
      const auto biased = __builtin_convertvector(exponents.v[c] + bias, typename VectorOf<Bits, W>::type);
      store_vector(powers + c * W, biased << fraction_bits);
    });
    return load<A, N>(powers);
  }

  // A scan may place plain products on its carry while the carry's own power of two is an ordinary number.
  template <int N>
  struct Carry {
    Acc<N> before = start(splat<A, N>(A(1)));

    bool plain() const {
      for (int i = 0; i < N; ++i) {
        if (before.exponent[i] > bias || before.exponent[i] < 1 - bias) return false;
      }
      return true;
    }
    template <class Fold>
    FW_INLINE Pack<A, N> emit(const typename Fold::template Acc<N>& local, Judge&) const {
      if constexpr (std::is_same_v<Fold, CarefulProd>) return after(before, local);
      else return before.fraction * local.product * power_of_two(before.exponent);
    }
    FW_INLINE void advance(const Acc<N>& last) { before = merge(before, last); }
  };

 private:
  template <class V> static FW_INLINE auto words(V v) {
    return std::bit_cast<typename VectorOf<Bits, sizeof(V) / sizeof(A)>::type>(v);
  }
  // Integers as long as the elements, a vector for each of theirs.
  template <int N, class Each> static FW_INLINE Pack<int64_t, N> by_vectors(const Pack<A, N>& x, Each&& integers) {
    Bits all[N];
    repeat<Pack<A, N>::chunks>([&](int c) FW_INLINED { store_vector(all + c * Pack<A, N>::width, integers(c, x.v[c])); });
    return load<int64_t, N>(all);
  }
};

// Plain products, right as long as the hardware says that none left the normal range; redone carefully otherwise.
// The two agree bit for bit, because scaling by a power of two changes no rounding.
template <class S, class A>
struct Prod {
  using Source = S;
  using Value = A;
  static constexpr bool guarded = std::is_floating_point_v<A>, signless = true;
  static constexpr bool heavy = std::is_integral_v<A> && vector_bytes < 64;  // AVX-512 alone multiplies 64 bits at once
  static constexpr unsigned flags = flag_of_range;
  using Careful = std::conditional_t<guarded, CarefulProd<S, A>, Prod>;
  template <int N> struct Acc {
    Pack<A, N> product;
    auto members() const { return std::tie(product); }
  };

  static constexpr A absent() { return A(1); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x}; }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return {a.product * b.product}; }
  template <int N> static FW_INLINE auto lift(const Acc<N>& a) {
    if constexpr (guarded) return Careful::start(a.product);
    else return a;
  }
  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) { return a.product; }
};

}  // namespace foldwise::FOLDWISE_ISA

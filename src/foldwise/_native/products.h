// Products that neither overflow nor underflow on the way.
#pragma once
#include "fold.h"

namespace foldwise::FOLDWISE_ISA {

// A product whose exponent has no end: a fraction in [1, 2) (or 0, inf, NaN) times a power of two.
template <class S, class A>
struct CarefulProd {
  using Source = S;
  using Value = A;
  using Careful = CarefulProd;
  static constexpr bool guarded = false, heavy = true, rare = true;
  template <int N> struct Acc {
    Pack<A, N> fraction;
    Pack<int64_t, N> exponent;
    auto members() const { return std::tie(fraction, exponent); }
  };

  using Bits = bits_of<A>;
  static constexpr int fraction_bits = std::numeric_limits<A>::digits - 1;
  static constexpr int bias = std::numeric_limits<A>::max_exponent - 1;
  static constexpr Bits one = Bits(bias) << fraction_bits;
  static constexpr Bits infinity = Bits(2 * bias + 1) << fraction_bits;
  static constexpr Bits sign = std::numeric_limits<Bits>::min();

  static constexpr A absent() { return A(1); }

  template <int N>
  static FW_OUTLINE Acc<N> start(const Pack<A, N>& x) {
    constexpr Bits least = Bits(1) << fraction_bits;
    constexpr int W = Pack<A, N>::width;
    typedef typename VectorOf<Bits, W>::type V;
    Bits shifts[N];
    Acc<N> r;
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      V bits = std::bit_cast<V>(x.v[c]), magnitude = bits & ~sign, shift = (magnitude >> fraction_bits) - bias;
      V fraction = (bits & ~infinity) | one;
      const V special = (magnitude == 0) | (magnitude >= infinity), tiny = (magnitude < least) & ~special;
      if (lanes_where(special | tiny)) {
        bits = tiny ? std::bit_cast<V>(x.v[c] * A(least)) : bits;
        fraction = special ? bits : (bits & ~infinity) | one;
        shift = (((bits & ~sign) >> fraction_bits) - bias - (tiny & fraction_bits)) & ~special;
      }
      r.fraction.v[c] = std::bit_cast<typename Pack<A, N>::Vector>(fraction);
      store_vector(shifts + c * W, shift);
    }
    r.exponent = load<int64_t, N>(shifts);
    return r;
  }
  // A product of two fractions is in [1, 4).
  template <int N>
  static FW_OUTLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    constexpr Bits two = one + (Bits(1) << fraction_bits);
    constexpr int W = Pack<A, N>::width;
    typedef typename VectorOf<Bits, W>::type V;
    Bits halved[N];
    Acc<N> r{a.fraction * b.fraction, a.exponent + b.exponent};
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      const V bits = std::bit_cast<V>(r.fraction.v[c]), magnitude = bits & ~sign;
      const V large = (magnitude >= two) & (magnitude < infinity);
      r.fraction.v[c] = std::bit_cast<typename Pack<A, N>::Vector>(bits - (large & (Bits(1) << fraction_bits)));
      store_vector(halved + c * W, large);
    }
    r.exponent = r.exponent - load<int64_t, N>(halved);
    return r;
  }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }

  // fraction * 2^exponent, rounded once more where it falls below the normal range.
  static A scaled(A fraction, int64_t exponent) {
    if (fraction == 0 || fraction - fraction != 0) return fraction;
    if (exponent > bias) return fraction * std::numeric_limits<A>::infinity();
    if (exponent >= 1 - bias) return fraction * std::bit_cast<A>(Bits(exponent + bias) << fraction_bits);
    const int64_t below = exponent - (1 - bias);
    if (below < -fraction_bits - 2) return fraction * A(0);
    return fraction * std::numeric_limits<A>::min() * std::bit_cast<A>(Bits(below + bias) << fraction_bits);
  }
  template <int N> static FW_OUTLINE Pack<A, N> result(const Acc<N>& a) {
    A out[N];
    for (int i = 0; i < N; ++i) out[i] = scaled(a.fraction[i], a.exponent[i]);
    return load<A, N>(out);
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
      if constexpr (std::is_same_v<Fold, CarefulProd>) {
        return result(merge(before, local));
      } else {
        A powers[N];
        for (int i = 0; i < N; ++i) powers[i] = std::bit_cast<A>(Bits(before.exponent[i] + bias) << fraction_bits);
        return before.fraction * local.product * load<A, N>(powers);
      }
    }
    FW_INLINE void advance(const Acc<N>& last) { before = merge(before, last); }
  };
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

// One struct per fold: what it accumulates, how one more element or another accumulator joins, how it ends.
//
//   Source, Value     what is read, and the type it is folded in
//   Acc<N>            the running state of N neighbouring outputs, as packs
//   absent()          the value that changes nothing, for places with no element
//   start, merge      an accumulator of one element; two accumulators, the left one's elements first
//   result            what the accumulator stands for
//   Careful, lift     the fold in arithmetic that cannot leave its range; the same type where none is needed
//   guarded, heavy    whether plain results need that check; whether a step is so long that loops are not unrolled
//   Carry             what a scan hands from one segment to the next: emit places a pack on it, advance moves it on
#pragma once
#include <tuple>

#include "vec.h"

namespace foldwise::FOLDWISE_ISA {

// 256 bytes of accumulators whatever the ISA; 32 steps make a block.
template <class A> constexpr int lanes_of = 256 / static_cast<int>(sizeof(A));
constexpr int steps_per_block = 32;

template <class S> struct ReducedIn { using type = S; };
template <> struct ReducedIn<half> { using type = float; };
template <> struct ReducedIn<bfloat> { using type = float; };
template <> struct ReducedIn<std::int32_t> { using type = int64_t; };

// A running sum or product of float32 in float64 costs nothing next to memory, and leaves one rounding per element.
template <class S> struct ScannedIn : ReducedIn<S> {};
template <> struct ScannedIn<float> { using type = double; };

// The initial value, or a scan's identity, as the accumulator's type.
template <class A>
FW_INLINE A initial_of(const Finish& finish) {
  if constexpr (std::is_floating_point_v<A>) return static_cast<A>(finish.number);
  else return static_cast<A>(finish.integer);
}

// What the output dtype can hold; whether anything did not fit.
struct Judge {
  const Finish& finish;
  bool fits = true;

  uint64_t operator()(__int128 exact) {
    if (exact >= finish.lowest && exact <= finish.highest) return static_cast<uint64_t>(exact);
    fits = false;
    return static_cast<uint64_t>(exact < finish.lowest ? finish.lowest : finish.highest);
  }
};

template <class Fold> constexpr bool is_judged = requires { &Fold::template judged<1>; };

// ---- sum

// What a scan hands from one segment to the next. For sums of floats it is an unevaluated pair of numbers, so that the
// error of one segment's carry does not reach the next.
template <class A, int N>
struct PairCarry {
  Pack<A, N> high = splat<A, N>(A(-0.0)), low = splat<A, N>(A(-0.0));

  static constexpr bool plain() { return true; }
  template <class Fold>
  FW_INLINE Pack<A, N> emit(const typename Fold::template Acc<N>& local, Judge&) const {
    return high + (low + local.total);
  }
  template <class Acc>
  FW_INLINE void advance(const Acc& last) {
    const auto term = low + last.total;
    const auto total = high + term;
    const auto back = total - high;
    const auto error = (high - (total - back)) + (term - back);
    const auto nothing = splat<A, N>(A(0));
    // An error that is no number belongs to a total that is none: nothing can be added to it.
    low = each([](auto e, auto t, auto zero) { return (e == e) & (t - t == zero) ? e : zero; }, error, total, nothing);
    high = total;
  }
};

// For everything else the carry is the accumulator of all that came before.
template <class Fold, int N>
struct MergeCarry {
  using A = typename Fold::Value;
  typename Fold::template Acc<N> before = Fold::start(splat<A, N>(Fold::absent()));

  static constexpr bool plain() { return true; }
  template <class>
  FW_INLINE Pack<A, N> emit(const typename Fold::template Acc<N>& local, Judge& judge) const {
    const auto whole = Fold::merge(before, local);
    if constexpr (is_judged<Fold>) return Fold::judged(whole, judge);
    else return Fold::result(whole);
  }
  FW_INLINE void advance(const typename Fold::template Acc<N>& last) { before = Fold::merge(before, last); }
};

template <class S, class A>
struct Sum {
  using Source = S;
  using Value = A;
  using Careful = Sum;
  static constexpr bool guarded = false, heavy = false;
  template <int N> struct Acc {
    Pack<A, N> total;
    auto members() const { return std::tie(total); }
  };

  static constexpr A absent() { return std::is_floating_point_v<A> ? A(-0.0) : A(0); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) { return {x}; }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return {a.total + b.total}; }
  template <int N> static FW_INLINE Acc<N> lift(const Acc<N>& a) { return a; }
  template <int N> static FW_INLINE Pack<A, N> result(const Acc<N>& a) { return a.total; }

  template <int N>
  using Carry = std::conditional_t<std::is_floating_point_v<A>, PairCarry<A, N>, MergeCarry<Sum, N>>;
};

// ---- prod

// A product whose exponent has no end: a fraction in [1, 2) (or 0, inf, NaN) times a power of two.
template <class S, class A>
struct CarefulProd {
  using Source = S;
  using Value = A;
  using Careful = CarefulProd;
  static constexpr bool guarded = false, heavy = true;
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
  static FW_OUTLINE Acc<N> normalised(const Acc<N>& a) {
    Bits shifts[N];
    Acc<N> r;
    constexpr int W = Pack<A, N>::width;
    for (int c = 0; c < Pack<A, N>::chunks; ++c) {
      typedef typename VectorOf<Bits, W>::type V;
      const V magnitude = std::bit_cast<V>(a.fraction.v[c]) & ~sign;
      const V special = (magnitude == 0) | (magnitude >= infinity);
      const V tiny = (magnitude < (Bits(1) << fraction_bits)) & ~special;
      const A up = A(Bits(1) << fraction_bits);
      const V bits = tiny ? std::bit_cast<V>(a.fraction.v[c] * up) : std::bit_cast<V>(a.fraction.v[c]);
      const V shift = ((bits & ~sign) >> fraction_bits) - bias - (tiny & fraction_bits);
      const V fraction = special ? bits : (bits & ~infinity) | one;
      r.fraction.v[c] = std::bit_cast<typename Pack<A, N>::Vector>(fraction);
      store_vector(shifts + c * W, shift & ~special);
    }
    r.exponent = a.exponent + load<int64_t, N>(shifts);
    return r;
  }

  template <int N> static FW_INLINE Acc<N> start(const Pack<A, N>& x) {
    return normalised(Acc<N>{x, splat<int64_t, N>(0)});
  }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    return normalised(Acc<N>{a.fraction * b.fraction, a.exponent + b.exponent});
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
  static constexpr bool guarded = std::is_floating_point_v<A>, heavy = false;
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

// ---- integers judged by their exact value

// A sum in 128 bits.
template <class S, class A>
struct JudgedSum {
  using Source = S;
  using Value = A;
  using Careful = JudgedSum;
  static constexpr bool guarded = false, heavy = true;
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
    for (int i = 0; i < N; ++i) out[i] = A(judge((static_cast<__int128>(a.high[i]) << 64) | a.low[i]));
    return load<A, N>(out);
  }
};

// A product as sign and magnitude; a magnitude past 64 bits only a zero can bring back.
template <class S, class A>
struct JudgedProd {
  using Source = S;
  using Value = A;
  using Careful = JudgedProd;
  static constexpr bool guarded = false, heavy = true;
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

// ---- the list of them

template <FoldId id, class S, class A> struct FoldFor;
#define FOLDWISE_FOLD(name, Struct) \
  template <class S, class A> struct FoldFor<FoldId::name, S, A> { using type = Struct<S, A>; };
#include "folds.def"
#undef FOLDWISE_FOLD

template <class Fold, int N>
struct CarryFor { using type = MergeCarry<Fold, N>; };
template <class Fold, int N>
  requires requires { typename Fold::template Carry<N>; }
struct CarryFor<Fold, N> { using type = typename Fold::template Carry<N>; };
template <class Fold, int N>
using CarryOf = typename CarryFor<typename Fold::Careful, N>::type;

// ---- accumulators seen whole

template <class To, class F, class... From>
FW_INLINE To remade(F&& f, const From&... from) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto member = [&](auto index) { return f(std::get<index>(from.members())...); };
    return To{member(std::integral_constant<std::size_t, I>{})...};
  }(std::make_index_sequence<std::tuple_size_v<decltype(std::declval<To>().members())>>{});
}

// One accumulator: the left half of the elements merged with the right half, again and again.
template <class Fold, int N>
FW_INLINE typename Fold::template Acc<1> folded(const typename Fold::template Acc<N>& a) {
  if constexpr (N == 1) {
    return a;
  } else {
    using Half = typename Fold::template Acc<N / 2>;
    return folded<Fold, N / 2>(Fold::merge(remade<Half>([](const auto& p) { return lower(p); }, a),
                                           remade<Half>([](const auto& p) { return upper(p); }, a)));
  }
}

template <class Fold, int N>
FW_INLINE typename Fold::template Acc<1> element(const typename Fold::template Acc<N>& a, int i) {
  return remade<typename Fold::template Acc<1>>([i](const auto& p) { return splat<std::decay_t<decltype(p[0])>, 1>(p[i]); }, a);
}

template <class Fold, int N>
FW_INLINE typename Fold::template Acc<N> absence() {
  return Fold::start(splat<typename Fold::Value, N>(Fold::absent()));
}

// The result, with the initial value on its left; false when a judged integer did not fit.
template <class Fold, int N>
FW_INLINE bool finished(const typename Fold::template Acc<N>& a, const Finish& finish, typename Fold::Value* out) {
  using A = typename Fold::Value;
  const auto whole = Fold::merge(Fold::start(splat<A, N>(initial_of<A>(finish))), a);
  if constexpr (is_judged<Fold>) {
    Judge judge{finish};
    store(out, Fold::judged(whole, judge));
    return judge.fits;
  } else {
    store(out, canonical(Fold::result(whole)));
    return true;
  }
}

}  // namespace foldwise::FOLDWISE_ISA

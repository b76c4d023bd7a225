// Folds whose plain arithmetic is exact, or raises a flag that says it was not: sums of doubles that have bits to spare.
//
//   parts        how many doubles an accumulator is; their sum is what it stands for
//   add          one element, to a Total
//   summed       what is summed of elements: as many numbers, or the SquaresInTwo of a vector of doubles, which are two each
//   linear       whether that is the element, or its magnitude; `as_they_are`: always the element
//   plainly      whether most pass one check where each is cut at places of its own, in less time than a grid takes
//   levels       of a grid (exact_grid.h) for elements some forty binades apart
#pragma once
#include "exact.h"
#include "fold.h"
#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

// Every float is summed in doubles; magnitudes and squares of the short ones are asked for so seldom that they are read as
// float32.
struct ExactLong {
  template <class S> struct Reduced { using type = void; };
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct ExactLong::Reduced<float> { using type = double; };
template <> struct ExactLong::Reduced<double> { using type = double; };

struct Exact {
  template <class S> struct Reduced : ExactLong::Reduced<S> {};
  template <class S> struct Scanned : Reduced<S> {};
};
template <> struct Exact::Reduced<half> { using type = double; };
template <> struct Exact::Reduced<bfloat> { using type = double; };

template <class Fold> constexpr bool is_exact = requires { Fold::parts; };
template <class Fold> constexpr bool is_exact_sum = requires { requires Fold::linear; };

// Whether any operation since the flags were cleared was not exact, or had no number for a result.
FW_INLINE bool lost_bits() { return raised_flags(flag_of_any); }

// A double without its lower bits, and those.
template <int lower, int N>
FW_INLINE void cut(const Pack<double, N>& x, Pack<double, N>& high, Pack<double, N>& low) {
  const Pack<double, N> once = in_register(x);
  high = each([](auto v) {
    typedef typename VectorOf<int64_t, Pack<double, N>::width>::type Bits;
    return std::bit_cast<decltype(v)>(std::bit_cast<Bits>(v) & -(int64_t{1} << lower));
  }, once);
  low = each([](auto v, auto h) FW_INLINED { return taken_aside(v, h); }, once, high);
}

template <class S>
struct ExactFold {
  using Source = S;
  using Value = double;
  static constexpr bool guarded = false, heavy = false, signless = true, as_they_are = false;
  static constexpr double absent() { return 0; }
  template <class Acc> static FW_INLINE Acc lift(const Acc& a) { return a; }
};

template <int N>
FW_INLINE Pack<double, N> aside(const Pack<double, N>& a, const Pack<double, N>& b) {
  return each([](auto p, auto q) FW_INLINED { return added_aside(p, q); }, a, b);
}

// Every part added to its like.
template <class Acc>
FW_INLINE Acc added(const Acc& a, const Acc& b) {
  return remade<Acc>([](const auto& p, const auto& q) { return p + q; }, a, b);
}

// Accumulators as rows of parts: part m of place i is at[m * row + i].
template <class F, int N>
FW_INLINE typename F::template Acc<N> load_parts(const double* at, int64_t row) {
  return [&]<int... m>(std::integer_sequence<int, m...>) FW_INLINED {
    return typename F::template Acc<N>{load<double, N>(at + m * row)...};
  }(std::make_integer_sequence<int, F::parts>{});
}
template <class Acc>
FW_INLINE void store_parts(double* at, int64_t row, const Acc& a) {
  std::apply([&](const auto&... part) FW_INLINED {
    int m = 0;
    (store(at + m++ * row, part), ...);
  }, a.members());
}
template <class Acc>
FW_INLINE void add_parts(Total& total, const Acc& a) {
  std::apply([&](const auto&... part) FW_INLINED { (total.add(part[0]), ...); }, a.members());
}

// If it is a normal number.
FW_INLINE double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

// What stretches of a sequence come to: an accumulator, what additions to it have lost, and a Total beside these as soon as they do
// not hold it.
template <class F>
class Tally {
  using Parts = typename F::template Acc<1>;
  Parts parts_ = absence<F, 1>();
  double lost_ = 0;
  void* const room_;
  Total* total_ = nullptr;

 public:
  static constexpr bool keeps_lost = F::linear;  // squares seldom come to numbers
  static constexpr int numbers = F::parts + keeps_lost;

  explicit Tally(void* room_for_a_total) : room_(room_for_a_total) {}
  explicit Tally(Total& total) : room_(&total), total_(&total) {}

  FW_OUTLINE void add(const Parts& more) {
    double lost = lost_;
    bool exact = true;
    const Parts all = remade<Parts>([&](const auto& a, const auto& b) FW_INLINED {
      double here, beyond;
      const double sum = two_sum(a[0], b[0], here);
      lost = two_sum(lost, here, beyond);
      exact &= beyond == 0;  // of what has no finite sum it is NaN
      return splat<double, 1>(sum);
    }, parts_, more);
    if (!keeps_lost) exact &= lost == 0;
    if (!exact) [[unlikely]] whole();
    parts_ = exact ? all : more;
    lost_ = exact ? lost : 0;
  }
  FW_INLINE void add(double x) {
    add(remade<Parts>([&](const auto&) FW_INLINED { return splat<double, 1>(std::exchange(x, 0)); }, parts_));
  }
  // Units of 2^exponent, which no double is too short for.
  FW_INLINE void add_units(unsigned __int128 units, int exponent, bool negative) {
    constexpr int digits = std::numeric_limits<double>::digits;
    if (units >> 2 * digits) return total().add_units(units, exponent - Total::lowest, negative);
    const double unit = negative ? -power_of_two(exponent) : power_of_two(exponent);
    if (const auto upper = static_cast<int64_t>(units >> digits)) add(static_cast<double>(upper) * 0x1p53 * unit);
    add(static_cast<double>(static_cast<int64_t>(units & ((uint64_t{1} << digits) - 1))) * unit);
  }
  // For what is neither.
  Total& total() { return total_ ? *total_ : *(total_ = new (room_) Total); }

  // Whether so many numbers are all there is, and they, `row` apart.
  bool holds_all() const { return !total_; }
  void store(double* at, int64_t row) const {
    store_parts(at, row, parts_);
    if constexpr (keeps_lost) at[F::parts * row] = lost_;
  }
  // Everything, as a Total.
  Total& whole() {
    add_parts(total(), std::exchange(parts_, absence<F, 1>()));
    total().add(std::exchange(lost_, 0));
    return total();
  }
};

// Numbers that are as short as half a double are added as they are; doubles as two halves.
template <class S, class A>
struct ExactSum : ExactFold<S> {
  using Careful = ExactSum;
  static constexpr int parts = std::is_same_v<S, double> ? 2 : 1;
  template <int N, int count> struct Parts;
  template <int N> struct Parts<N, 1> {
    Pack<double, N> total;
    auto members() const { return std::tie(total); }
  };
  template <int N> struct Parts<N, 2> {
    Pack<double, N> high, low;
    auto members() const { return std::tie(high, low); }
  };
  template <int N> using Acc = Parts<N, parts>;

  static constexpr bool linear = true, plainly = true, as_they_are = true;
  static constexpr int levels = parts + 1;
  template <class T, int N> static FW_INLINE Pack<T, N> summed(const Pack<T, N>& x) { return x; }
  static FW_INLINE void add(Total& total, double x) { total.add(x); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<double, N>& x) {
    if constexpr (parts == 1) {
      return {x};
    } else {
      Acc<N> a;
      cut<27, N>(x, a.high, a.low);
      return a;
    }
  }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    if constexpr (parts == 1) return {aside<N>(a.total, b.total)};
    else return added(a, b);
  }
};

template <class S, class A>
struct ExactMagnitudes : ExactSum<S, A> {
  using Careful = ExactMagnitudes;
  static constexpr bool signless = false, as_they_are = false;
  template <int N> using Acc = typename ExactSum<S, A>::template Acc<N>;

  template <class T, int N> static FW_INLINE Pack<T, N> summed(const Pack<T, N>& x) { return magnitude(x); }
  static FW_INLINE void add(Total& total, double x) { total.add(std::fabs(x)); }
  template <int N> static FW_INLINE Acc<N> start(const Pack<double, N>& x) { return ExactSum<S, A>::start(magnitude(x)); }
};

// Halves of doubles, of at most 26 bits each: the upper one rounded, the lower one of either sign.
template <class V>
struct Halves {
  V upper, lower;
  FW_INLINE explicit Halves(V x) {
    typedef typename VectorOf<int64_t, sizeof(V) / sizeof(double)>::type Bits;
    upper = std::bit_cast<V>((std::bit_cast<Bits>(x) + (int64_t{1} << 26)) & -(int64_t{1} << 27));
    lower = x - upper;
  }
};

// Squares of doubles: the nearest doubles, and what these leave, exactly, unless the flags tell that it is too small.
template <class V>
struct SquaresInTwo {
  V nearest, rest;
  FW_INLINE explicit SquaresInTwo(V x) : nearest(multiplied_unnoted(x, x)) {
    if constexpr (fuses) {
      rest = fused(x, x, -nearest);
    } else {
      const Halves of(x);
      rest = ((of.upper * of.upper - nearest) + (of.upper + of.upper) * of.lower) + of.lower * of.lower;
    }
  }
};

// The square of anything shorter than a double is a double, cut into three; that of a double is three products of halves,
// and these are cut again, those of like size together: in rows of few, and where flags tell of products. Elsewhere squares go on grids.
template <class S, class A>
struct ExactSquares : ExactFold<S> {
  using Careful = ExactSquares;
  static constexpr bool longer = std::is_same_v<S, double>;
  static constexpr int parts = longer ? 4 : 3;
  static constexpr bool linear = false, plainly = !longer && !adds_unnoted;
  static constexpr int levels = parts;
  template <int N, int count> struct Parts;
  template <int N> struct Parts<N, 3> {
    Pack<double, N> first, second, third;
    auto members() const { return std::tie(first, second, third); }
  };
  template <int N> struct Parts<N, 4> {
    Pack<double, N> first, second, third, fourth;
    auto members() const { return std::tie(first, second, third, fourth); }
  };
  template <int N> using Acc = Parts<N, parts>;

  static FW_INLINE void add(Total& total, double x) { total.add_square(x); }

  template <int N> static FW_INLINE auto summed(const Pack<double, N>& x) {
    static_assert(Pack<double, N>::chunks == 1);
    if constexpr (longer) return SquaresInTwo(x.v[0]);
    else return x * x;
  }

  template <int N> static FW_INLINE Acc<N> start(const Pack<double, N>& x) {
    Acc<N> a;
    if constexpr (!longer) {
      Pack<double, N> rest;
      cut<37, N>(x * x, a.first, rest);
      cut<37, N>(rest, a.second, a.third);
    } else {
      Pack<double, N> upper, lower, middle, last;
      repeat<Pack<double, N>::chunks>([&](int k) FW_INLINED {
        const Halves of(x.v[k]);
        upper.v[k] = of.upper;
        lower.v[k] = of.lower;
      });
      cut<27, N>(upper * upper, a.first, a.second);
      cut<27, N>((upper + upper) * lower, middle, a.third);
      cut<27, N>(lower * lower, last, a.fourth);
      a.second = a.second + middle;
      a.third = a.third + last;
    }
    return a;
  }
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return added(a, b); }
};

// ---- a few at a time as floats

// A bfloat16 is so short that floats hold the sum of some, if they are not far apart. Then doubles have less to do.
template <class F> constexpr bool starts_in_floats = std::is_same_v<typename F::Source, bfloat> && F::parts == 1;

constexpr int floats_at_once = native<float>;
using Floats = Pack<float, floats_at_once>;

// Neighbours added: one of two is a float with something below, the other a float when it is moved up.
FW_INLINE Floats sums_of_two(const bfloat* p) {
  const auto [even, odd] = load_by_parity<floats_at_once>(p);
  return even + odd;
}

template <int N>
FW_INLINE Pack<double, N> added_floats(const Pack<double, N>& sum, const Pack<float, N>& some) {
  return aside<N>({{widened<double>(some.v[0])}}, sum);
}

// Sums of so many elements, fours first; what they are together is for every ISA its own, unless the flags say it is exact.
constexpr int64_t floats_per_check = 4096;
FW_INLINE Pack<double, native<double>> sums_by_floats(const bfloat* p, int64_t count, const Ahead& ahead) {
  constexpr int W = native<double>, fours = 4 * floats_at_once;
  auto a = splat<double, W>(0.0), b = a, c = a, d = a;
  const auto take = [&](int64_t i, auto& low, auto& high) FW_INLINED {
    ask_for_next(p + i, ahead);
    ask_for_next(p + i + line_bytes / 2, ahead);
    const Floats some = sums_of_two(p + i) + sums_of_two(p + i + fours / 2);
    low = added_floats<W>(low, lower(some));
    high = added_floats<W>(high, upper(some));
  };
  int64_t i = 0;
  for (; i + 2 * fours <= count; i += 2 * fours) {
    take(i, a, b);
    take(i + fours, c, d);
  }
  if (i + fours <= count) take(i, a, b), i += fours;
  for (; i + W <= count; i += W) c = c + load<double, W>(p + i);
  if (i < count) d = d + load_some<double, W>(p + i, static_cast<int>(count - i), 0.0);
  return (a + b) + (c + d);
}

}  // namespace foldwise::FOLDWISE_ISA

// Sums on a grid: an anchor so large that whatever is added to it leaves multiples of one unit, exactly, and a rest that
// is exact as well. Level by level, the rest goes to an anchor that is smaller.
#pragma once
#include "exact_folds.h"

namespace foldwise::FOLDWISE_ISA {

// All of four vectors together, in an order that is every ISA's own.
template <class Vector>
FW_INLINE double summed(const Vector (&four)[4]) {
  return summed(Pack<double, native<double>>{{(four[0] + four[1]) + (four[2] + four[3])}});
}

// A vector of elements as doubles; those behind the last are zeros.
template <class S, class Whole>
FW_INLINE Pack<double, native<double>> loaded(const S* p, int64_t i, int64_t count, Whole) {
  constexpr int W = native<double>;
  if (Whole::value || i + W <= count) return load<double, W>(p + i);
  return load_some<double, W>(p + i, static_cast<int>(count - i), 0.0);
}
// What is summed of them: a vector, or two.
template <class F>
FW_INLINE auto summed_vector(const Pack<double, native<double>>& x) {
  const auto summed = F::summed(x);
  if constexpr (requires { summed.v; }) return summed.v[0];
  else return summed;
}

// Loads them for a grid.
template <class F, class S>
FW_INLINE auto vectors_of(const S* p, int64_t count) {
  return [p, count](int64_t i, auto whole) FW_INLINED {
    if (i * static_cast<int64_t>(sizeof(S)) % 64 == 0) ask_for(p + i, grid_prefetch_distance());
    return summed_vector<F>(loaded(p, i, count, whole));
  };
}

// Hands x to anchors from `first` on, up to `end`: each adds what it takes, in its unit. What the last of them leaves.
template <int first, int end, class At, class Vector>
FW_INLINE Vector handed(At&& anchor, Vector x, bool taken_elsewhere = false) {
  repeat<end - first>([&](int k) FW_INLINED {
    Vector& before = anchor(first + k);
    const Vector sum = added_unnoted(before, x);
    const Vector got = taken_elsewhere ? taken_aside(sum, before) : sum - before;
    x = taken_aside(x, got);
    before = sum;
  });
  return x;
}
// What a square leaves of its nearest double is too small for the first anchor. Where flags tell nothing, what is left of either is told,
// not their sum.
template <int first, int end, class At, class Vector>
FW_INLINE Vector handed(At&& anchor, SquaresInTwo<Vector> x, bool = false) {
  const Vector nearest = handed<first, end>(anchor, x.nearest), rest = handed<first + 1, end>(anchor, x.rest);
  if constexpr (adds_unnoted) return nearest + rest;
  using Bits = typename VectorOf<uint64_t, sizeof(Vector) / sizeof(double)>::type;
  return std::bit_cast<Vector>(std::bit_cast<Bits>(nearest) | std::bit_cast<Bits>(rest));
}

// Anchors for `count` numbers each, all of them below 2^exponent.
template <int levels>
struct Anchors {
  static constexpr int digits = std::numeric_limits<double>::digits, bias = std::numeric_limits<double>::max_exponent - 1;
  double at[levels];

  FW_INLINE Anchors(int exponent, int64_t count) {
    const int log = std::bit_width(static_cast<uint64_t>(count));
    exponent += log + 1;
    for (double& each : at) {
      each = 1.5 * std::bit_cast<double>(uint64_t(std::clamp(exponent, 1 - bias, bias - 1) + bias) << (digits - 1));
      exponent += log - digits + 1;
    }
  }
};
// How a sum that began at an anchor differs from it in sign and exponent: if it does, it says nothing.
template <class Vector>
FW_INLINE auto moved_from(double anchor, const Vector& sum) {
  using Bits = typename VectorOf<uint64_t, sizeof(Vector) / sizeof(double)>::type;
  return std::bit_cast<Bits>(sum) ^ std::bit_cast<Bits>(anchor - Vector{});
}
template <class Bits>
FW_INLINE bool any_moved(const Bits& moved) { return lanes_where(moved >> (std::numeric_limits<double>::digits - 1) != 0) != 0; }

template <int levels>
class Grid {
  static constexpr int W = native<double>;
  static constexpr int vectors = 4;
  using Anchored = Anchors<levels>;
  typedef typename VectorOf<double, W>::type Vector;
  typedef typename VectorOf<uint64_t, W>::type Bits;

  Anchored anchors_;
  Vector sums_[levels][vectors];
  Bits moved_[vectors] = {};

  FW_INLINE Bits moved(int k, int v) const { return moved_from(anchors_.at[k], sums_[k][v]); }

 public:
  // Whether the flags tell of all that is not exact: of a rest, or of a sum that leaves the anchor's binade and comes back.
  static constexpr bool flags_tell = adds_unnoted;

  // For `count` numbers, all of them below 2^exponent.
  FW_INLINE Grid(int exponent, int64_t count) : anchors_(exponent, count / (vectors * W) + vectors) {
    for (int k = 0; k < levels; ++k) {
      for (Vector& sum : sums_[k]) sum = anchors_.at[k] - Vector{};
    }
  }

  // Hands load(i, whole) of every W elements to the anchors, and what they leave to rest(v, i, left); the last W may not be
  // whole.
  template <class Load, class Rest>
  FW_INLINE void take(int64_t count, Load&& load, Rest&& rest) {
    Grid here = *this;  // in registers
    const auto step = [&](int64_t i, int v, auto whole) FW_INLINED {
      const auto anchor = [&](int k) FW_INLINED -> Vector& { return here.sums_[k][v]; };
      const Vector left = handed<0, levels>(anchor, load(i, whole), levels == 1 && v % 2 == 0);
      if constexpr (!flags_tell) here.moved_[v] |= here.moved(0, v);
      rest(v, i, left);
    };
    int64_t i = 0;
    for (; i + vectors * W <= count; i += vectors * W) {
      repeat<vectors>([&](int v) FW_INLINED { step(i + v * W, v, std::true_type{}); });
    }
    for (; i < count; i += W) step(i, 0, std::false_type{});
    *this = here;
  }

  // Where some were not below that power of two: the sum left the anchor's binade, and says nothing.
  FW_INLINE Bits moved() const {
    Bits all = moved_[0] | moved_[1] | moved_[2] | moved_[3];
    for (int k = 0; flags_tell && k < levels; ++k) {
      for (int v = 0; v < vectors; ++v) all |= moved(k, v);
    }
    return all;
  }
  FW_INLINE double anchor(int k) const { return anchors_.at[k]; }
  // What an anchor got, if the flags do not say that this is not exact.
  FW_INLINE Vector got(int k) const {
    const Vector anchor = anchors_.at[k] - Vector{};
    return ((sums_[k][0] - anchor) + (sums_[k][1] - anchor)) + ((sums_[k][2] - anchor) + (sums_[k][3] - anchor));
  }
  FW_INLINE double sum(int k) const { return summed(Pack<double, W>{{got(k)}}); }
  // What the anchors got in any case: seen as integers, their differences count the anchor's units.
  FW_INLINE void add_to(Total& total) const {
    for (int k = 0; k < levels; ++k) {
      Bits all = {};
      for (const Vector& sum : sums_[k]) all += std::bit_cast<Bits>(sum) - std::bit_cast<Bits>(anchors_.at[k] - Vector{});
      int64_t units = 0;
      for (int i = 0; i < W; ++i) units += all[i];
      constexpr int digits = Anchored::digits;
      const int unit = static_cast<int>(std::bit_cast<uint64_t>(anchors_.at[k]) >> (digits - 1)) - Anchored::bias - (digits - 1);
      total.add_units(units < 0 ? -units : units, unit - Total::lowest, units < 0);
    }
  }
};

// Powers of two: one above every one of `count` magnitudes, and one that is not above any but zeros. Of zeros both are
// of_nothing; where one is no number the first is above_all.
constexpr int of_nothing = -1100, above_all = 1025;
struct Exponents {
  int above, below;

  Exponents squared() const { return {2 * above, 2 * below}; }
};
template <class Load>
FW_INLINE Exponents exponents_of(int64_t count, Load&& load) {
  constexpr int W = native<double>;
  typedef typename VectorOf<uint64_t, W>::type Bits;
  Bits largest = {}, least = ~Bits{};
  for (int64_t i = 0; i < count; i += W) {
    // Zeros wrap to the top of the second.
    const Bits size = std::bit_cast<Bits>(load(i, std::false_type{})) << 1;
    largest = size > largest ? size : largest;
    least = size - 1 < least ? size - 1 : least;
  }
  uint64_t most = 0, fewest = ~uint64_t{0};
  for (int i = 0; i < W; ++i) {
    most = std::max<uint64_t>(most, largest[i]);
    fewest = std::min<uint64_t>(fewest, least[i]);
  }
  if (most == 0) return {of_nothing, of_nothing};
  return {static_cast<int>(most >> 53) - 1022, static_cast<int>((fewest + 1) >> 53) - 1023};
}

// The same of what is summed of elements.
template <class F, class S>
FW_INLINE Exponents exponents_summed(const S* p, int64_t count) {
  const Exponents of = exponents_of(count, [&](int64_t i, auto whole) FW_INLINED { return loaded(p, i, count, whole).v[0]; });
  return F::linear ? of : of.squared();
}

// Numbers whose sum is not exact: it is where each was cut in two, or they are added one by one.
template <class F>
FW_OUTLINE void add_halved(Tally<F>& all, const double* numbers, int count) {
  constexpr int W = native<double>;
  auto upper = splat<double, W>(0.0), lower = upper;
  clear_flags();
  for (int i = 0; i < count; i += W) {
    Pack<double, W> high, low;
    cut<27, W>(load<double, W>(numbers + i), high, low);
    upper = upper + high;
    lower = lower + low;
  }
  const double sums[] = {summed(upper), summed(lower)};
  settle(sums);
  if (lost_bits()) return all.total().add_all(numbers, count);
  for (const double sum : sums) all.add(sum);
}

}  // namespace foldwise::FOLDWISE_ISA

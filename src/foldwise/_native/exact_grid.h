// Sums on a grid: an anchor so large that whatever is added to it leaves multiples of one unit, exactly, and a rest that
// is exact as well. Level by level, the rest goes to an anchor that is smaller.
#pragma once
#include "exact_folds.h"

namespace foldwise::FOLDWISE_ISA {

// All of four vectors together, in an order that is every ISA's own.
template <class A, int N>
FW_INLINE A summed(const Pack<A, N>& a) {
  if constexpr (N == 1) return a[0];
  else return summed(lower(a) + upper(a));
}
template <class Vector>
FW_INLINE double summed(const Vector (&four)[4]) {
  return summed(Pack<double, native<double>>{{(four[0] + four[1]) + (four[2] + four[3])}});
}

template <int levels>
class Grid {
  static constexpr int W = native<double>;
  static constexpr int vectors = 4;
  static constexpr int digits = std::numeric_limits<double>::digits, bias = std::numeric_limits<double>::max_exponent - 1;
  typedef typename VectorOf<double, W>::type Vector;
  typedef typename VectorOf<uint64_t, W>::type Bits;

  double anchors_[levels];
  Vector sums_[levels][vectors];
  Bits moved_[vectors] = {};

  FW_INLINE Bits moved(int k, int v) const {
    return std::bit_cast<Bits>(sums_[k][v]) ^ std::bit_cast<Bits>(anchors_[k] - Vector{});
  }

 public:
  // Whether the flags tell of all that is not exact: of a rest, or of a sum that leaves the anchor's binade and comes back.
  static constexpr bool flags_tell = adds_unnoted;

  // For `count` numbers, all of them below 2^exponent.
  FW_INLINE Grid(int exponent, int64_t count) {
    const int log = std::bit_width(static_cast<uint64_t>(count / (vectors * W) + vectors));
    exponent += log + 1;
    for (int k = 0; k < levels; ++k, exponent += log - digits + 1) {
      anchors_[k] = 1.5 * std::bit_cast<double>(uint64_t(std::clamp(exponent, 1 - bias, bias - 1) + bias) << (digits - 1));
      for (Vector& sum : sums_[k]) sum = anchors_[k] - Vector{};
    }
  }

  // Hands load(i, whole) of every W elements to the anchors, and what they leave to rest(v, i, left); the last W may not be
  // whole.
  template <class Load, class Rest>
  FW_INLINE void take(int64_t count, Load&& load, Rest&& rest) {
    Grid here = *this;  // in registers
    const auto step = [&](int64_t i, int v, auto whole) FW_INLINED {
      Vector x = load(i, whole);
      repeat<levels>([&](int k) FW_INLINED {
        const Vector sum = added_unnoted(here.sums_[k][v], x);
        const Vector got = levels == 1 && v % 2 == 0 ? taken_aside(sum, here.sums_[k][v]) : sum - here.sums_[k][v];
        x = taken_aside(x, got);
        here.sums_[k][v] = sum;
        if (!flags_tell && k == 0) here.moved_[v] |= here.moved(k, v);
      });
      rest(v, i, x);
    };
    int64_t i = 0;
    for (; i + vectors * W <= count; i += vectors * W) {
      repeat<vectors>([&](int v) FW_INLINED { step(i + v * W, v, std::true_type{}); });
    }
    for (; i < count; i += W) step(i, 0, std::false_type{});
    *this = here;
  }

  // Whether some were not below that power of two: the sum left the anchor's binade, and says nothing.
  FW_INLINE bool left() const {
    Bits all = moved_[0] | moved_[1] | moved_[2] | moved_[3];
    for (int k = 0; flags_tell && k < levels; ++k) {
      for (int v = 0; v < vectors; ++v) all |= moved(k, v);
    }
    return lanes_where(all >> (digits - 1) != 0) != 0;
  }
  // What an anchor got, if the flags do not say that this is not exact.
  FW_INLINE double sum(int k) const {
    const Vector anchor = anchors_[k] - Vector{};
    const Vector got[] = {sums_[k][0] - anchor, sums_[k][1] - anchor, sums_[k][2] - anchor, sums_[k][3] - anchor};
    return summed(got);
  }
  // What the anchors got in any case: seen as integers, their differences count the anchor's units.
  FW_INLINE void add_to(Total& total) const {
    for (int k = 0; k < levels; ++k) {
      Bits all = {};
      for (const Vector& sum : sums_[k]) all += std::bit_cast<Bits>(sum) - std::bit_cast<Bits>(anchors_[k] - Vector{});
      int64_t units = 0;
      for (int i = 0; i < W; ++i) units += all[i];
      const int unit = static_cast<int>(std::bit_cast<uint64_t>(anchors_[k]) >> (digits - 1)) - bias - (digits - 1);
      total.add_units(units < 0 ? -units : units, unit - Total::lowest, units < 0);
    }
  }
};

// Powers of two: one above every one of `count` magnitudes, and one that is not above any but zeros. Of zeros both are
// of_nothing; where one is no number the first is above_all.
constexpr int of_nothing = -1100, above_all = 1025;
struct Exponents {
  int above, below;
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

// Numbers whose sum is not exact: it is where each was cut in two, or they are added one by one.
static FW_OUTLINE void add_halved(Total& total, const double* numbers, int count) {
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
  if (lost_bits()) return total.add_all(numbers, count);
  for (const double sum : sums) total.add(sum);
}

}  // namespace foldwise::FOLDWISE_ISA

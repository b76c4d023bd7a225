// Running sums in two doubles: multiples of a unit at which all elements are cut, and what is left of them. Both are added
// plainly under one check of the flags, and the sum of the two is the only rounding. Or on levels, in as many as it takes.
#pragma once
#include "exact_grid.h"
#include "exact_rounding.h"
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

// Its steps wait for each other: what adds is sooner done than what multiplies, too.
struct InOne : ExactSum<float, double> {
  using Careful = InOne;
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return added(a, b); }
};
using InTwo = ExactSum<double, double>;
template <int N> using TwoParts = InTwo::Acc<N>;

template <int N>
FW_INLINE bool all_finite(const TwoParts<N>& a) {
  const auto nothing = (a.high - a.high) + (a.low - a.low);
  bool zero = true;
  for (int i = 0; i < N; ++i) zero &= nothing[i] == 0;
  return zero;
}
template <class Parts>
FW_INLINE bool all_finite(const Parts* a, int64_t count) {
  Parts nothing = absence<InTwo, native<double>>();
  for (int64_t v = 0; v < count; ++v) nothing.high = nothing.high + ((a[v].high - a[v].high) + (a[v].low - a[v].low));
  return all_finite(nothing);
}

// An anchor for sums below a bound: added, and taken away again, it leaves multiples of a unit, and these have room for twice
// the bound.
template <int N>
FW_INLINE Pack<double, N> anchor_above(const Pack<double, N>& bound) {
  return each([](auto b) {
    typedef typename VectorOf<int64_t, Pack<double, N>::width>::type Bits;
    return std::bit_cast<decltype(b)>(std::bit_cast<Bits>(b) & (int64_t{0x7ff} << 52)) * 6;
  }, bound);
}
constexpr double anchored_elements = 8 * 1024;  // of the largest: room for more segments than one, so that anchors last
template <int N>
FW_INLINE Pack<double, N> larger(const Pack<double, N>& a, const Pack<double, N>& b) {
  return each([](auto p, auto q) { return p < q ? q : p; }, a, b);
}

// What an anchor makes of an element that was added to it: that addition alone may round, all that follows must not.
template <int N>
FW_INLINE TwoParts<N> cut_at(const Pack<double, N>& anchor, const Pack<double, N>& anchored, const Pack<double, N>& x) {
  const auto high = anchored - anchor;
  return {high, x - high};
}

// The same of elements at once, where an instruction set can cut them without telling the flags.
constexpr bool cuts_unnoted = rounds_unnoted;
template <int N>
class Knife {
  using Some = Pack<double, N>;
  typedef typename VectorOf<uint64_t, Some::width>::type Bits;
  Some anchor_, unit_, per_unit_;

 public:
  explicit FW_INLINE Knife(const Some& anchor) : anchor_(anchor) {
    constexpr uint64_t step = uint64_t{1} << 52, one = 1023 * step;
    const auto power = [](auto v) FW_INLINED { return std::bit_cast<Bits>(v) & (0x7ff * step); };
    unit_ = each([&](auto v) FW_INLINED { return std::bit_cast<decltype(v)>(power(v) - 52 * step); }, anchor);
    per_unit_ = each([&](auto v) FW_INLINED { return std::bit_cast<decltype(v)>(2 * one + 52 * step - power(v)); }, anchor);
  }
  FW_INLINE TwoParts<N> operator()(const Some& x) const {
    const Some high = each([](auto v, auto anchor, auto unit, auto per_unit) FW_INLINED {
      if constexpr (adds_unnoted) return added_unnoted(v, anchor) - anchor;
      else return whole_unnoted(v * per_unit) * unit;
    }, x, anchor_, unit_, per_unit_);
    return {high, x - high};
  }
};

template <int N>
FW_INLINE TwoParts<N> on_anchor(const Pack<double, N>& anchor, const TwoParts<N>& a) {
  return {a.high + anchor, a.low + anchor};
}

// The same sum, cut by another anchor.
template <int N>
FW_INLINE TwoParts<N> cut_again(const Pack<double, N>& anchor, const TwoParts<N>& anchored, const TwoParts<N>& a) {
  return added(cut_at<N>(anchor, anchored.high, a.high), cut_at<N>(anchor, anchored.low, a.low));
}

// Exact sums may be put together in any order: a scan's packs are single vectors.
constexpr int pack_of_doubles = native<double>;
using DoublePack = Pack<double, pack_of_doubles>;
using PackParts = TwoParts<pack_of_doubles>;

// ---- a line: whole packs of x, in `high` and `low` what its prefixes are

inline FW_OUTLINE bool anchor_line(const double* x, int64_t n, double& anchor, TwoParts<1>& held) {
  constexpr int W = pack_of_doubles;
  auto largest = splat<double, W>(0.0);
  for (int64_t i = 0; i < n; i += W) largest = larger<W>(largest, magnitude(load<double, W>(x + i)));
  double most = 0;
  for (int i = 0; i < W; ++i) most = std::max(most, largest[i]);
  const auto one = anchor_above<1>(splat<double, 1>(std::fabs(held.high[0]) + most * anchored_elements));
  const auto anchored = on_anchor<1>(one, held);
  anchor = one[0];
  settle(&anchored);
  clear_flags();
  const auto cut = cut_again<1>(one, anchored, held);
  settle(&cut);
  if (lost_bits()) return false;
  held = cut;
  return true;
}

// `held` moves on if all was exact.
inline FW_OUTLINE bool prefixes_in_two(const double* x, int64_t n, double one_anchor, TwoParts<1>& held, double* high, double* low) {
  constexpr int W = pack_of_doubles;
  const auto anchor = splat<double, W>(one_anchor);
  for (int64_t i = 0; !cuts_unnoted && i < n; i += W) store(high + i, load<double, W>(x + i) + anchor);
  settle(high);
  clear_flags();
  const Knife<W> cut(anchor);
  PackParts so_far{splat<double, W>(held.high[0]), splat<double, W>(held.low[0])};
  for (int64_t i = 0; i < n; i += W) {
    PackParts parts;
    if constexpr (cuts_unnoted) parts = cut(load<double, W>(x + i));
    else parts = cut_at<W>(anchor, load<double, W>(high + i), load<double, W>(x + i));
    const auto local = placed<InTwo, W>(prefix_of_packs<InTwo, W>(parts), so_far);
    store(high + i, local.high);
    store(low + i, local.low);
  }
  const auto then = element<InTwo, W>(so_far, W - 1);
  settle(high);
  settle(low);
  settle(&then);
  if (lost_bits() || !all_finite<1>(then)) return false;
  held = then;
  return true;
}

// ---- columns: `vectors` of them side by side

inline FW_OUTLINE bool anchor_columns(const Rows<double>& in, int64_t vectors, DoublePack* anchors, PackParts* held) {
  constexpr int W = pack_of_doubles;
  for (int64_t v = 0; v < vectors; ++v) {
    DoublePack largest = splat<double, W>(0.0);
    for (int64_t r = 0; r < in.count; ++r) largest = larger<W>(largest, magnitude(load<double, W>(in(r) + v * W)));
    anchors[v] = anchor_above<W>(magnitude(held[v].high) + largest * splat<double, W>(anchored_elements));
    const PackParts anchored = on_anchor<W>(anchors[v], held[v]);
    settle(&anchored);
    clear_flags();
    const PackParts cut = cut_again<W>(anchors[v], anchored, held[v]);
    settle(&cut);
    if (lost_bits()) return false;
    held[v] = cut;
  }
  return true;
}

inline FW_OUTLINE bool columns_in_two(const Rows<double>& in, int64_t vectors, const DoublePack* anchors, PackParts* held,
                                      double* high, double* low) {
  constexpr int W = pack_of_doubles;
  constexpr int64_t most = 256;
  const int64_t width = vectors * W;
  for (int64_t r = 0; !cuts_unnoted && r < in.count; ++r) {
    for (int64_t v = 0; v < vectors; ++v) store(high + r * width + v * W, load<double, W>(in(r) + v * W) + anchors[v]);
  }
  settle(high);
  clear_flags();
  double begun_high[most], begun_low[most];
  const double *high_before = begun_high, *low_before = begun_low;
  for (int64_t v = 0; v < vectors; ++v) {
    store(begun_high + v * W, held[v].high);
    store(begun_low + v * W, held[v].low);
  }
  for (int64_t r = 0; r < in.count; ++r) {
    const double* x = in(r);
    for (int64_t v = 0, c = 0; v < vectors; ++v, c += W) {
      PackParts parts;
      if constexpr (cuts_unnoted) parts = Knife<W>(anchors[v])(load<double, W>(x + c));
      else parts = cut_at<W>(anchors[v], load<double, W>(high + c), load<double, W>(x + c));
      store(high + c, load<double, W>(high_before + c) + parts.high);
      store(low + c, load<double, W>(low_before + c) + parts.low);
    }
    high_before = high;
    low_before = low;
    high += width;
    low += width;
  }
  settle(high);
  settle(low);
  PackParts then[most / W];
  for (int64_t v = 0; v < vectors; ++v) then[v] = {load<double, W>(high_before + v * W), load<double, W>(low_before + v * W)};
  settle(then);
  if (lost_bits() || !all_finite(then, vectors)) return false;
  std::copy_n(then, vectors, held);
  return true;
}

// The same, rounded to doubles at once, where the flags need not be told of what cuts and what rounds.
inline FW_OUTLINE bool columns_rounded(const Rows<double>& in, int64_t vectors, const DoublePack* anchors, PackParts* held,
                                       double* out, int64_t row) {
  constexpr int W = pack_of_doubles;
  constexpr int64_t most = 256 / W;
  settle(held);
  clear_flags();
  PackParts then[most];
  for (int64_t v = 0; v < vectors; ++v) {
    PackParts sum = held[v];
    const Knife<W> cut(anchors[v]);
    for (int64_t r = 0; r < in.count; ++r) {
      sum = added(sum, cut(load<double, W>(in(r) + v * W)));
      store(out + r * row + v * W, DoublePack{{added_unnoted(sum.high.v[0], sum.low.v[0])}});
    }
    then[v] = sum;
  }
  settle(out);
  settle(then);
  if (lost_bits() || !all_finite(then, vectors)) return false;
  std::copy_n(then, vectors, held);
  return true;
}

// ---- a line on levels: its parts in so many doubles as it takes, some forty binades each

constexpr int most_levels = 5;
constexpr int64_t least_on_levels = 128;

// Elements and what came before them, cut at one anchor after the other; the number of levels, or 0 where they are too few.
inline FW_OUTLINE int cut_on_levels(double* rests, int64_t n, double anchor, Total left, double (*prefixes)[segment_size], Total& then) {
  constexpr int W = pack_of_doubles;
  for (int level = 0; level < most_levels; ++level, anchor *= 0x1p-40) {
    const auto anchors = splat<double, W>(anchor);
    const double held = left.taken(), held_anchored = held + anchor;
    for (int64_t i = 0; i < n; i += W) store(prefixes[level] + i, load<double, W>(rests + i) + anchors);
    settle(prefixes);
    settle(&held_anchored);
    clear_flags();
    const double begun = held_anchored - anchor;
    left.add(held - begun);
    AccOf<InOne, W> so_far{splat<double, W>(begun)};
    auto any = splat<double, W>(0.0);
    for (int64_t i = 0; i < n; i += W) {
      const auto high = load<double, W>(prefixes[level] + i) - anchors, rest = load<double, W>(rests + i) - high;
      any = larger<W>(any, magnitude(rest));
      store(rests + i, rest);
      store(prefixes[level] + i, placed<InOne, W>(prefix_of_packs<InOne, W>({high}), so_far).total);
    }
    settle(prefixes);
    settle(&so_far);
    if (lost_bits()) return 0;
    then.add(so_far.total[W - 1]);
    double most = 0;
    for (int i = 0; i < W; ++i) most = std::max(most, any[i]);
    if (most == 0 && left.is_zero()) return level + 1;
  }
  return 0;
}

// Prefixes of W elements, whatever is in them: from the lowest level up each sum is made odd, so that the last rounding is
// the only one; false where a sum is so much less than its lower part that this does not follow.
inline FW_OUTLINE bool round_with_care(const double* prefixes, int levels, bool narrower, double* out) {
  constexpr int W = pack_of_doubles;
  DoublePack doubtful = splat<double, W>(0.0), inexact = doubtful;
  DoublePack sum = load<double, W>(prefixes + (levels - 1) * segment_size);
  for (int level = levels - 2; level >= 0; --level) {
    DoublePack error;
    const auto upper = load<double, W>(prefixes + level * segment_size);
    const auto both = two_sum<W>(upper, sum, error);
    const bool odd = level > 0 || narrower;
    doubtful = each([odd](auto d, auto lost, auto u, auto s, auto l) {
      return ((lost != 0) & (s < l * 4) & ((u != 0) | !odd)) ? lost : d;  // beside nothing, what is odd may stay so
    }, doubtful, inexact, upper, magnitude(both), magnitude(sum));
    inexact = each([](auto a, auto b) { return a != 0 ? a : b; }, inexact, error);
    sum = odd ? made_odd<W>(both, error) : both;
  }
  store(out, sum);
  return !lanes_where(doubtful.v[0] != 0);
}

// The same for many, which mostly need no care: sums of some levels are right but for their last few bits, unless they are
// much less than a lower part, and these bits seldom decide.
inline FW_OUTLINE bool round_levels(const double* prefixes, int levels, int64_t n, bool narrower, double* out) {
  constexpr int W = pack_of_doubles;
  typedef VectorOf<int64_t, W>::type Bits;
  for (int64_t i = 0; i < n; i += W) {
    DoublePack lower = splat<double, W>(0.0), largest = lower, error;
    for (int level = levels - 1; level > 0; --level) {
      lower = lower + load<double, W>(prefixes + level * segment_size + i);
      largest = larger<W>(largest, magnitude(lower));
    }
    const auto sum = two_sum<W>(load<double, W>(prefixes + i), lower, error);
    const auto reach = largest * splat<double, W>(0x1p-47);
    const auto above = sum + (error + reach), below = sum + (error - reach);
    unsigned unsure;
    if (narrower) {
      constexpr int64_t shorter = (1 << 28) - 1, few = 64;
      const auto last = (std::bit_cast<Bits>(sum.v[0]) + few) & shorter;
      unsure = lanes_where(last <= 2 * few) | lanes_where(magnitude(sum).v[0] * 4 < largest.v[0]);
    } else {
      unsure = lanes_where(above.v[0] != below.v[0]);
    }
    if (!unsure) store(out + i, sum);
    else if (!round_with_care(prefixes + i, levels, narrower, out + i)) return false;
  }
  return true;
}

// Prefixes after a Total, which moves on if they are right; x is used up.
inline FW_OUTLINE bool prefixes_on_levels(double* x, int64_t n, Total& total, bool narrower, double* out) {
  const auto load_one = [x](int64_t i, auto) FW_INLINED { return load<double, pack_of_doubles>(x + i).v[0]; };
  const Exponents exponents = exponents_of(n, load_one);
  if (total.is_special() || exponents.above > 900 || exponents.above - exponents.below > 40 * most_levels - 64) return false;
  const double before = std::fabs(total.rounded({}, Dtype::float64));
  if (before > 0x1p900) return false;
  const double most = exponents.above == of_nothing ? 0 : std::ldexp(1.0, exponents.above);
  const double anchor = anchor_above<1>(splat<double, 1>(before + most * segment_size))[0];
  double prefixes[most_levels][segment_size];
  Total then;
  const int levels = cut_on_levels(x, n, anchor, total, prefixes, then);
  if (!levels || !round_levels(prefixes[0], levels, n, narrower, out)) return false;
  total = then;
  return true;
}

// ---- and the rounding

// To doubles, or so that rounding once more gives what rounding once would.
inline FW_OUTLINE void round_two(const double* high, const double* low, int64_t n, bool narrower, double* out) {
  constexpr int W = pack_of_doubles;
  for (int64_t i = 0; i < n; i += W) {
    const auto a = load<double, W>(high + i), b = load<double, W>(low + i);
    auto sum = a + b;
    // Half way between two shorter numbers a double has zeros at its end.
    if (narrower && lanes_where((std::bit_cast<VectorOf<int64_t, W>::type>(sum.v[0]) & 0xfffffff) == 0)) {
      DoublePack error;
      sum = two_sum<W>(a, b, error);
      sum = made_odd<W>(sum, error);
    }
    store(out + i, sum);
  }
}

}  // namespace foldwise::FOLDWISE_ISA

// Running sums in two doubles: multiples of a unit at which all elements are cut, and what is left of them. Both are added
// plainly under one check of the flags, and the sum of the two is the only rounding. Or sums, and what additions lose, but for a bit.
#pragma once
#include <optional>

#include "exact_grid.h"
#include "exact_rounding.h"
#include "scan_work.h"

namespace foldwise::FOLDWISE_ISA {

// Its steps wait for each other: what adds is sooner done than what multiplies, too.
struct InOne : ExactSum<float, double> {
  using Careful = InOne;
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return added(a, b); }
};
struct InTwo : ExactSum<double, double> {
  using Careful = InTwo;
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) { return {a.high + b.high, aside<N>(a.low, b.low)}; }
};
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

// ---- a line, of whole packs

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

// Hands prefixes to write(index, parts). `held` moves on if all was exact; in `anchored` is room for as many numbers.
template <class Write>
FW_INLINE bool prefixes_in_two(const double* x, int64_t n, double one_anchor, TwoParts<1>& held, double* anchored, Write&& write) {
  constexpr int W = pack_of_doubles;
  const auto anchor = splat<double, W>(one_anchor);
  for (int64_t i = 0; !cuts_unnoted && i < n; i += W) store(anchored + i, load<double, W>(x + i) + anchor);
  settle(anchored);
  clear_flags();
  const Knife<W> cut(anchor);
  PackParts so_far{splat<double, W>(held.high[0]), splat<double, W>(held.low[0])};
  for (int64_t i = 0; i < n; i += W) {
    PackParts parts;
    if constexpr (cuts_unnoted) parts = cut(load<double, W>(x + i));
    else parts = cut_at<W>(anchor, load<double, W>(anchored + i), load<double, W>(x + i));
    write(i, placed<InTwo, W>(prefix_of_packs<InTwo, W>(parts), so_far));
  }
  const auto then = element<InTwo, W>(so_far, W - 1);
  settle(nullptr);
  settle(&then);
  if (lost_bits() || !all_finite<1>(then)) return false;
  held = then;
  return true;
}

// In `high` and `low` what prefixes are; or doubles at once, where the flags need not be told of what cuts and what rounds.
inline FW_OUTLINE bool line_in_two(const double* x, int64_t n, double anchor, TwoParts<1>& held, double* high, double* low) {
  return prefixes_in_two(x, n, anchor, held, high, [=](int64_t i, const PackParts& local) FW_INLINED {
    store(high + i, local.high);
    store(low + i, local.low);
  });
}
inline FW_OUTLINE bool line_rounded(const double* x, int64_t n, double anchor, TwoParts<1>& held, double* out) {
  return prefixes_in_two(x, n, anchor, held, nullptr, [=](int64_t i, const PackParts& local) FW_INLINED {
    store(out + i, DoublePack{{added_unnoted(local.high.v[0], local.low.v[0])}});
  });
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

// Rows of results, where they go or in a tile.
template <class T>
struct RowsOf {
  T* first;
  int64_t stride;
  FW_INLINE T* row(int64_t r) const { return first + r * stride; }
};

#if defined(__AVX512F__)
// Sums of floats, rounded once to what these are; the flags are not told. (Those below the normal range have no bits to lose.)
template <class Out, int vectors>
FW_INLINE void store_rounded(Out* to, const DoublePack (&sums)[vectors]) {
  if constexpr (sizeof(Out) == 4) {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    repeat<vectors>([&](int v) FW_INLINED { _mm256_storeu_ps(to + 8 * v, _mm512_cvt_roundpd_ps((__m512d)sums[v].v[0], nearest)); });
  } else {
    constexpr bool alone = vectors == 1;
    repeat<(vectors + 1) / 2>([&](int pair) FW_INLINED {
      const __m512 both = odd_floats((__m512i)sums[2 * pair].v[0], (__m512i)sums[alone ? 0 : 2 * pair + 1].v[0]);
      Out some[16], *there = alone ? some : to + 16 * pair;
      if constexpr (std::is_same_v<Out, half>) {
        __m256i halves;
        asm("vcvtps2ph $8, %{sae%}, %1, %0" : "=v"(halves) : "v"(both));  // no intrinsic keeps it from the flags
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(there), halves);
      } else {
        store(there, Floats{{(Floats::Vector)both}});
      }
      if (alone) std::copy_n(some, 8, to);
    });
  }
}

// Results at once, where the flags need not be told of what cuts and what rounds. Several vectors go down together: each row is on
// other pages, and a line there at a time, where rows lie a power of two apart, takes up to four times as long. Of doubles in two numbers, which
// anchors cut; of others in one. `below` is how far below the rows are that are asked for, in bytes.
template <class S, class Out>
FW_OUTLINE bool columns_rounded(const Rows<S>& in, int64_t vectors, const DoublePack* anchors, PackParts* held, const RowsOf<Out>& out,
                                int64_t below) {
  constexpr int W = pack_of_doubles;
  constexpr bool in_two = std::is_same_v<S, double>;
  PackParts then[256 / W];
  settle(held);
  clear_flags();
  const auto scan = [&](auto abreast, int64_t first) FW_INLINED {
    DoublePack high[abreast], low[abreast];
    repeat<abreast>([&](int v) FW_INLINED {
      high[v] = held[first + v].high;
      low[v] = held[first + v].low;
      if (!in_two) high[v] = high[v] + low[v];
    });
    for (int64_t r = 0; r < in.count; ++r) {
      const S* x = in(r) + first * W;
      Out* to = out.row(r) + first * W;
      if (below) fetch_lines(reinterpret_cast<const char*>(x) + below, abreast * W * sizeof(S), true);
      repeat<abreast>([&](int v) FW_INLINED {
        const auto element = load<double, W>(x + v * W);
        if constexpr (in_two) {
          const PackParts sum = InTwo::merge<W>({high[v], low[v]}, Knife<W>(anchors[first + v])(element));
          high[v] = sum.high;
          low[v] = sum.low;
          store(to + v * W, DoublePack{{added_unnoted(sum.high.v[0], sum.low.v[0])}});
        } else {
          high[v] = aside<W>(high[v], element);
        }
      });
      if constexpr (!in_two) store_rounded(to, high);
    }
    repeat<abreast>([&](int v) FW_INLINED { then[first + v] = {high[v], in_two ? low[v] : splat<double, W>(0.0)}; });
  };
  int64_t first = 0;
  for (; first + 8 <= vectors; first += 8) scan(std::integral_constant<int, 8>{}, first);
  for (; first + 2 <= vectors; first += 2) scan(std::integral_constant<int, 2>{}, first);
  if (first < vectors) scan(std::integral_constant<int, 1>{}, first);
  settle(out.first);
  settle(then);
  if (lost_bits() || !all_finite(then, vectors)) return false;
  std::copy_n(then, vectors, held);
  return true;
}
#endif

// ---- a line in two numbers that may lose something: less than a bound, which seldom decides how a prefix is rounded

// Each addition's loss is kept, but for what is lost when losses are added up.
struct InNearlyTwo : InTwo {
  using Careful = InNearlyTwo;
  template <int N> static FW_INLINE Acc<N> merge(const Acc<N>& a, const Acc<N>& b) {
    Pack<double, N> lost;
    const auto high = two_sum<N>(a.high, b.high, lost);
    return {high, a.low + (b.low + lost)};
  }
};

class NearlyInTwo {
  static constexpr int W = pack_of_doubles;
  static constexpr double half_unit = 0x1p-53, least_scaled = 0x1p-600;

  const double scale_;
  PackParts so_far_;
  double largest_ = 0, most_lost_;  // of elements, and of what additions had lost by then
  int64_t count_ = 0;

  // Small elements, which scaling might leave less of, count as nothing.
  FW_INLINE DoublePack scaled(const DoublePack& x) const {
    if (scale_ == 1) return x;
    const auto least = splat<double, W>(least_scaled), scale = splat<double, W>(scale_);
    return each([](auto v, auto size, auto enough, auto by) { return size < enough ? decltype(v){} : v * by; }, x, magnitude(x), least, scale);
  }

  // Additions in a pack lose at most half_unit of W of the largest, and of what they lose half_unit where that is added up. Beside
  // these, three additions for each pack lose half_unit of what was lost so far, as the Total left of its second number: here it
  // is two for each element.
  double reach() const {
    constexpr double in_packs = (4 * W * W + 2 * W) * half_unit;
    const double added = 2 * static_cast<double>(count_ + 1) * half_unit * (in_packs * largest_ + most_lost_);
    return scale_ == 1 ? added : added + static_cast<double>(count_ + 2) * least_scaled;
  }

  // Doubles, or so that rounding once more gives what rounding once would.
  static bool rounded(DoublePack sum, const DoublePack& error, double reach, bool narrower, DoublePack& result) {
    const auto apart = splat<double, W>(reach);
    if (!narrower) {
      result = sum + (error + apart);
      return !lanes_where(result.v[0] != (sum + (error - apart)).v[0]);
    }
    // Half way between two shorter numbers a double has zeros at its end.
    const auto half_way = (std::bit_cast<VectorOf<int64_t, W>::type>(sum.v[0]) & 0xfffffff) == 0;
    const auto too_small = ~(magnitude(sum).v[0] >= splat<double, W>(reach * 0x1p55).v[0]);  // or beyond the largest, and then not a number
    result = sum;
    if (!lanes_where(half_way | too_small)) [[likely]] return true;
    result = made_odd<W>(sum, error);
    return !lanes_where(too_small | (half_way & (magnitude(error).v[0] <= apart.v[0])));
  }

 public:
  static constexpr int64_t chunk = 64;

  NearlyInTwo(Total before, double scale) : scale_(scale) {
    const double high = before.taken() * scale, low = before.taken() * scale;
    so_far_ = {splat<double, W>(high), splat<double, W>(low)};
    most_lost_ = std::fabs(low);
  }

  // Of up to a chunk of elements: false, and then it is of no more use, where the bound might decide.
  bool scan(const double* x, int64_t n, bool narrower, double* out) {
    double high[chunk], low[chunk];
    const auto absent = splat<double, W>(0.0);
    auto largest = absent, lost = absent;
    PackParts so_far = so_far_;
    for (int64_t i = 0; i < n; i += W) {
      const auto element = scaled(load<double, W>(x + i));
      DoublePack lost_here;
      const auto pairs = two_sum<W>(carried_up<1>(element, absent), element, lost_here);
      const auto local = InNearlyTwo::merge<W>(so_far, prefix_of_packs<InNearlyTwo, W, 2>({pairs, lost_here}));
      so_far = everywhere<InNearlyTwo, W - 1, W>(local);
      store(high + i, local.high);
      store(low + i, local.low);
      largest = larger<W>(largest, magnitude(element));
      lost = larger<W>(lost, magnitude(local.low));
    }
    so_far_ = so_far;
    for (int i = 0; i < W; ++i) {
      largest_ = std::max(largest_, largest[i]);
      most_lost_ = std::max(most_lost_, lost[i]);
    }
    count_ += n;
    const auto up = splat<double, W>(1 / scale_);
    const double apart = reach();
    bool sure = true;
    for (int64_t i = 0; i < n; i += W) {
      DoublePack error, result;
      const auto sum = two_sum<W>(load<double, W>(high + i), load<double, W>(low + i), error);
      sure &= rounded(sum, error, apart, narrower, result);
      store(out + i, result * up);
    }
    return sure;
  }
};

// Prefixes after a Total, to which `add` adds elements: so many from there on. There is room for whole packs, in x of zeros. False if
// most were not told by their bounds, and had to be walked.
template <class Add>
FW_OUTLINE bool prefixes_nearly_in_two(const double* x, int64_t n, Total& total, Dtype dtype, double* out, Add&& add) {
  constexpr int ordinary = 900, all = 1024;
  const auto load_some = [x](int64_t i, auto) FW_INLINED { return load<double, pack_of_doubles>(x + i).v[0]; };
  const int above = exponents_of(n, load_some).above;
  if (total.is_special() || above > all) return total.prefixes(x, n, 1, dtype, out), false;
  const bool large = above > ordinary || std::fabs(total.rounded({}, Dtype::float64)) > 0x1p900;
  const double scale = large ? 0x1p-200 : 1;
  std::optional<NearlyInTwo> sums;
  int64_t added = 0, walked = 0;
  for (int64_t first = 0; first < n; first += NearlyInTwo::chunk) {
    const int64_t some = std::min(n - first, NearlyInTwo::chunk);
    if (!sums) sums.emplace(total, scale);
    if (sums->scan(x + first, some, dtype != Dtype::float64, out + first)) continue;
    add(added, first - added);
    total.prefixes(x + first, some, 1, dtype, out + first);
    added = first + some;
    walked += some;
    sums.reset();
  }
  add(added, n - added);
  return 2 * walked <= n;
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

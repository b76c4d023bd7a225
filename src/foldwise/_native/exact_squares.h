// Sums of squares on a grid that many of them share: all are cut at the same places.
#pragma once
#include "exact_grid.h"
#include "rows.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
class SquaresOnGrid {
  using S = typename F::Source;
  using Acc = typename Terms<F>::Acc;
  static constexpr int W = native<double>, anchors = F::parts - adds_unnoted;  // the last part is plain, where the flags tell of it
  static constexpr int64_t streams = 8;
  using Some = Pack<double, W>;
  using Vector = typename Some::Vector;
  using Bits = typename VectorOf<uint64_t, W>::type;

  int exponent_ = above_all;  // of the last grid, if there was one
  bool exact_ = true;         // as far as anchors, and what they leave, tell

 public:
  static constexpr int64_t most_rows = 128;

  // Columns, whole vectors of them: the sums' parts, as rows one below the other. False if they are not exact. There may be room to
  // add some times as much together.
  FW_OUTLINE bool down(const Rows<S>& rows, int64_t column, int64_t vectors, double* parts, int64_t row, int64_t together = 1) {
    return exactly([&] { down_this_grid(rows, column, vectors, parts, row, together); }, [&](int64_t r) { return rows(r) + column; },
                   rows.count, vectors * W);
  }

  // Whether fold(), which sums along() some rows, is exact.
  template <class Fold>
  FW_INLINE bool rows(const char* x, int64_t stride, int64_t count, int64_t elements, Fold&& fold) {
    return exactly(fold, [&](int64_t r) { return reinterpret_cast<const S*>(x + r * stride); }, count, elements);
  }

  // Parts of the sums of every W-th element.
  FW_INLINE Acc along(const S* p, int64_t count) {
    Grid<anchors> grid(exponent_, W * count);  // its lanes are to be added, too
    Vector rests[4] = {};
    Bits lost{};
    grid.take(count, vectors_of<F>(p, count), [&](int v, int64_t, Vector rest) FW_INLINED { keep(rest, rests[v], lost); });
    note(grid.moved(), lost);
    double parts[F::parts * W];
    for (int m = 0; m < anchors; ++m) {
      const Some got{{grid.got(m)}};
      exact_ &= adds_unnoted || !lanes_where(magnitude(got).v[0] * W > grid.anchor(m));  // so much that its lanes' sum might be rounded
      store(parts + m * W, got);
    }
    if constexpr (adds_unnoted) store(parts + anchors * W, Some{{(rests[0] + rests[1]) + (rests[2] + rests[3])}});
    return load_parts<F, W>(parts, W);
  }

 private:
  // If nothing is known yet, a look at few elements mostly says enough of all.
  template <class Fold, class Row>
  FW_INLINE bool exactly(Fold&& fold, Row&& row, int64_t rows, int64_t elements) {
    constexpr int64_t few = 512;
    constexpr int bits_to_spare = 8;
    const auto on_this_grid = [&] {
      exact_ = true;
      clear_flags();
      fold();
      settle(this);
      return exact_ && !(adds_unnoted ? lost_bits() : raised_flags(flag_of_range));
    };
    if (exponent_ == above_all) exponent_ = std::min(exponent_of(row(0), std::min(few, elements)) + bits_to_spare, above_all);
    if (exponent_ < above_all && on_this_grid()) return true;
    const int before = std::exchange(exponent_, of_nothing);
    for (int64_t r = 0; r < rows; ++r) exponent_ = std::max(exponent_, exponent_of(row(r), elements) + 1);  // the next ones may be larger
    return exponent_ != before && exponent_ < above_all && on_this_grid();
  }

  static int exponent_of(const S* p, int64_t count) { return exponents_summed<F>(p, count).above; }

  static FW_INLINE void keep(const Vector& rest, Vector& plain, Bits& lost) {
    if constexpr (adds_unnoted) plain = added_aside(rest, plain);
    else lost |= std::bit_cast<Bits>(rest);
  }
  FW_INLINE void note(const Bits& moved, const Bits& lost) {
    exact_ &= !any_moved(moved) && !lanes_where((lost << 1) != 0);  // zeros have signs
  }

  void down_this_grid(const Rows<S>& rows, int64_t column, int64_t vectors, double* parts, int64_t row, int64_t together) {
    const Anchors<anchors> grid(exponent_, 2 * rows.count * together);
    for (int m = 0; m < F::parts; ++m) std::fill_n(parts + m * row, vectors * W, m < anchors ? grid.at[m] : 0.0);
    Bits moved{}, lost{};
    const auto take = [&]<int R>(std::integral_constant<int, R>, int64_t first) FW_INLINED {
      const S* p[R];
      for (int r = 0; r < R; ++r) p[r] = rows(first + r) + column;
      const Onward onward(rows, R, vectors * W * int64_t{sizeof(S)}, rows.ahead(0, R), true);
      for (int64_t v = 0; v < vectors; ++v) {
        const int64_t ahead = onward(v * W * int64_t{sizeof(S)});
        Vector sums[F::parts];
        repeat<F::parts>([&](int m) FW_INLINED { sums[m] = load<double, W>(parts + m * row + v * W).v[0]; });
        repeat<R>([&](int r) FW_INLINED {
          const S* here = p[r] + v * W;
          ask_for(here, ahead);
          const auto anchor = [&](int m) FW_INLINED -> Vector& { return sums[m]; };
          keep(handed<0, anchors>(anchor, summed_vector<F>(load<double, W>(here))), sums[F::parts - 1], lost);
        });
        repeat<F::parts>([&](int m) FW_INLINED { store(parts + m * row + v * W, Some{{sums[m]}}); });
      }
    };
    int64_t r = 0;
    for (; r + streams <= rows.count; r += streams) take(std::integral_constant<int, streams>{}, r);
    for (; r < rows.count; ++r) take(std::integral_constant<int, 1>{}, r);
    for (int m = 0; m < anchors; ++m) {
      for (double* at = parts + m * row; at < parts + m * row + vectors * W; at += W) {
        const Vector sum = load<double, W>(at).v[0];
        moved |= moved_from(grid.at[m], sum);
        store(at, Some{{sum - grid.at[m]}});
      }
    }
    note(moved, lost);
  }
};

}  // namespace foldwise::FOLDWISE_ISA

// Exact sums of columns: so many rows at a time, added to what is there, each under one check of the flags.
#pragma once
#include <bitset>

#include "columns.h"
#include "exact_rounding.h"
#include "exact_squares.h"
#include "exact_stretches.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ExactColumns : StripWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using In = StripWork<F>;
  using In::kept, In::count, In::unit_bytes, In::unit_columns, In::vectors, In::vectors_of, In::columns_of, In::rows_of;
  static constexpr int64_t batch_rows = SquaresOnGrid<F>::most_rows;
  static constexpr int64_t streams = 8;
  using Outputs = ExactOutputs<F::parts + 1>;
  static constexpr int64_t group = Outputs::group, most_groups = (In::most_columns + group - 1) / group;
  const Outputs outputs;

  explicit ExactColumns(const ReducePlan& p) : In(p), outputs(p, scatter) {}

  // The sums of a strip so far: parts in rows, what adding these has lost in one more, and Totals for groups of columns that
  // neither could take.
  struct Sums {
    const int64_t row;  // columns there is room for, in whole vectors
    int64_t used = 0;   // and columns there are
    Tiles<double> numbers, batch_parts;
    double *const current, *const lost, *const batch;
    Tiles<Total> totals;
    std::bitset<most_groups> spilled;
    bool empty = true;
    int64_t as_floats = streams;  // so many rows at once
    Patience floats, weighed, groups, grid;
    SquaresOnGrid<F> squares;
    Stretches<F> stretches;

    explicit Sums(int64_t columns)
        : row(columns), numbers((F::parts + 1) * columns + W), batch_parts(F::parts * columns + line * W), current(numbers.data),
          lost(current + F::parts * columns), batch(batch_parts.data), totals(columns) {}

    void clear(int64_t columns) {
      used = columns, empty = true, spilled.reset();
      std::fill_n(lost, row, 0.0);
    }
    // Calls with the place of every vector of the group that begins at `first`: among rows, and in a small copy of the group.
    template <class Each>
    FW_INLINE void each_vector(int64_t first, Each&& each) const {
      const int64_t here = std::min(group, used - first);
      for (int m = 0; m < F::parts; ++m) {
        for (int64_t c = 0; c < here; c += W) each(m * row + first + c, m * group + c);
      }
    }
    Total* spilled_at(int64_t first) const { return spilled[first / group] ? totals.data + first : nullptr; }
    Total* spill(int64_t first) {
      if (!spilled_at(first)) {
        for (int64_t c = first; c < std::min(first + group, used); ++c) new (totals.data + c) Total;
      }
      spilled[first / group] = true;
      return totals.data + first;
    }
    // Takes `batch`, exact parts, and leaves it to be written again.
    void take_batch() {
      for (int64_t first = 0; first < used; first += group) {
        if (empty || !(add_plainly(first) || add_with_loss(first))) replace(first);
      }
      empty = false;
    }
    bool add_plainly(int64_t first) {
      double sums[F::parts * group];
      clear_flags();
      each_vector(first, [&](int64_t i, int64_t at) FW_INLINED {
        store(sums + at, load<double, W>(current + i) + load<double, W>(batch + i));
      });
      settle(sums);
      return !lost_bits() && moved(first, sums);
    }
    bool add_with_loss(int64_t first) {
      double sums[F::parts * group], errors[F::parts * group], then[group];
      auto nothing = splat<double, W>(0.0);
      each_vector(first, [&](int64_t i, int64_t at) FW_INLINED {
        Pack<double, W> error;
        const auto sum = two_sum<W>(load<double, W>(current + i), load<double, W>(batch + i), error);
        nothing = nothing + (sum - sum);
        store(sums + at, sum);
        store(errors + at, error);
      });
      settle(sums);
      settle(errors);
      clear_flags();
      each_vector(first, [&](int64_t, int64_t at) FW_INLINED {
        const auto before = load<double, W>(at < group ? lost + first + at : then + at % group);
        store(then + at % group, before + load<double, W>(errors + at));
      });
      settle(then);
      if (lost_bits() || lanes_where(nothing.v[0] != 0)) return false;
      std::copy_n(then, std::min(group, used - first), lost + first);
      return moved(first, sums);
    }
    bool moved(int64_t first, const double* sums) {
      each_vector(first, [&](int64_t i, int64_t at) { store(current + i, load<double, W>(sums + at)); });
      return true;
    }
    // What was there goes to Totals.
    void replace(int64_t first) {
      if (!empty) {
        Total* to = spill(first);
        for (int64_t c = first; c < std::min(first + group, used); ++c) Outputs::add(to[c - first], current, row, c);
        std::fill_n(lost + first, std::min(group, used - first), 0.0);
      }
      each_vector(first, [&](int64_t i, int64_t) { store(current + i, load<double, W>(batch + i)); });
    }
    void take(const Sums& sums) {
      for (int64_t first = 0; first < used; first += group) {
        const Total* more = sums.spilled_at(first);
        Total* to = more ? spill(first) : nullptr;
        for (int64_t c = first; c < std::min(first + group, used); ++c) {
          if (more) to[c - first].add(more[c - first]);
          if (sums.lost[c] != 0) spill(first)[c - first].add(sums.lost[c]);
        }
      }
      if (sums.empty) return;
      for (int64_t first = 0; first < used; first += group) {
        each_vector(first, [&](int64_t i, int64_t) { store(batch + i, load<double, W>(sums.current + i)); });
      }
      take_batch();
    }
  };

  bool run() {
    const int threads = threads_for(count * unit_bytes);
    const int64_t batches = (plan.count + batch_rows - 1) / batch_rows;
    const bool as_strips = threads == 1 || count >= (In::shares_rows() ? 4 : 1) * threads;
    const int64_t wanted = as_strips ? 1 : 8 * threads / count;
    const int64_t chunk = (batches + wanted - 1) / wanted * batch_rows;
    if (chunk < plan.count) return run_in_chunks(chunk);
    share(count, unit_bytes, [&](int64_t first, int64_t last) {
      Sums sums(vectors * W);
      StripRoom room = this->room();
      for (int64_t unit = first; unit < last; ++unit) {
        sums.clear(vectors_of(unit) * W);
        if constexpr (F::linear || size < 8) {
          if (plan.count <= few_rows && plan.sink.kept == Kept::result && fold_few_rows(sums.floats, unit, room)) continue;
        }
        fold_strip(sums, unit, 0, plan.count, room);
        write(sums, unit);
      }
    });
    return fits;
  }

 private:
  // Chunks of few strips, joined as they come: in which order makes no difference.
  bool run_in_chunks(int64_t some_rows) {
    for (int64_t unit = 0; unit < count; ++unit) {
      const int64_t chunk = columns_of(unit) < W ? plan.count : some_rows, chunks = (plan.count + chunk - 1) / chunk;
      Sums whole(vectors * W);
      whole.clear(vectors_of(unit) * W);
      std::atomic<bool> taken{false};
      parallel(chunks, [&](int64_t task) {
        Sums sums(vectors * W);
        sums.clear(vectors_of(unit) * W);
        StripRoom room = this->room();
        fold_strip(sums, unit, task * chunk, std::min(plan.count, (task + 1) * chunk), room);
        while (taken.exchange(true, std::memory_order_acquire)) sched_yield();
        whole.take(sums);
        taken.store(false, std::memory_order_release);
      });
      write(whole, unit);
    }
    return fits;
  }

  void write(const Sums& sums, int64_t unit) {
    if (sums.empty) std::fill_n(sums.current, F::parts * sums.row, 0.0);
    const int64_t skipped = In::skipped_of(unit);
    note(outputs.write(sums.current + skipped, sums.row, columns_of(unit), In::out_of(unit), kept.out, [&](int64_t first) {
      Total* spilled = sums.spilled_at(first);
      return spilled ? spilled + skipped : nullptr;
    }));
  }

  void fold_strip(Sums& sums, int64_t unit, int64_t first, int64_t last, StripRoom& room) const {
    const int64_t width = vectors_of(unit);
    for (int64_t here; first < last; first += here) {
      constexpr std::bool_constant<starts_in_floats<F>> in_floats;
      const bool weighs = weighs_columns(width) && sums.weighed.lasts();
      const bool floats = in_floats && last - first >= streams && sums.floats.lasts();
      here = std::min(weighs ? most_weighed_rows : floats ? sums.as_floats : batch_rows, last - first);
      const Rows<S> rows = rows_of(unit, first, here, room);
      const auto fold = [&](auto as_floats, int64_t column, int64_t vectors) FW_INLINED {
        if constexpr (!F::linear) {
          return sums.squares.down(rows, column, vectors, sums.batch + column, sums.row);
        } else {
          clear_flags();
          fold_down<decltype(as_floats)::value>(rows, column, vectors, sums.batch + column, sums.row);
          settle(sums.batch);
          return !lost_bits();
        }
      };
      const auto fold_whole = [&] {
        return (F::linear || sums.grid.lasts()) && sums.grid.learn(fold(std::false_type{}, 0, width));
      };
      const bool exact = weighs   ? sums.weighed.learn(weigh_down(rows, width, sums.batch))
                         : floats ? sums.floats.learn(fold(in_floats, 0, width))
                                  : false;
      if (floats) sums.as_floats = exact ? std::min(4 * here, batch_rows) : streams;  // a first try is short
      if (!exact && !fold_whole()) {
        const bool trying = sums.groups.lasts();
        bool any = false;
        for (int64_t c = 0; c < width * W; c += group) {
          const bool alone = trying && fold(std::false_type{}, c, std::min(group / W, width - c / W));
          if (!alone) fold_each(sums, rows, c, columns_of(unit) + In::skipped_of(unit));
          any |= alone;
        }
        if (trying) sums.groups.learn(any);
      }
      sums.take_batch();
    }
  }

  // A few rows in registers, and from there to their results, some columns at a time; false where these were not exact,
  // after some of them have been written. What skips columns is a vector wide: it is written at once.
  bool fold_few_rows(Patience& floats, int64_t unit, StripRoom& room) const {
    constexpr int64_t some = F::parts == 1 ? 512 : 128;
    if constexpr (adds_short_floats<F>) {
      if (outputs.from_floats() && floats.lasts() && floats.learn(fold_few_as_default(unit, room))) return true;
    }
    const Rows<S> rows = rows_of(unit, 0, plan.count, room);
    const int64_t skipped = In::skipped_of(unit), columns = columns_of(unit) + skipped;
    if constexpr (rounds_few<F>) {
      const bool as_they_are = !skipped && outputs.as_elements() && kept.out == size;
      if constexpr (adds_unnoted && std::is_same_v<S, float>) {
        if (as_they_are && plan.count > 2 && floats.lasts() && floats.learn(round_doubles(rows, columns, In::out_of(unit)))) return true;
      }
      if (as_they_are && plan.count == 2 && round_few<2>(rows, columns, In::out_of(unit))) return true;
      if (as_they_are && plan.count == 3 && round_few<3>(rows, columns, In::out_of(unit))) return true;
    }
    double parts[F::parts * some + W];
    const ExactOutputs<F::parts> plain_outputs(plan, scatter);
    for (int64_t first = 0; first < columns; first += some) {
      const int64_t here = std::min(some, columns - first);
      clear_flags();
      for (int64_t c = 0; c < here; c += W) store_parts(parts + c, some, few_rows_vector<F>(rows, first + c));
      settle(parts);
      if (lost_bits()) return false;
      plain_outputs.write(parts + skipped, some, here - skipped, In::out_of(unit) + first * kept.out, kept.out);
    }
    return true;
  }

  // Some rows of floats, of which the flags say whether their sums in doubles are exact: they are not told of the rounding.
  static bool round_doubles(const Rows<S>& rows, int64_t columns, char* out) {
    clear_flags();
    for (int64_t c = 0; c < columns; c += W) {
      const auto sums = narrowed_unnoted(few_rows_vector<F>(rows, c).total) + splat<S, W>(0);  // an exact zero is +0
      if (c + W <= columns) store(reinterpret_cast<S*>(out) + c, sums);
      else std::memcpy(out + c * size, &sums, (columns - c) * size);
    }
    return !lost_bits();
  }

  // Two or three rows. False if a sum is not finite.
  template <int K>
  static bool round_few(const Rows<S>& rows, int64_t columns, char* out) {
    constexpr int at_once = RoundedAsAdded<S>::at_once;
    RoundedAsAdded<S> rounded;
    const auto sums = [&](auto&& row_at) FW_INLINED {
      typename RoundedAsAdded<S>::Some some[K];
      repeat<K>([&](int r) FW_INLINED { some[r] = load<S, at_once>(row_at(r)); });
      return rounded(some);
    };
    int64_t c = 0;
    for (; c + at_once <= columns; c += at_once) {
      store(reinterpret_cast<S*>(out) + c, sums([&](int r) FW_INLINED { return rows(r) + c; }));
    }
    if (c < columns) {
      S some[K][at_once] = {}, last[at_once];
      for (int r = 0; r < K; ++r) std::copy_n(rows(r) + c, columns - c, some[r]);
      store(last, sums([&](int r) FW_INLINED { return some[r]; }));
      std::memcpy(out + c * size, last, (columns - c) * size);
    }
    return rounded.all_finite();
  }

  bool fold_few_as_default(int64_t unit, StripRoom& room) const {
    constexpr int N = native<float>;
    const Rows<S> rows = rows_of(unit, 0, plan.count, room);
    const int64_t width = vectors_of(unit) * W;
    if (width < N) return false;
    constexpr int64_t some = 512;
    const int64_t skipped = In::skipped_of(unit), columns = columns_of(unit) + skipped;
    const auto scatter_floats = scatter_for<float>(plan.sink.dtype);
    float sums[some + N];
    for (int64_t first = 0, here; first < width; first += here) {
      here = width - first < some + N ? width - first : some;  // the last ones are a vector at least
      clear_flags();
      for (int64_t c = 0; c < here; c += N) {
        const int64_t at = std::min(c, here - N);
        store_floats(sums + at, few_rows_vector<AsDefault<F>>(rows, first + at));
      }
      settle(sums);
      if (lost_bits()) return false;
      const int64_t written = std::min(here, columns - first) - skipped;
      scatter_floats(In::out_of(unit) + first * kept.out, kept.out, sums + skipped, written);
    }
    return true;
  }

  // Eight rows at a time, each a stream of its own, from a column on; these eight as floats, or as what doubles are made of.
  template <bool in_floats>
  void fold_down(const Rows<S>& rows, int64_t column, int64_t width, double* sums, int64_t row) const {
    constexpr int W = T::W;  // GCC 12 looks for it no farther than here
    const auto fold_streams = [&]<int R>(std::integral_constant<int, R>, int64_t first) FW_INLINED {
      const S* p[R];
      for (int r = 0; r < R; ++r) p[r] = rows(first + r) + column;
      constexpr int64_t vector_bytes = W * int64_t{sizeof(S)};
      const Onward onward = Onward::in_order(rows, R, width * vector_bytes);
      const auto fold_vectors = [&]<int G>(std::integral_constant<int, G>, int64_t v) FW_INLINED {
        const int64_t ahead = onward(v * vector_bytes);
        const auto each_row = [&](auto&& add) FW_INLINED {
          repeat<R>([&](int r) FW_INLINED {
            const S* here = p[r] + v * W;
            if (prefetch) ask_for(here, ahead);
            add(r, here);
          });
        };
        Acc acc[G];
        if constexpr (in_floats && R > 1 && G > 1) {
          Floats some[G / 2];
          each_row([&](int r, const S* here) FW_INLINED {
            repeat<G / 2>([&](int g) FW_INLINED {
              const auto next = load<float, floats_at_once>(here + g * floats_at_once);
              some[g] = r ? some[g] + next : next;
            });
          });
          repeat<G>([&](int g) FW_INLINED {
            const auto before = first ? load<double, W>(sums + (v + g) * W) : splat<double, W>(0.0);
            acc[g] = {added_floats<W>(before, g % 2 ? upper(some[g / 2]) : lower(some[g / 2]))};
          });
        } else {
          each_row([&](int r, const S* here) FW_INLINED {
            repeat<G>([&](int g) FW_INLINED {
              if (r) acc[g] = joined<F, W>(acc[g], here + g * W);
              else if (first) acc[g] = joined<F, W>(load_parts<F, W>(sums + (v + g) * W, row), here + g * W);
              else acc[g] = T::load(here + g * W);
            });
          });
        }
        repeat<G>([&](int g) FW_INLINED { store_parts(sums + (v + g) * W, row, acc[g]); });
      };
      constexpr int a_line = std::max<int>(1, 64 / vector_bytes);
      int64_t v = 0;
      for (; v + a_line <= width; v += a_line) fold_vectors(std::integral_constant<int, a_line>{}, v);
      if constexpr (a_line > 1) {
        for (; v < width; ++v) fold_vectors(std::integral_constant<int, 1>{}, v);
      }
    };
    int64_t r = 0;
    for (; r + streams <= rows.count; r += streams) fold_streams(std::integral_constant<int, streams>{}, r);
    for (; r < rows.count; ++r) fold_streams(std::integral_constant<int, 1>{}, r);
  }

  // Rows of float16 by weights, a line of cache at a time: what is less takes as long.
  static constexpr int64_t line = line_bytes / (W * size);
  bool weighs_columns(int64_t width) const { return may_weigh<F> && adds_products && (width % line == 0 || width >= 7 * line); }
  bool weigh_down(const Rows<S>& rows, int64_t width, double* sums) const {
    if constexpr (may_weigh<F>) {
      static_assert(line * W == WeighedHalves<S>::columns);
      WeighedHalves<S> halves;
      const auto weigh = [&]<int R>(std::integral_constant<int, R>, int64_t first) FW_INLINED {
        const S* p[R];
        for (int r = 0; r < R; ++r) p[r] = rows(first + r);
        const Onward onward = Onward::in_order(rows, R, width * W * size);
        for (int64_t v = 0; v < width; v += line) {
          const int64_t c = v * W, ahead = onward(c * size);
          if (prefetch) repeat<R>([&](int r) FW_INLINED { ask_for(p[r] + c, ahead); });
          halves.take_columns(p, c, width * W - c, sums + c, first == 0, first + R == rows.count);
        }
      };
      int64_t r = 0;
      for (; r + streams <= rows.count; r += streams) weigh(std::integral_constant<int, streams>{}, r);
      for (; r + 2 <= rows.count; r += 2) weigh(std::integral_constant<int, 2>{}, r);
      if (r < rows.count) weigh(std::integral_constant<int, 1>{}, r);
      return halves.all_finite();
    }
    return false;
  }

  // A group of columns goes to Totals, and leaves nothing in the batch.
  void fold_each(Sums& sums, const Rows<S>& rows, int64_t first, int64_t columns) const {
    S column[batch_rows];
    Total* to = sums.spill(first);
    for (int64_t c = first; c < std::min(first + group, columns); ++c) {
      for (int64_t r = 0; r < rows.count; ++r) column[r] = element_at(rows(r) + c);
      sums.stretches.add(to[c - first], column, rows.count);
    }
    sums.each_vector(first, [&](int64_t i, int64_t) { store(sums.batch + i, splat<double, W>(0.0)); });
  }
};

}  // namespace foldwise::FOLDWISE_ISA

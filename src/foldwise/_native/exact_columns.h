// Exact sums of columns: so many rows at a time, added to what is there, each under one check of the flags.
#pragma once
#include "columns.h"
#include "exact_rounding.h"
#include "exact_stretches.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ExactColumns : Strips<F> {
  FOLDWISE_REDUCE_WORK(F)
  using In = Strips<F>;
  using In::kept, In::count, In::unit_bytes, In::unit_columns, In::vectors, In::vectors_of, In::columns_of, In::rows_of;
  static constexpr int64_t batch_rows = F::linear ? 128 : 16;  // squares are farther apart
  static constexpr int64_t streams = 8;
  const ExactOutputs<F> outputs;

  explicit ExactColumns(const ReducePlan& p) : In(p), outputs(p, scatter) {}

  // The sums of a strip so far: parts in rows, and Totals for what these could not take.
  struct Sums {
    const int64_t row;  // columns there is room for, in whole vectors
    int64_t used = 0;   // and columns there are
    Tiles<double> first, second, third;
    double *current, *other, *batch;
    Tiles<Total> totals;
    bool empty = true, spilled = false;
    Patience floats;
    Stretches<F> stretches;

    explicit Sums(int64_t columns)
        : row(columns), first(F::parts * columns), second(F::parts * columns), third(F::parts * columns), current(first.data),
          other(second.data), batch(third.data), totals(columns) {}

    void clear(int64_t columns) { used = columns, empty = true, spilled = false; }
    template <class Each>
    void each_vector(Each&& each) const {
      for (int64_t part = 0; part < F::parts * row; part += row) {
        for (int64_t c = 0; c < used; c += W) each(part + c);
      }
    }
    Total* begin_spilling() {
      if (!spilled) {
        for (int64_t c = 0; c < used; ++c) new (totals.data + c) Total;
      }
      spilled = true;
      return totals.data;
    }
    // Takes `batch`, exact parts, and leaves it to be written again.
    void take_batch() {
      if (!empty) {
        clear_flags();
        each_vector([&](int64_t i) FW_INLINED { store(other + i, load<double, W>(current + i) + load<double, W>(batch + i)); });
        settle(other);
        if (!lost_bits()) return std::swap(current, other);
        Total* to = begin_spilling();
        for (int64_t c = 0; c < used; ++c) ExactOutputs<F>::add(to[c], current, row, c);
      }
      std::swap(current, batch);
      empty = false;
    }
    void take(const Sums& sums) {
      if (sums.spilled) {
        Total* to = begin_spilling();
        for (int64_t c = 0; c < used; ++c) to[c].add(sums.totals.data[c]);
      }
      if (sums.empty) return;
      each_vector([&](int64_t i) { store(batch + i, load<double, W>(sums.current + i)); });
      take_batch();
    }
  };

  bool run() {
    const int threads = thread_count();
    const int64_t batches = (plan.count + batch_rows - 1) / batch_rows;
    const int64_t wanted = count >= 4 * threads || threads == 1 || count * unit_bytes < serial_bytes ? 1 : 8 * threads / count;
    const int64_t chunk = (batches + wanted - 1) / wanted * batch_rows, chunks = (plan.count + chunk - 1) / chunk;
    if (chunks > 1) return run_in_chunks(chunk, chunks), true;
    share(count, unit_bytes, [&](int64_t first, int64_t last) {
      Sums sums(vectors * W);
      const StripRoom<S> room = this->room();
      for (int64_t unit = first; unit < last; ++unit) {
        sums.clear(vectors_of(unit) * W);
        if (plan.count <= few_rows && !plan.sink.totals && fold_few_rows(unit, room)) continue;
        fold_strip(sums, unit, 0, plan.count, room);
        write(sums, unit);
      }
    });
    return true;
  }

 private:
  // Chunks of few strips, joined as they come: in which order makes no difference.
  void run_in_chunks(int64_t chunk, int64_t chunks) {
    for (int64_t unit = 0; unit < count; ++unit) {
      Sums whole(vectors * W);
      whole.clear(vectors_of(unit) * W);
      std::atomic<bool> taken{false};
      parallel(chunks, [&](int64_t task) {
        Sums sums(vectors * W);
        sums.clear(vectors_of(unit) * W);
        const StripRoom<S> room = this->room();
        fold_strip(sums, unit, task * chunk, std::min(plan.count, (task + 1) * chunk), room);
        while (taken.exchange(true, std::memory_order_acquire)) sched_yield();
        whole.take(sums);
        taken.store(false, std::memory_order_release);
      });
      write(whole, unit);
    }
  }

  void write(const Sums& sums, int64_t unit) const {
    if (sums.empty) std::fill_n(sums.current, F::parts * sums.row, 0.0);
    outputs.write(sums.current, sums.row, columns_of(unit), sums.spilled ? sums.totals.data : nullptr, In::out_of(unit), kept.out);
  }

  void fold_strip(Sums& sums, int64_t unit, int64_t first, int64_t last, const StripRoom<S>& room) const {
    const int64_t width = vectors_of(unit);
    for (int64_t here; first < last; first += here) {
      const bool floats = starts_in_floats<F> && last - first >= streams && sums.floats.lasts();
      here = std::min(floats ? streams : batch_rows, last - first);
      const Rows<S> rows = rows_of(unit, first, here, room);
      const auto fold = [&](auto in_floats) FW_INLINED {
        clear_flags();
        if constexpr (in_floats) fold_down_in_floats(rows, width, sums.batch);
        else fold_down(rows, width, sums.batch, sums.row);
        settle(sums.batch);
        return !lost_bits();
      };
      if ((floats && sums.floats.learn(fold(std::bool_constant<starts_in_floats<F>>{}))) || fold(std::false_type{})) {
        sums.take_batch();
      } else {
        fold_each(sums, rows, columns_of(unit));
      }
    }
  }

  // Eight rows, each a stream of its own, as floats.
  void fold_down_in_floats(const Rows<S>& rows, int64_t width, double* sums) const {
    const S* p[streams];
    for (int r = 0; r < streams; ++r) p[r] = rows(r);
    int64_t c = 0;
    for (; c + floats_at_once <= width * W; c += floats_at_once) {
      Floats sum;
#pragma GCC unroll 8
      for (int r = 0; r < streams; ++r) {
        if (prefetch) __builtin_prefetch(reinterpret_cast<const char*>(p[r] + c) + stream_distance, 0, 3);
        const auto row = load<float, floats_at_once>(p[r] + c);
        sum = r == 0 ? row : sum + row;
      }
      const auto nothing = splat<double, W>(0.0);
      store(sums + c, added_floats<W>(nothing, lower(sum)));
      store(sums + c + W, added_floats<W>(nothing, upper(sum)));
    }
    for (; c < width * W; c += W) {
      auto sum = splat<double, W>(0.0);
      for (const S* row : p) sum = sum + load<double, W>(row + c);
      store(sums + c, sum);
    }
  }

  // A few rows in registers, and from there to their results, some columns at a time; false where these were not exact,
  // after some of them have been written.
  bool fold_few_rows(int64_t unit, const StripRoom<S>& room) const {
    constexpr int64_t some = 128;
    const Rows<S> rows = rows_of(unit, 0, plan.count, room);
    const int64_t columns = columns_of(unit);
    double parts[F::parts * some];
    for (int64_t first = 0; first < columns; first += some) {
      const int64_t here = std::min(some, columns - first);
      clear_flags();
      for (int64_t c = 0; c < here; c += W) store_parts(parts + c, some, few_rows_vector<F>(rows, first + c));
      settle(parts);
      if (lost_bits()) return false;
      outputs.write(parts, some, here, nullptr, In::out_of(unit) + first * kept.out, kept.out);
    }
    return true;
  }

  // Eight rows at a time, each a stream of its own.
  void fold_down(const Rows<S>& rows, int64_t width, double* sums, int64_t row) const {
    const auto fold_streams = [&]<int R>(std::integral_constant<int, R>, int64_t first) FW_INLINED {
      const S* p[R];
      for (int r = 0; r < R; ++r) p[r] = rows(first + r);
      for (int64_t v = 0; v < width; ++v) {
        Acc acc;
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const S* here = p[r] + v * W;
          if (prefetch) __builtin_prefetch(reinterpret_cast<const char*>(here) + stream_distance, 0, 3);
          acc = r == 0 ? first ? joined<F, W>(load_parts<F, W>(sums + v * W, row), here) : T::load(here) : joined<F, W>(acc, here);
        }
        store_parts(sums + v * W, row, acc);
      }
    };
    int64_t r = 0;
    for (; r + streams <= rows.count; r += streams) fold_streams(std::integral_constant<int, streams>{}, r);
    for (; r < rows.count; ++r) fold_streams(std::integral_constant<int, 1>{}, r);
  }

  void fold_each(Sums& sums, const Rows<S>& rows, int64_t columns) const {
    S column[batch_rows];
    Total* to = sums.begin_spilling();
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < rows.count; ++r) column[r] = element_at(rows(r) + c);
      sums.stretches.add(to[c], column, rows.count);
    }
  }
};

}  // namespace foldwise::FOLDWISE_ISA

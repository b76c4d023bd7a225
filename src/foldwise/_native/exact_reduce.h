// Exact reductions. No order is better than another here, so every path takes the shortest one. Plain arithmetic runs
// first, on doubles with bits to spare, and the processor's flags prove that it was exact; what was not is done again.
#pragma once
#include "exact_columns.h"
#include "exact_rounding.h"
#include "exact_stretches.h"
#include "sequences.h"
#include "short_rows.h"

namespace foldwise::FOLDWISE_ISA {

// `k` of them where they lie interleaved: a Total for each, which is all that is kept of them.
template <class F>
struct ExactSequences : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using Work::Work;

  bool run(bool one) const { return fold_sequences(plan, told, this, one, prefetch); }

 private:
  static constexpr int64_t most_interleaved = 32, most_per_check = 8192;
  static constexpr int rows = 4;  // of lanes, at once

  struct Open {
    const int64_t k;
    Total* totals;
    Acc* lanes;
    Patience floats, plain, grid;
    SquaresOnGrid<F> squares;
    Stretches<F> stretches;
    Tally<F> alone;  // of one sequence, until it ends
    Waiting<F> waiting;

    Open(int64_t interleaved, char* tiles, char* room)
        : k(interleaved), totals(reinterpret_cast<Total*>(tiles)), lanes(reinterpret_cast<Acc*>(room)), alone(*totals) {
      for (int64_t i = 0; i < k; ++i) new (totals + i) Total;
    }

    void take(const S* p, int64_t count, const S* next) {
      if (k == 1) {
        if (!waiting.take(alone, p, count)) stretches.add(alone, p, count, next);
        return;
      }
      const int64_t span = std::max<int64_t>(L, most_per_check / k / (rows * L) * (rows * L));
      for (; count; p += std::min(count, span) * k, count -= std::min(count, span)) interleaved(p, std::min(count, span));
    }

    FW_OUTLINE void interleaved(const S* p, int64_t count) {
      bool exact = false;
      if constexpr (F::plainly) exact = (F::linear || plain.lasts()) && plain.learn(add_lanes(p, count));
      if constexpr (!F::linear) exact = exact || (grid.lasts() && grid.learn(add_squares(p, count)));
      for (int64_t i = 0; !exact && i < k; ++i) one_of_them(totals[i], p + i, count);
    }

    bool add_lanes(const S* p, int64_t count) {
      typename F::template Acc<1> ends[most_interleaved * W];
      const int64_t row = L * k;
      const auto fold = [&](auto in_floats) FW_INLINED {
        clear_flags();
        if constexpr (in_floats) fold_into_lanes_in_floats(p, count * k, row);
        else fold_into_lanes<F, 0, true>(p, count * k, row, lanes, false, Ahead{count * k * int64_t{sizeof(S)}});
        fold_interleaved_lanes<F>(lanes, k, ends);
        settle(ends);
        return !lost_bits();
      };
      constexpr std::bool_constant<starts_in_floats<F>> in_floats;
      if (!(in_floats && floats.lasts() && floats.learn(fold(in_floats))) && !fold(std::false_type{})) return false;
      for (int64_t i = 0; i < k; ++i) add_parts(totals[i], ends[i]);
      return true;
    }

    // Lanes are columns, and memory goes along their rows: four of these at a time.
    void fold_into_lanes_in_floats(const S* p, int64_t count, int64_t row) {
      constexpr int N = floats_at_once, line = 64 / size;
      const int64_t full = count / row, rest = count % row;
      std::fill_n(lanes, row / W, absence<F, W>());
      int64_t r = 0;
      for (; r + rows <= full; r += rows) {
        for (int64_t c = 0; c < row; c += N) {
          Floats some;
          repeat<rows>([&](int j) FW_INLINED {
            const S* here = p + (r + j) * row + c;
            if (c % line == 0) ask_for(here, prefetch_distance);
            const auto x = load<float, N>(here);
            some = j == 0 ? x : some + x;
          });
          Acc *low = lanes + c / W, *high = low + 1;
          *low = {added_floats<W>(low->total, lower(some))};
          *high = {added_floats<W>(high->total, upper(some))};
        }
      }
      for (; r < full; ++r) {
        for (int64_t c = 0; c < row; c += W) lanes[c / W] = joined<F, W>(lanes[c / W], p + r * row + c);
      }
      for (int64_t c = 0; c < rest; c += W) {
        lanes[c / W] = F::merge(lanes[c / W], T::load_some(p + full * row + c, std::min<int64_t>(W, rest - c)));
      }
    }

    // Lanes as columns. Those of one sequence are added by halves.
    bool add_squares(const S* p, int64_t count) {
      const int64_t row = L * k, whole = count / L, left = count % L * k;
      const char* places[SquaresOnGrid<F>::most_rows + 1];
      S last[most_interleaved * L];
      static_assert(most_per_check / 2 <= SquaresOnGrid<F>::most_rows * L);
      Rows<S> of{{reinterpret_cast<const char*>(p), row * size, nullptr, whole}};
      if (left) {
        std::fill(std::copy_n(p + whole * row, left, last), last + row, S{});
        for (int64_t r = 0; r < whole; ++r) places[r] = of.first + r * of.stride;
        places[whole] = reinterpret_cast<const char*>(last);
        of.places = places, ++of.count;
      }
      double* const parts = reinterpret_cast<double*>(lanes);
      if (!squares.down(of, 0, row / W, parts, row, L / 4)) return false;
      clear_flags();
      for (int64_t width = row / 2; width >= k; width /= 2) {
        for (double* at = parts; at < parts + F::parts * row; at += row) {
          for (int64_t c = 0; c < width; c += W) store(at + c, load<double, W>(at + c) + load<double, W>(at + c + width));
        }
      }
      settle(parts);
      if (lost_bits()) return false;
      for (int64_t i = 0; i < k; ++i) {
        for (int m = 0; m < F::parts; ++m) totals[i].add(parts[m * row + i]);
      }
      return true;
    }

    void one_of_them(Total& total, const S* p, int64_t count) {
      S some[1024];
      while (count) {
        const int64_t here = std::min<int64_t>(1024, count);
        for (int64_t i = 0; i < here; ++i) some[i] = element_at(p + i * k);
        stretches.add(total, some, here);
        p += here * k;
        count -= here;
      }
    }
  };

  static void open(void* state, int64_t k, int64_t, char* tiles, char* plain) { new (state) Open(k, tiles, plain); }
  static bool take(void* state, const char* p, int64_t count, const char* next, Walk) {
    static_cast<Open*>(state)->take(reinterpret_cast<const S*>(p), count, reinterpret_cast<const S*>(next));
    return true;
  }
  static void fetch(void*, const char*, int64_t) {}
  static void end(void* state, Walk) {
    Open& of = *static_cast<Open*>(state);
    of.waiting.add_to(of.alone);
    of.alone.whole();
  }
  static void join_tiles(char* tiles, const char* parts, int64_t chunks, int64_t k) {
    auto* totals = reinterpret_cast<Total*>(tiles);
    std::memcpy(tiles, parts, k * sizeof(Total));
    for (int64_t c = 1; c < chunks; ++c) {
      for (int64_t i = 0; i < k; ++i) totals[i].add(reinterpret_cast<const Total*>(parts)[c * k + i]);
    }
  }
  static bool finish(const ReducePlan& plan, const void* reduction, char* tile, int64_t k, char* out) {
    const auto* self = static_cast<const ExactSequences*>(reduction);
    auto* totals = reinterpret_cast<Total*>(tile);
    double results[most_interleaved];
    const int64_t stride = k > 1 ? self->inner_kept().out : 0;
    if (plan.sink.kept != Kept::result) {
      bool fit = true;
      for (int64_t i = 0; i < k; ++i) fit &= keep_total(plan, totals[i], out + i * stride);
      return fit;
    }
    for (int64_t i = 0; i < k; ++i) results[i] = rounded_total(totals[i], plan);
    self->scatter(out, stride, results, k);
    return true;
  }
  static void read(const void* reduction, char* to, Cursor& from, int64_t count) {
    static_cast<const ExactSequences*>(reduction)->reader.sequence(reinterpret_cast<S*>(to), from, count);
  }

  static constexpr SequenceFold told{size, effort, Stretches<F>::block, 1, sizeof(Open), sizeof(Total),
                                     (L / W) * static_cast<int64_t>(sizeof(Acc)), open, take, fetch, end, join_tiles, finish, read};
};

template <class F>
bool reduce_exactly(const ReducePlan& plan) {
  if (plan.shape == Shape::columns) return ExactColumns<F>(plan).run();
  ShortRows<F> rows(plan);
  if (plan.shape == Shape::rows && rows.suits()) return rows.run();
  return ExactSequences<F>(plan).run(plan.shape == Shape::rows || plan.kept[plan.kept_rank - 1].size == 1);
}

}  // namespace foldwise::FOLDWISE_ISA

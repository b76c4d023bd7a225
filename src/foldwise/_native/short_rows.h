// Short rows: whole rows of at most one block, or a few where they lie, W of them at a time.
#pragma once
#include "batches.h"
#include "exact_rounding.h"
#include "exact_squares.h"
#include "exact_stretches.h"
#include "interleave.h"
#include "reduce_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ShortRows : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using Work::Work;

  // However few rows there are, and if there are enough for the threads: but of few blocks only where what fails one check is done
  // again for all of them.
  static constexpr bool checked_together = F::guarded || (is_exact<F> && !is_exact_sum<F>);
  static constexpr int64_t few_blocks = 8, most_row_blocks = checked_together ? few_blocks : 128;
  static constexpr int64_t batch = (size == 2 ? 4 : 1) * RowFold::few;
  static constexpr int64_t least_in_floats = 64, least_counted = 1024, least_weighed = 160;
  // Exact sums of so many elements have checks of their own: of bfloat16, which fail them the most, whole rows of a vector do.
  int64_t least_checked_alone() const { return starts_in_floats<F> ? prefetch ? 2048 : 4096 : few_blocks * T::block + 1; }
  static constexpr int64_t least_spread = 1024 / size;  // elements for which what is fetched is spread over the reading
  // Exact rows share one check of the flags: not so many that one of them is likely to raise one. Sums of float16 do so only where there
  // are infinities, and where few rows are written at a time, memory has nothing to do meanwhile.
  static constexpr int64_t most_checked = is_exact_sum<F> && std::is_same_v<S, half> ? 1 << 17 : 4096;
  static constexpr int64_t most_elements = is_exact<F> ? most_checked : std::numeric_limits<int64_t>::max();

  // Rows that several reductions of sixteen-bit floats take in turn, whole: every one of them widens what it reads, and to open a
  // sequence of each takes as long. Of longer elements turns of less than a row are faster.
  static constexpr int64_t most_in_company = std::is_floating_point_v<A> && size == 2 ? 8192 : 0;

  // Whether rows of that length are for here.
  bool suits() const {
    if (blocks <= 1) return true;
    if (blocks > few_blocks && !Units{plan.outputs, plan.count * weight(), blocks, 0}.are_whole(plan)) return false;
    return blocks <= most_row_blocks && rows_lie_whole(plan, size) && (!plan.company || plan.count <= most_in_company);
  }

  // Of rows of two to four elements.
  bool asks_for_few() const { return prefetch && !lines_come_in_pairs; }

  // What is fetched ahead of a row: what follows in memory, or where rows lie apart a later one.
  static Ahead ahead_of(int64_t row_bytes, int64_t stride) {
    const bool apart = stride != row_bytes;
    const int64_t distance = apart && row_bytes >= 2 * line_bytes ? prefetch_distance : row_prefetch_distance();
    if (row_bytes > distance && !apart) return {distance};
    return {(distance + row_bytes - 1) / row_bytes * stride, apart};
  }

  template <class G>
  static FW_OUTLINE typename Terms<G>::Acc long_row_vector(const S* p, int64_t count, Ahead ahead) {
    typename Terms<G>::Acc tiles[(std::bit_width(static_cast<uint64_t>(most_row_blocks)) + 1) * L / W];
    Counter<G> counter{tiles, L / W};
    const int64_t some = is_exact<G> ? count : T::block;
    constexpr bool may_be = takes_one_step<G> || takes_lines<G> || comes_by_parity<G>;
    const bool unasked = ((may_be || is_widened<G>) && !ahead.distance) || (may_be && is_read_unasked<G>(ahead.apart));
    for (int64_t done = 0; done < count; done += some) {
      const int64_t here = std::min(some, count - done);
      if constexpr (has_plain_parts<G>) block_into_lanes<G>(p + done, here, counter.next());
      else if (unasked) fold_into_lanes<G, G::heavy ? 0 : L, false>(p + done, here, L, counter.next());
      else fold_into_lanes<G, G::heavy ? 0 : L, std::is_same_v<G, F>>(p + done, here, L, counter.next(), false, ahead);
      counter.push();
    }
    return fold_lane_vectors<G>(counter.whole());
  }

  template <class G, bool in_floats>
  FW_STEP typename Terms<G>::Acc row_vector(const S* p, int64_t count, Ahead ahead) const {
    if constexpr (in_floats) return {sums_by_floats(p, count, ahead)};
    if constexpr (may_widen_by_fours<G>) {
      if (zen4 && count >= least_by_fours) return {sums_by_fours(p, count, ahead)};
    }
    const bool asks = prefetch && !is_read_unasked<G>(ahead.apart, count * size);
    if (count > (asks && !G::heavy ? least_spread : T::block)) return long_row_vector<G>(p, count, ahead);
    if (asks) fetch_lines(reinterpret_cast<const char*>(p) + ahead.distance, count * size, ahead.apart);
    if (count < W) return Terms<G>::load_some(p, count);
    typename Terms<G>::Acc lanes[L / W];
    block_into_lanes<G>(p, count, lanes);
    return fold_lane_vectors<G>(lanes);
  }

  template <class G>
  static FW_INLINE void block_into_lanes(const S* p, int64_t count, typename Terms<G>::Acc* lanes) {
    if constexpr (has_plain_parts<G>) {
      Acc plain[L / W];
      careful_tile(L / W, plain, lanes, [&]<class H>(H, auto* lanes_of_h) FW_INLINED {
        fold_into_lanes<H, L, false>(p, count, L, lanes_of_h);
      });
    } else {
      fold_into_lanes<G, L, false>(p, count, L, lanes);
    }
  }

  template <class G, bool in_floats = false, class Give>
  FW_INLINE void each_row(const char* x, int64_t stride, int64_t rows, Give&& give) const {
    const Ahead ahead = prefetch ? ahead_of(plan.count * size, stride) : Ahead{0, false, 0, false};
    each_row_by<G>([&](int64_t i) FW_INLINED {
      return row_vector<G, in_floats>(reinterpret_cast<const S*>(x + i * stride), plan.count, ahead);
    }, rows, give);
  }

  // Rows W at a time, then one by one: row(i) is a vector of what lies in row i, and `give` gets the place of the first and their
  // accumulators.
  template <class G, class Row, class Give>
  FW_INLINE void each_row_by(Row&& row, int64_t rows, Give&& give) const {
    int64_t i = 0;
    if constexpr (sizeof(A) >= 4 && std::is_same_v<G, F>) {  // not what takes long to be picked apart, nor what is rare
      for (; i + W <= rows; i += W) {
        typename Terms<G>::Acc vectors[W];
#pragma GCC unroll 1
        for (int j = 0; j < W; ++j) vectors[j] = row(i + j);
        give(i, fold_across<G>(vectors));
      }
    }
    for (; i < rows; ++i) give(i, folded<G, W>(row(i)));
  }

  // Where steps are long, rows of which no lane has more than one element are turned into columns, some vectors of them at a time: a
  // step is then one of as many rows, and none of lanes that have nothing. Of one long row that would be more steps than lanes take.
  static constexpr int64_t turned = std::max<int64_t>(128 / sizeof(A), native<S>), most_turned = std::min(L, 64);
  template <class G> static constexpr bool may_turn = G::heavy && size > 1 && !is_rare<G>;
  template <class G>
  bool turns(int64_t rows) const { return may_turn<G> && plan.count <= std::min<int64_t>(most_turned, 16 * rows); }

  // Gives the place of the first of them, and them as columns `at_once` apart, so many vectors wide, until told to stop.
  template <int64_t at_once, class Give>
  FW_INLINE void turn(bool narrow, const char* x, int64_t stride, int64_t rows, Give&& give) const {
    const Ahead ahead = ahead_of(plan.count * size, stride);
    const bool asks = prefetch && !is_read_unasked<F>(ahead.apart, plan.count * size);
    S columns[most_turned * at_once];
    for (int64_t i = 0; i < rows; i += at_once, x += at_once * stride) {
      const int64_t some = std::min(at_once, rows - i), width = (some + W - 1) / W;
      for (int64_t r = 0; asks && r < some; ++r) fetch_lines(x + r * stride + ahead.distance, plan.count * size, ahead.apart);
      if (narrow) deinterleave(columns, at_once, x, plan.count, some);
      else transpose_rows(columns, at_once, x, stride, some, plan.count);
      for (int64_t c = 0; narrow && c < plan.count; ++c) {
        std::fill(columns + c * at_once + some, columns + c * at_once + width * W, reader.absent);
      }
      if (!give(i, columns, width)) return;
    }
  }

  template <class G, class Give>
  FW_INLINE void each_turned_row(bool narrow, const char* x, int64_t stride, int64_t rows, Give&& give) const {
    typename Terms<G>::Acc tile[most_turned * turned / W];
    turn<turned>(narrow, x, stride, rows, [&](int64_t i, const S* columns, int64_t width) FW_INLINED {
      for (int64_t c = 0; c < plan.count; ++c) {
        for (int64_t v = 0; v < width; ++v) tile[c * width + v] = Terms<G>::load(columns + c * turned + v * W);
      }
      fold_lanes<G>(tile, plan.count, width);
      for (int64_t v = 0; v < width; ++v) give(i + v * W, tile[v]);
      return true;
    });
  }

  // Rows of two to four elements, one after the other in memory: turned into that many columns in cache, some at a time, while
  // memory is asked for the next ones. Triples, a vector of each column at once, in registers.
  template <class G, class Give>
  FW_INLINE void each_narrow_row(const char* x, int64_t rows, Give&& give) const {
    constexpr int N = native<S>, at_once = 8 * N, most = most_interleaved_words;
    const int64_t row_bytes = plan.count * size;
    S columns[most * at_once];
    int64_t done = 0;
    const auto fold = [&]<class Count>(int64_t stride, int64_t some, Count count) FW_INLINED {
#pragma GCC unroll 1
      for (int64_t i = 0; i < some; i += W) {
        if (asks_for_few()) fetch_lines(x + (done + i) * row_bytes + short_rows_prefetch_distance(), W * row_bytes, false);
        give(done + i, few_rows_vector<G, most>(count, [&](int c) FW_INLINED { return load<A, W>(columns + c * stride + i); }));
      }
      done += some;
    };
    if constexpr (!one_way<G> && !G::heavy) {
      using Word = typename WordOf<sizeof(S)>::type;
      while (plan.count == 3 && done + N <= rows) {
        typename VectorOf<Word, N>::type in[3];
        repeat<3>([&](int c) FW_INLINED { in[c] = load_vector<Word, N>(x + done * row_bytes + c * vector_bytes); });
        store_vector(columns, taken_apart<3, N, 0>(in));
        store_vector(columns + N, taken_apart<3, N, 1>(in));
        store_vector(columns + 2 * N, taken_apart<3, N, 2>(in));
        fold(N, N, std::integral_constant<int, 3>{});
      }
    }
    while (done < rows) {
      const int64_t some = std::min<int64_t>(at_once, rows - done), whole = (some + W - 1) / W * W;
      deinterleave(columns, at_once, x + done * row_bytes, plan.count, some);
      for (int64_t c = 0; c < plan.count; ++c) std::fill(columns + c * at_once + some, columns + c * at_once + whole, reader.absent);
      fold(at_once, some, plan.count);
    }
  }

  // Folds some rows into results.
  bool fold_rows(bool narrow, const char* x, int64_t stride, int64_t rows, A* out) const {
    return guarded<F>([&]<class G>(G) FW_INLINED {
      bool fit = true;
      const auto finish_some = [&](int64_t i, const auto& acc) FW_INLINED {
        A some[W];
        A* to = i + W <= rows ? out + i : some;
        fit &= finished<G, W>(acc, plan.finish, to);
        if (to == some) std::copy_n(some, rows - i, out + i);
      };
      if (turns<G>(rows)) {
        if constexpr (may_turn<G>) each_turned_row<G>(narrow, x, stride, rows, finish_some);
      } else if (narrow) {
        each_narrow_row<G>(x, rows, finish_some);
      } else {
        each_row<G>(x, stride, rows, [&]<class Accs>(int64_t i, const Accs& acc) FW_INLINED {
          constexpr int N = std::is_same_v<Accs, typename Terms<G>::Acc> ? W : 1;
          fit &= finished<G, N>(acc, plan.finish, out + i);
        });
      }
      settle(out);
      return fit;
    });
  }

  bool fold_as_default(const char* x, int64_t rows, char* out) const {
    const ShortRows<AsDefault<F>> in_floats(plan);
    float sums[batch + native<float>];
    clear_flags();
    in_floats.template each_narrow_row<AsDefault<F>>(x, rows, [&](int64_t i, const auto& acc) FW_INLINED {
      store_floats(sums + i, acc);
    });
    settle(sums);
    if (lost_bits()) return false;
    in_floats.scatter(out, inner_kept().out, sums, rows);
    return true;
  }

  // Rows of two or three numbers. False if a sum is not finite.
  template <int K>
  bool fold_few(const char* x, int64_t rows, char* out) const {
    constexpr int N = native<S>, at_once = RoundedAsAdded<S>::at_once;
    constexpr int64_t row_bytes = K * size;
    using Word = typename WordOf<sizeof(S)>::type;
    using Some = typename RoundedAsAdded<S>::Some;
    RoundedAsAdded<S> rounded;
    const auto sums = [&](const void* from) FW_INLINED {
      Some columns[K];
      repeat<at_once / N>([&](int k) FW_INLINED {
        typename VectorOf<Word, N>::type in[K];
        repeat<K>([&](int c) FW_INLINED { in[c] = load_vector<Word, N>(static_cast<const char*>(from) + (k * K + c) * vector_bytes); });
        [&]<int... c>(std::integer_sequence<int, c...>) FW_INLINED {
          ((columns[c].v[k] = std::bit_cast<typename Some::Vector>(taken_apart<K, N, c>(in))), ...);
        }(std::make_integer_sequence<int, K>{});
      });
      return rounded(columns);
    };
    int64_t i = 0;
    for (; i + at_once <= rows; i += at_once) {
      if (asks_for_few()) fetch_lines(x + i * row_bytes + short_rows_prefetch_distance(), at_once * row_bytes, false);
      store(reinterpret_cast<S*>(out) + i, sums(x + i * row_bytes));
    }
    if (i < rows) {
      S some[K * at_once] = {}, last[at_once];
      std::memcpy(some, x + i * row_bytes, (rows - i) * row_bytes);
      store(last, sums(some));
      std::memcpy(out + i * size, last, (rows - i) * size);
    }
    return rounded.all_finite();
  }

  // Squares on a grid: short rows as columns.
  bool turned_squares(bool narrow, const char* x, int64_t stride, int64_t rows, double* parts, int64_t room,
                      SquaresOnGrid<F>& squares) const {
    constexpr int64_t at_once = 64;
    bool exact = true;
    turn<at_once>(narrow, x, stride, rows, [&](int64_t i, const S* columns, int64_t width) {
      const Rows<S> across{{reinterpret_cast<const char*>(columns), at_once * size, nullptr, plan.count}};
      return exact = squares.down(across, 0, width, parts + i, room);
    });
    return exact;
  }

  // Rows of float16 as whole numbers, each under its own check: in pairs, where that suits most of them.
  static constexpr bool counts_rows = !small && counts_halves<F>;
  bool count_rows(const char* x, int64_t stride, int64_t rows, double* sums, Patience& pairs) const {
    const Ahead ahead = prefetch ? ahead_of(plan.count * size, stride) : Ahead{0, false, 0, false};
    const bool in_pairs = starts_in_pairs<F> && pairs.lasts();
    int64_t singly = 0;
    const auto sum = [&](auto together, int64_t i, unsigned flags) FW_INLINED {
      sums[i] = WholeNumbers<F>::template halves<together>(reinterpret_cast<const S*>(x + i * stride), plan.count, ahead);
      settle(sums + i);
      if (!raised_flags(flags)) return true;
      clear_flags();
      return false;
    };
    clear_flags();
    for (int64_t i = 0; i < rows; ++i) {
      if constexpr (starts_in_pairs<F>) {
        if (in_pairs && 4 * singly <= rows && sum(std::integral_constant<int, 2>{}, i, flag_of_any)) continue;
      }
      ++singly;
      if (!sum(std::integral_constant<int, 1>{}, i, flag_of_invalid)) return false;
    }
    if (in_pairs) pairs.learn(4 * singly <= rows);
    return true;
  }

  // The same by weights, all of them under one check.
  bool weighs_rows() const { return may_weigh<F> && adds_products && plan.count >= least_weighed; }
  template <class Keep>
  bool weigh_rows(const char* x, int64_t stride, int64_t rows, Keep&& keep) const {
    if constexpr (may_weigh<F>) {
      static_assert(few_blocks * T::block <= WeighedHalves<S>::most_in_row);
      WeighedHalves<S> halves;
      const auto along = [&](int64_t i) FW_INLINED { return Acc{halves.row(reinterpret_cast<const S*>(x + i * stride), plan.count)}; };
      each_row_by<F>(along, rows, keep);
      return halves.all_finite();
    }
    return false;
  }

  // Exact folds leave parts, all of them exact, or else Totals.
  struct Tried {
    Patience floats, counted, pairs, plain{3}, grid;
    SquaresOnGrid<F> squares;
    Stretches<F> stretches;
  };
  void fold_exactly(bool narrow, const char* x, int64_t stride, int64_t rows, char* out, Tried& tried) {
    constexpr int64_t room = batch + W;
    double parts[F::parts * room];
    const ExactOutputs<F::parts> outputs(plan, scatter);
    const auto keep = [&](int64_t i, const auto& acc) FW_INLINED { store_parts(parts + i, room, acc); };
    const auto exactly = [&](auto&& fold) FW_INLINED {
      clear_flags();
      fold();
      settle(parts);
      return !lost_bits();
    };
    if constexpr (is_exact_sum<F>) {
      if (plan.count >= least_checked_alone()) return fold_each(x, stride, rows, out, tried.stretches);
    }
    bool exact = false;
    if constexpr (rounds_few<F>) {
      const bool few_of_each = narrow && plan.count <= 3 && outputs.as_elements() && inner_kept().out == size;
      const auto fold = [&] { return plan.count == 2 ? fold_few<2>(x, rows, out) : fold_few<3>(x, rows, out); };
      if (few_of_each && tried.floats.lasts() && tried.floats.learn(fold())) return;
    }
    if constexpr (adds_short_floats<F>) {
      if (narrow && outputs.from_floats() && tried.floats.lasts() && tried.floats.learn(fold_as_default(x, rows, out))) return;
    }
    if constexpr (counts_rows) {
      const bool weighs = weighs_rows();
      exact = (weighs || plan.count >= least_counted) && tried.counted.lasts() &&
              tried.counted.learn(weighs ? weigh_rows(x, stride, rows, keep) : count_rows(x, stride, rows, parts, tried.pairs));
    }
    if constexpr (starts_in_floats<F>) {
      if (plan.count >= least_in_floats && tried.floats.lasts()) {
        exact = tried.floats.learn(exactly([&]() FW_INLINED { each_row<F, true>(x, stride, rows, keep); }));
      }
    }
    constexpr bool short_rows_plainly = F::plainly || size < 8;  // those of doubles are too far apart
    if (F::plainly || narrow || (short_rows_plainly && plan.count <= 4 * L)) {
      exact = exact || (tried.plain.lasts() && tried.plain.learn(exactly([&]() FW_INLINED {
        if (narrow) each_narrow_row<F>(x, rows, keep);
        else if constexpr (short_rows_plainly) each_row<F>(x, stride, rows, keep);
      })));
    }
    if constexpr (!F::linear) {
      const auto on_grid = [&] {
        SquaresOnGrid<F>& squares = tried.squares;
        if (plan.count <= std::min<int64_t>(most_turned, 16 * rows)) return turned_squares(narrow, x, stride, rows, parts, room, squares);
        const auto along = [&](int64_t i) { return squares.along(reinterpret_cast<const S*>(x + i * stride), plan.count); };
        return squares.rows(x, stride, rows, plan.count, [&] { each_row_by<F>(along, rows, keep); });
      };
      exact = exact || (tried.grid.lasts() && tried.grid.learn(on_grid()));
    }
    if (exact) note(outputs.write(parts, room, rows, out, inner_kept().out));
    else fold_each(x, stride, rows, out, tried.stretches);
  }

  // Rows one by one, in stretches. As long as few numbers are all there is, they wait for each other.
  void fold_each(const char* x, int64_t stride, int64_t rows, char* out, Stretches<F>& stretches) {
    constexpr int count = Tally<F>::numbers;
    constexpr int64_t most = ExactOutputs<count>::group, room = most + W;
    const ExactOutputs<count> outputs(plan, scatter);
    const int64_t to = inner_kept().out;
    double numbers[count * room];
    int64_t waiting = 0;
    const auto write_before = [&](int64_t row) {
      note(outputs.write(numbers, room, waiting, out + (row - waiting) * to, to));
      waiting = 0;
    };
    for (int64_t i = 0; i < rows; ++i, x += stride) {
      alignas(Total) char beside[sizeof(Total)];
      Tally<F> sum(beside);
      stretches.add(sum, reinterpret_cast<const S*>(x), plan.count, prefetch ? reinterpret_cast<const S*>(x + stride) : nullptr);
      if (!sum.holds_all()) {
        write_before(i);
        const double nothing[count] = {};
        note(outputs.write(nothing, 1, 1, out + i * to, 0, [&](int64_t) { return &sum.whole(); }));
      } else {
        sum.store(numbers + waiting, room);
        if (++waiting == most) write_before(i + 1);
      }
    }
    write_before(rows);
  }

  bool run() {
    fold_in_batches(plan, told, this, weight());
    return fits;
  }

 private:
  static void open(void* state) { new (state) Tried; }
  static constexpr auto opens() -> void (*)(void*) {
    if constexpr (is_exact<F>) return open;
    else return nullptr;
  }
  static void read(const void* reduction, char* to, Cursor& from, int64_t count) {
    static_cast<const ShortRows*>(reduction)->reader.sequence(reinterpret_cast<S*>(to), from, count);
  }
  static void fold(void* reduction, void* state, const RowBatch& of) {
    auto& self = *static_cast<ShortRows*>(reduction);
    if constexpr (is_exact<F>) {
      self.fold_exactly(of.narrow, of.x, of.stride, of.rows, of.waits ? of.room : of.out, *static_cast<Tried*>(state));
    } else {
      const int64_t out = self.inner_kept().out;
      const bool in_place = self.plan.sink.direct && !of.waits && (of.rows == 1 || out == sizeof(A));
      A* to = reinterpret_cast<A*>(in_place ? of.out : of.room);
      self.note(self.fold_rows(of.narrow, of.x, of.stride, of.rows, to));
      if (!of.waits && !in_place) self.scatter(of.out, out, to, of.rows);
    }
  }
  static constexpr RowFold told{size, W, T::block, batch, most_elements, is_exact<F>, opens(), read, fold};
  static_assert(sizeof(std::conditional_t<is_exact<F>, Tried, char>) <= RowFold::state_bytes && 2 * T::block * size <= RowFold::gathered_bytes &&
                batch * static_cast<int64_t>(sizeof(A)) <= RowFold::room_bytes);
};

}  // namespace foldwise::FOLDWISE_ISA

// Columns: strips of the innermost kept axis.
#pragma once
#include "reduce_work.h"
#include "strips.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct StripWork : ReduceWork<F>, Strips {
  FOLDWISE_REDUCE_WORK(F)

  // Where rows are taken as they lie, one of results stays in the first cache.
  static constexpr int64_t tile_columns = is_exact<F> ? 32768 / size : any_order<F> ? 32768 / sizeof(A) : 2048;
  static constexpr int64_t most_columns = std::max(tile_columns, few_rows_columns);
  // In cache, rows that are few may be twice as many: so many streams are not fetched well from memory. Steps that are long are
  // sooner done with columns side by side.
  static constexpr bool takes_twice_few = !is_exact<F> && !one_way<F> && !F::heavy && L >= 2 * few_rows;

  explicit StripWork(const ReducePlan& p) : Work(p), Strips(p, kind, this, weight(), prefetch) {}

  Rows<S> rows_of(int64_t unit, int64_t first, int64_t rows, StripRoom& room) const {
    return {Strips::rows_of(unit, first, rows, room)};
  }

 private:
  static void read(const void* reduction, char* to, int64_t padded, const char* x, const char* mask, const Axis& along, const Axis& across,
                   int64_t columns, int64_t rows) {
    static_cast<const StripWork*>(reduction)->reader.lines(reinterpret_cast<S*>(to), padded, x, mask, along, across, columns, rows);
  }
  static constexpr StripKind kind{.item = size,
                                  .vector = W,
                                  .loaded = (by_parity<F, L / W> ? 2 : 1) * W * size,
                                  .block = T::block,
                                  .tile_columns = tile_columns,
                                  .few = F::heavy ? 0 : few_rows,
                                  .few_in_cache = F::heavy ? 0 : (takes_twice_few ? 2 : 1) * few_rows,
                                  .looks_beside = AcrossLines::pays && !F::heavy && !is_exact<F> && !is_judged<F>,
                                  .minds_strange = F::guarded,
                                  .minds_outside = F::guarded && !chooses<F>,
                                  .late = !is_exact<F>,
                                  .read = read};
};

template <class F>
struct Columns : StripWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using In = StripWork<F>;
  using In::In, In::kept, In::few, In::count, In::unit_bytes, In::vectors, In::room, In::vectors_of, In::columns_of;
  static constexpr int tile_lanes = any_order<F> ? 1 : L;  // what has no order is folded into one row

  bool run() {
    fold_columns();
    return fits;
  }

  Rows<S> rows_of(int64_t unit, int64_t block, StripRoom& room) const {
    const int64_t first = block * T::block;
    return In::rows_of(unit, first, std::min<int64_t>(T::block, plan.count - first), room);
  }

  template <class G, class At>
  FW_INLINE bool finish_row(int64_t unit, At&& acc_at) const {
    const int64_t skipped = In::skipped_of(unit), before = by_parity<F, L / W> ? skipped / W : 0;  // whole vectors that are not of it
    return this->template write_row<G>(In::out_of(unit), kept.out, columns_of(unit), skipped - before * W, 0,
                                       [&](int64_t v) FW_INLINED { return acc_at(before + v); });
  }

  void fold_columns() {
    const int64_t lanes = std::min<int64_t>(tile_lanes, plan.count);
    if (blocks <= 1) {
      return divide(plan, count, unit_bytes, [&](int64_t first, int64_t last) {
        Tiles<CarefulAcc> tile(few ? 0 : std::max<int64_t>(lanes, std::bit_width(unsigned{L})) * vectors);
        StripRoom room = this->room();
        for (int64_t unit = first; unit < last; ++unit) {
          const Rows<S> rows = rows_of(unit, 0, room);
          note(guarded<F>([&]<class G>(G) FW_INLINED {
            if (few) {
              return finish_row<G>(unit, [&](int64_t v) FW_INLINED { return few_rows_vector<G, In::takes_twice_few>(rows, v * W); });
            }
            auto* lanes_of_g = reinterpret_cast<typename Terms<G>::Acc*>(tile.data);
            const int64_t width = vectors_of(unit);
            const auto* results = lanes_of_g;
            if constexpr (has_plain_parts<G>) {
              fold_rows_by_parts(rows, lanes, width, lanes_of_g);
            } else {
              results = fold_rows<G>(rows, lanes, width, this->prefetch, lanes_of_g);
            }
            return finish_row<G>(unit, [&](int64_t v) FW_INLINED { return results[v]; });
          }));
        }
      });
    }
    const Units units{count, unit_bytes, blocks, tile_lanes * vectors * static_cast<int64_t>(sizeof(CarefulAcc))};
    const bool in_chunks = !units.are_whole(plan);
    std::atomic<bool> plainly{in_chunks};  // once a chunk needed care, those after it are not tried without
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, char* tiles) {
      const int64_t width = vectors_of(unit);
      if constexpr (F::guarded) {
        if (plainly && folds_plainly(unit, first, last, reinterpret_cast<CarefulAcc*>(tiles))) return;
        plainly = false;
      }
      Tiles<Acc> plain(F::guarded ? tile_lanes * width : 0);
      Counter<C> counter{reinterpret_cast<CarefulAcc*>(tiles), tile_lanes * width};
      StripRoom room = this->room();
      for (int64_t block = first; block < last; ++block) {
        const Rows<S> rows = rows_of(unit, block, room);
        careful_tile(tile_lanes * width, plain.data, counter.next(), [&]<class G>(G, auto* tile) FW_INLINED {
          fold_block<G>(rows, tile_lanes, width, prefetch, tile);
        });
        counter.push();
      }
      counter.whole();
    };
    const auto finish = [&](int64_t unit, char* tile) {
      auto* acc = reinterpret_cast<CarefulAcc*>(tile);
      fold_lanes<C>(acc, tile_lanes, vectors_of(unit));
      note(finish_row<C>(unit, [&](int64_t v) FW_INLINED { return acc[v]; }));
    };
    const auto join_tiles = [&](int64_t unit, char* tiles, const char* parts, int64_t chunks) {
      join(tiles, parts, chunks, tile_lanes * vectors_of(unit), tile_lanes * vectors);
    };
    if constexpr (F::guarded) {
      if (!in_chunks) return fold_whole(units.tile_bytes, fold, finish);
    }
    units.fold_each(plan, fold, join_tiles, finish);
  }

  template <class G>
  static FW_OUTLINE void fold_block(const Rows<S>& rows, int64_t lanes, int64_t width, bool from_memory, typename Terms<G>::Acc* tile) {
    fold_rows_into_lanes<G>(rows, lanes, width, from_memory, tile);
  }

  // All rows of at most one block: first the lanes, then halves of them are plain as long as none of the strip needs care.
  FW_OUTLINE void fold_rows_by_parts(const Rows<S>& rows, int64_t lanes, int64_t width, CarefulAcc* tile) const {
    const Tiles<Acc> room(2 * lanes * width);
    Acc *plain = room.data, *next = plain + lanes * width;
    clear_flags();
    fold_block<F>(rows, lanes, width, prefetch, plain);
    settle(plain);
    if (spoilt<F>()) {
      fold_block<C>(rows, lanes, width, prefetch, tile);
    } else {
      for (int64_t half = L / 2; half >= 1; half /= 2) {
        if (half >= lanes) continue;
        const int64_t pairs = (lanes - half) * width;
        clear_flags();
        for (int64_t i = 0; i < pairs; ++i) next[i] = F::merge(plain[i], plain[i + half * width]);
        settle(next);
        if (spoilt<F>()) break;
        std::copy(plain + pairs, plain + half * width, next + pairs);
        std::swap(plain, next);
        lanes = half;
      }
      for (int64_t i = 0; i < lanes * width; ++i) tile[i] = F::lift(plain[i]);
    }
    fold_lanes<C>(tile, lanes, width);
  }

  // All blocks of a unit in plain arithmetic under one check; those after one that needed care are given it block by block.
  void fold_whole(int64_t tile_bytes, Units::Fold carefully, Units::Finish finish) {
    divide(plan, count, unit_bytes, [&](int64_t first, int64_t last) {
      const Room tiles(counter_depth(blocks) * tile_bytes);
      bool plain = true;
      for (int64_t unit = first; unit < last; ++unit) {
        plain = plain && folds_plainly(unit, reinterpret_cast<Acc*>(tiles.begin()));
        if (plain) continue;
        carefully(unit, 0, blocks, tiles.begin());
        finish(unit, tiles.begin());
      }
    });
  }
  FW_OUTLINE bool folds_plainly(int64_t unit, Acc* tiles) {
    const int64_t width = vectors_of(unit);
    Acc* const acc = fold_blocks(unit, 0, blocks, tiles);
    fold_lanes<F>(acc, tile_lanes, width);
    const bool fit = finish_row<F>(unit, [&](int64_t v) FW_INLINED { return acc[v]; });
    if (spoilt<F>()) return false;
    note(fit);
    return true;
  }
  // Some of them, into lanes.
  FW_OUTLINE bool folds_plainly(int64_t unit, int64_t first, int64_t last, CarefulAcc* tile) {
    const int64_t lanes = tile_lanes * vectors_of(unit);
    const Tiles<Acc> tiles(counter_depth(last - first) * lanes);
    const Acc* acc = fold_blocks(unit, first, last, tiles.data);
    settle(acc);
    if (spoilt<F>()) return false;
    for (int64_t i = 0; i < lanes; ++i) tile[i] = F::lift(acc[i]);
    return true;
  }
  Acc* fold_blocks(int64_t unit, int64_t first, int64_t last, Acc* tiles) {
    const int64_t width = vectors_of(unit);
    StripRoom room = this->room();
    clear_flags();
    Counter<F> counter{tiles, tile_lanes * width};
    for (int64_t block = first; block < last; ++block) {
      fold_block<F>(rows_of(unit, block, room), tile_lanes, width, prefetch, counter.next());
      counter.push();
    }
    return counter.whole();
  }
};

}  // namespace foldwise::FOLDWISE_ISA

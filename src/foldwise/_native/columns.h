// Columns: strips of the innermost kept axis.
#pragma once
#include "reduce_work.h"
#include "rows.h"

namespace foldwise::FOLDWISE_ISA {

// Where the rows of a strip lie, or those rows gathered.
template <class S>
struct StripRoom {
  Tiles<const char*> places;
  Tiles<S> gathered;
};

template <class F>
struct Strips : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)

  // Where rows are taken as they lie, one of results stays in the first cache.
  static constexpr int64_t tile_columns = is_exact<F> ? 32768 / size : any_order<F> ? 32768 / sizeof(A) : 2048;
  static constexpr int64_t few_rows_columns = 4096, least_columns = 128;
  static constexpr int64_t gathered_bytes = 1 << 20, gathered_ahead = 8;  // rows
  static constexpr int64_t most_columns = std::max(tile_columns, few_rows_columns);
  // In cache, rows that are few may be twice as many: so many streams are not fetched well from memory.
  static constexpr bool takes_twice_few = !is_exact<F> && !one_way<F> && !F::heavy && L >= 2 * few_rows;

  const Axis& kept;
  const bool contiguous;
  const bool few;  // rows, in registers, so that strips are wider; steps that are long are sooner done with columns side by side
  // Columns that fill vectors where they lie. Those left over are a strip of their own: a vector whose first columns are
  // in another strip, too, unless there are too few for any.
  const int64_t even;
  const int64_t whole_columns, even_strips, per_line, count;
  const int64_t unit_columns, unit_bytes;
  const int64_t most_rows, vectors;

  explicit Strips(const ReducePlan& p)
      : Work(p),
        kept(inner_kept()),
        contiguous(p.source.direct && kept.x == size),
        few(!F::heavy && contiguous && p.fold_rank == 1 && p.count <= (takes_twice_few && !prefetch ? 2 : 1) * few_rows),
        even(contiguous ? kept.size / W * W : kept.size),
        whole_columns(few ? few_rows_columns : columns_for(p)),
        even_strips((even + whole_columns - 1) / whole_columns),
        per_line(even_strips + (even < kept.size)),
        count(p.outputs / kept.size * per_line),
        unit_columns(even ? std::min(whole_columns, even) : kept.size),
        unit_bytes(p.count * unit_columns * weight()),
        most_rows(std::min<int64_t>(T::block, p.count)),
        vectors((unit_columns + W - 1) / W) {}

  // So wide that a row of a strip is worth a walk to it, and no wider than every thread has a strip, unless there are rows
  // enough to be shared out.
  int64_t columns_for(const ReducePlan& p) const {
    int64_t columns = contiguous ? tile_columns : gathered_columns(p.count);
    const int64_t lines = p.outputs / kept.size;
    const int threads = shares_rows() ? 1 : threads_for(p.count * p.outputs * weight());
    while (columns > least_columns && lines * ((even + columns - 1) / columns) < threads) columns = (columns / 2 + W - 1) / W * W;
    return columns;
  }
  bool shares_rows() const { return blocks >= 4 * thread_count(); }
  // Of rows that are gathered, as many as stay in the second cache.
  static int64_t gathered_columns(int64_t rows) {
    return std::clamp<int64_t>(gathered_bytes / size / std::clamp<int64_t>(rows, 1, T::block) / W, 2, 32) * W;
  }
  int64_t column_of(int64_t unit) const { return std::min(unit % per_line * whole_columns, even); }
  int64_t columns_of(int64_t unit) const {
    const int64_t first = column_of(unit);
    return first < even ? std::min(whole_columns, even - first) : kept.size - even;
  }
  int64_t skipped_of(int64_t unit) const {
    return contiguous && kept.size >= W && column_of(unit) == even ? W - (kept.size - even) : 0;
  }
  int64_t vectors_of(int64_t unit) const { return (columns_of(unit) + skipped_of(unit) + W - 1) / W; }
  Cursor start_of(int64_t unit) const { return kept_cursor(plan.kept_rank - 1, unit / per_line); }
  char* out_of(int64_t unit) const {
    return plan.sink.out + start_of(unit).out + column_of(unit) * kept.out;
  }

  StripRoom<S> room() const {
    return {Tiles<const char*>(contiguous && plan.fold_rank != 1 ? most_rows : 0),
            Tiles<S>(contiguous && (even == kept.size || kept.size >= W) ? 0 : most_rows * vectors * W)};
  }

  // Some rows of one strip, columns padded to whole vectors: as they lie, or gathered.
  Rows<S> rows_of(int64_t unit, int64_t first, int64_t rows, const StripRoom<S>& room) const {
    const Cursor start = start_of(unit);
    const int64_t skipped = skipped_of(unit), columns = columns_of(unit) + skipped, column = column_of(unit) - skipped;
    const char* x = start.x + column * kept.x;
    const bool as_they_lie = contiguous && columns % W == 0;
    if (as_they_lie && plan.fold_rank == 1) {
      const int64_t stride = plan.fold[0].x;
      return {x + first * stride, stride, nullptr, rows};
    }
    Cursor from = fold_cursor(x, start.mask + column * kept.mask, first);
    if (as_they_lie) {
      for (int64_t r = 0; r < rows; ++r, from.advance(1)) room.places.data[r] = from.x;
      return {nullptr, 0, room.places.data, rows};
    }
    const int64_t padded = (columns + W - 1) / W * W;
    const bool fetches = prefetch && kept.x <= 64;
    for (int64_t r = 0; r < rows; ++r, from.advance(1)) {
      S* row = room.gathered.data + r * padded;
      if (fetches && r + gathered_ahead < rows) fetch_lines(from.x + gathered_ahead * inner_fold().x, columns * kept.x, true);
      reader(row, from.x, from.mask, kept, columns);
      std::fill(row + columns, row + padded, reader.absent);
    }
    return {reinterpret_cast<const char*>(room.gathered.data), padded * size, nullptr, rows};
  }
};

template <class F>
struct Columns : Strips<F> {
  FOLDWISE_REDUCE_WORK(F)
  using In = Strips<F>;
  using In::In, In::kept, In::few, In::count, In::unit_bytes, In::vectors, In::room, In::vectors_of, In::columns_of;
  static constexpr int tile_lanes = any_order<F> ? 1 : L;  // what has no order is folded into one row

  bool run() {
    fold_columns();
    return fits;
  }

  Rows<S> rows_of(int64_t unit, int64_t block, const StripRoom<S>& room) const {
    const int64_t first = block * T::block;
    return In::rows_of(unit, first, std::min<int64_t>(T::block, plan.count - first), room);
  }

  template <class G, class At>
  FW_INLINE bool finish_row(int64_t unit, At&& acc_at) const {
    return this->template write_row<G>(In::out_of(unit), kept.out, columns_of(unit), In::skipped_of(unit), acc_at);
  }

  void fold_columns() {
    const int64_t lanes = std::min<int64_t>(tile_lanes, plan.count);
    if (blocks <= 1) {
      return divide(plan, count, unit_bytes, [&](int64_t first, int64_t last) {
        Tiles<CarefulAcc> tile(few ? 0 : std::max<int64_t>(lanes, std::bit_width(unsigned{L})) * vectors);
        const StripRoom<S> room = this->room();
        for (int64_t unit = first; unit < last; ++unit) {
          const Rows<S> rows = rows_of(unit, 0, room);
          note(guarded<F>([&]<class G>(G) FW_INLINED {
            if (few) {
              return finish_row<G>(unit, [&](int64_t v) FW_INLINED { return few_rows_vector<G, In::takes_twice_few>(rows, v * W); });
            }
            auto* lanes_of_g = reinterpret_cast<typename Terms<G>::Acc*>(tile.data);
            const int64_t width = vectors_of(unit);
            const auto* results = fold_rows<G>(rows, lanes, width, prefetch, lanes_of_g);
            return finish_row<G>(unit, [&](int64_t v) FW_INLINED { return results[v]; });
          }));
        }
      });
    }
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, char* tiles) {
      const int64_t width = vectors_of(unit);
      Tiles<Acc> plain(F::guarded ? tile_lanes * width : 0);
      Counter<C> counter{reinterpret_cast<CarefulAcc*>(tiles), tile_lanes * width};
      const StripRoom<S> room = this->room();
      for (int64_t block = first; block < last; ++block) {
        const Rows<S> rows = rows_of(unit, block, room);
        careful_tile(tile_lanes * width, plain.data, counter.next(), [&]<class G>(G, auto* tile) FW_INLINED {
          fold_block<G>(rows, width, prefetch, tile);
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
    const Units units{count, unit_bytes, blocks, tile_lanes * vectors * static_cast<int64_t>(sizeof(CarefulAcc))};
    if constexpr (F::guarded) {
      if (units.are_whole(plan)) return fold_whole(units.tile_bytes, fold, finish);
    }
    units.fold_each(plan, fold, join_tiles, finish);
  }

  template <class G>
  static FW_OUTLINE void fold_block(const Rows<S>& rows, int64_t width, bool from_memory, typename Terms<G>::Acc* tile) {
    fold_rows_into_lanes<G>(rows, tile_lanes, width, from_memory, tile);
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
    const StripRoom<S> room = this->room();
    clear_flags();
    Counter<F> counter{tiles, tile_lanes * width};
    for (int64_t block = 0; block < blocks; ++block) {
      fold_block<F>(rows_of(unit, block, room), width, prefetch, counter.next());
      counter.push();
    }
    const Acc* acc = counter.whole();
    fold_lanes<F>(counter.tiles, tile_lanes, width);
    const bool fit = finish_row<F>(unit, [&](int64_t v) FW_INLINED { return acc[v]; });
    if (spoilt<F>()) return false;
    note(fit);
    return true;
  }

  // One block into lanes, in careful accumulators; `into(G{}, tile)` does it in either arithmetic.
  template <class Into>
  static FW_INLINE void careful_tile(int64_t vectors, Acc* plain, CarefulAcc* tile, Into&& into) {
    guarded<F>([&]<class G>(G) FW_INLINED {
      if constexpr (std::is_same_v<G, C>) {
        into(G{}, tile);
      } else {
        into(G{}, plain);
        for (int64_t v = 0; v < vectors; ++v) tile[v] = F::lift(plain[v]);
        settle(tile);
      }
      return true;
    });
  }
};

}  // namespace foldwise::FOLDWISE_ISA

// Columns: strips of the innermost kept axis.
#pragma once
#include "reduce_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct Columns : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using Work::Work;

  static constexpr int64_t tile_columns = 1024, few_rows_columns = 4096;

  // Where the rows of a block lie, or those rows gathered.
  struct Place {
    Tiles<const char*> places;
    Tiles<S> gathered;
  };

  bool run() {
    fold_columns();
    return fits;
  }

  void fold_columns() {
    const Axis& kept = inner_kept();
    const bool contiguous = plan.source.direct && kept.x == size;
    const bool few = contiguous && plan.fold_rank == 1 && plan.count <= few_rows;
    const int64_t whole_columns = few ? few_rows_columns : contiguous ? tile_columns : 2 * W;
    const int64_t strips = (kept.size + whole_columns - 1) / whole_columns;
    const int64_t units = plan.outputs / kept.size * strips;
    const int64_t unit_columns = std::min(whole_columns, kept.size);
    const int64_t vectors = (unit_columns + W - 1) / W;
    const int64_t lanes = blocks > 1 ? L : std::min<int64_t>(L, plan.count);
    const int64_t most_rows = std::min<int64_t>(T::block, plan.count);
    const bool lie_whole = contiguous && unit_columns % W == 0 && kept.size % W == 0;
    const int64_t room_for_places = contiguous && plan.fold_rank != 1 ? most_rows : 0;
    const int64_t room_to_gather = lie_whole ? 0 : most_rows * vectors * W;

    // The rows of one block of one strip, columns padded to whole vectors: as they lie, or gathered.
    const auto rows_of = [&](int64_t unit, int64_t block, const Place& room) {
      const Cursor start = kept_cursor(plan.kept_rank - 1, unit / strips);
      const int64_t first = unit % strips * whole_columns;
      const int64_t columns = std::min(whole_columns, kept.size - first);
      const int64_t rows = std::min<int64_t>(T::block, plan.count - block * T::block);
      const char* x = start.x + first * kept.x;
      const bool as_they_lie = contiguous && columns % W == 0;
      if (as_they_lie && plan.fold_rank == 1) {
        const int64_t stride = plan.fold[0].x;
        return Rows<S>{x + block * T::block * stride, stride, nullptr, rows};
      }
      Cursor from = fold_cursor(x, start.mask + first * kept.mask, block * T::block);
      if (as_they_lie) {
        for (int64_t r = 0; r < rows; ++r, from.advance(1)) room.places.data[r] = from.x;
        return Rows<S>{nullptr, 0, room.places.data, rows};
      }
      const int64_t padded = (columns + W - 1) / W * W;
      for (int64_t r = 0; r < rows; ++r, from.advance(1)) {
        S* row = room.gathered.data + r * padded;
        reader(row, from.x, from.mask, kept, columns);
        std::fill(row + columns, row + padded, reader.absent);
      }
      return Rows<S>{reinterpret_cast<const char*>(room.gathered.data), padded * size, nullptr, rows};
    };
    const auto vectors_of = [&](int64_t unit) {
      return (std::min(whole_columns, kept.size - unit % strips * whole_columns) + W - 1) / W;
    };
    // Writes a row of results: W at a time while in place, through a buffer at the end or into another dtype.
    const auto finish_row = [&]<class G>(G, int64_t unit, const auto& acc_at) {
      const int64_t first = unit % strips * whole_columns;
      const int64_t columns = std::min(whole_columns, kept.size - first);
      char* out = plan.sink.out + kept_cursor(plan.kept_rank - 1, unit / strips).out + first * kept.out;
      const bool in_place = plan.sink.direct && kept.out == sizeof(A);
      bool fit = true;
      for (int64_t c = 0; c < columns; c += W) {
        const int64_t some = std::min<int64_t>(W, columns - c);
        A results[W];
        A* to = in_place && some == W ? reinterpret_cast<A*>(out) + c : results;
        fit &= finished<G, W>(acc_at(c / W), plan.finish, to);
        settle(to);
        if (to == results) scatter(out + c * kept.out, kept.out, results, some);
      }
      return fit;
    };

    if (blocks <= 1) {
      return divide(plan, units, plan.count * unit_columns * size, [&](int64_t first, int64_t last) {
        Tiles<CarefulAcc> tile(few ? 0 : lanes * vectors);
        const Place room{Tiles<const char*>(room_for_places), Tiles<S>(room_to_gather)};
        for (int64_t unit = first; unit < last; ++unit) {
          const Rows<S> rows = rows_of(unit, 0, room);
          note(guarded<F>([&]<class G>(G) FW_INLINED {
            if (few) return finish_row(G{}, unit, [&](int64_t v) FW_INLINED { return few_rows_vector<G>(rows, v * W); });
            auto* lanes_of_g = reinterpret_cast<typename Terms<G>::Acc*>(tile.data);
            const int64_t width = vectors_of(unit);
            fold_lanes<G>(lanes_of_g, fold_rows<G>(rows, lanes, width, prefetch, lanes_of_g), width);
            return finish_row(G{}, unit, [&](int64_t v) FW_INLINED { return lanes_of_g[v]; });
          }));
        }
      });
    }
    const bool from_memory = prefetch;
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, char* tiles) {
      const int64_t width = vectors_of(unit);
      Tiles<Acc> plain(F::guarded ? L * width : 0);
      Counter<C> counter{reinterpret_cast<CarefulAcc*>(tiles), L * width};
      const Place room{Tiles<const char*>(room_for_places), Tiles<S>(room_to_gather)};
      for (int64_t block = first; block < last; ++block) {
        const Rows<S> rows = rows_of(unit, block, room);
        careful_tile(L * width, plain.data, counter.next(), [&]<class G>(G, auto* tile) FW_INLINED {
          if constexpr (!G::heavy) {
            if (from_memory) return fold_rows_streaming<G>(rows, T::L, width, tile);
          }
          fold_rows_by_lane<G>(rows, T::L, width, tile);
        });
        counter.push();
      }
      counter.whole();
    };
    const auto finish = [&](int64_t unit, char* tile) {
      auto* acc = reinterpret_cast<CarefulAcc*>(tile);
      fold_lanes<C>(acc, L, vectors_of(unit));
      note(finish_row(C{}, unit, [&](int64_t v) FW_INLINED { return acc[v]; }));
    };
    const auto join_tiles = [&](char* tiles, const char* parts, int64_t chunks) { join(tiles, parts, chunks, L * vectors); };
    Units{units, plan.count * unit_columns * size, blocks, L * vectors * static_cast<int64_t>(sizeof(CarefulAcc))}
        .fold_each(plan, fold, join_tiles, finish);
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

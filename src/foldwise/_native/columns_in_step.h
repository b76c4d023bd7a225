// Columns that several reductions read: each takes the same few rows of a strip before any of them takes the next.
#pragma once
#include "columns.h"
#include "joint_loop.h"
#include "parts.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ColumnsInStep : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)

  // A step is every 32nd row of a window: whatever a fold accumulates in has as many lanes, or twice as many, so that these are
  // the same rows for all, some of a lane at a time: what it holds so far waits in a register. A chunk is as many blocks as a
  // power of two, for all of them.
  static constexpr int64_t apart = JointLoop::apart, window = 1024, chunk = 8192;
  static constexpr int64_t most_row_bytes = ColumnTaker::most_row_bytes;
  static_assert(L <= 2 * apart && chunk % T::block == 0 && T::block % window == 0);

  const Axis& kept;
  const int64_t lines, chunks, strip_lines, strips, width;  // of whole lines of cache; the last has the columns left over, too
  const int64_t most_vectors, tile_bytes;

  explicit ColumnsInStep(const ReducePlan& p)
      : Work(p),
        kept(inner_kept()),
        lines(kept.size * size / line_bytes),
        chunks((p.count + chunk - 1) / chunk),
        strip_lines(lines_for(p)),
        strips((lines + strip_lines - 1) / strip_lines),
        width(strip_lines * line_bytes / size),
        most_vectors((width + line_bytes / size) / W),
        tile_bytes(L * most_vectors * static_cast<int64_t>(sizeof(CarefulAcc))) {}

  // As many as there may be, unless threads would have no strip.
  int64_t lines_for(const ReducePlan& p) const {
    const int64_t others = std::max<int64_t>(p.outputs / kept.size * chunks, 1);
    const int64_t fewest = (lines * line_bytes + most_row_bytes - 1) / most_row_bytes;
    const int64_t asked = std::max<int64_t>({fewest, (thread_count() + others - 1) / others, 1});
    return std::max<int64_t>((lines + asked - 1) / asked, 1);
  }

  bool suits() const {
    return plan.company && strips && plan.source.direct && kept.x == size && plan.fold_rank == 1 && plan.count >= window &&
           is_from_memory(plan.count * plan.outputs * size);
  }

  // A chunk of the rows of a strip on its way through the steps.
  class Open : public ColumnTaker {
    const Rows<S> rows;
    const int64_t columns, vectors, place, company;
    const Tiles<CarefulAcc> tiles;
    const Tiles<Acc> plain;
    Counter<C> counter;
    bool spoiled = false;

   public:
    // Whoever copies what was made does so as if the strip had as many vectors as the widest.
    Open(const Rows<S>& some, int64_t of_columns, int64_t most_vectors, Dtype dtype, const Turns& turns)
        : ColumnTaker{{Way::columns, part_of<F>, std::is_floating_point_v<A>, size, dtype, true}, lanes_of, took},
          rows(some),
          columns(of_columns),
          vectors((columns + W - 1) / W),
          place(turns.place()),
          company(turns.count()),
          tiles(counter_depth((rows.count + T::block - 1) / T::block) * L * most_vectors),
          plain(F::guarded ? L * vectors : 0),
          counter{tiles.data, L * vectors} {}

    void take(int64_t step) {
      const int64_t first = first_of(step), end = end_of(step), begin = first / T::block * T::block;
      if (first >= rows.count) return;
      const int64_t ahead = rows.ahead(0, is_last(step) ? window - apart + 1 : 1);
      if (loop && end - first == window && columns % loop->columns == 0) {
        if (!follows) {
          lead(reinterpret_cast<const char*>(rows(first + step % apart)), apart * rows.stride, window / apart, columns, step, ahead);
        }
        return;
      }
      const Onward onward(ahead, columns * size, place, company);
      if constexpr (F::guarded) clear_flags();
      Acc* tile = open_tile();
      for (int64_t lane = step % apart; lane < L; lane += apart) {
        Acc* out = tile + lane * vectors;
        if (begin + lane >= rows.count) std::fill(out, out + vectors, absence<F, W>());
        else fold_lane<F>(rows, first + lane, end, first == begin, vectors, columns - W, [&](int64_t, int) { return onward; }, out);
      }
      settle(tile);
      end_step(step, noted_flags());
    }

    char* whole() { return reinterpret_cast<char*>(counter.whole()); }

   private:
    static bool is_last(int64_t step) { return step % apart + 1 == apart; }
    static int64_t first_of(int64_t step) { return step / apart * window; }
    int64_t end_of(int64_t step) const { return std::min(rows.count, first_of(step) + window); }

    static Lanes lanes_of(ColumnTaker& taker, int64_t step) {
      auto& self = static_cast<Open&>(taker);
      const auto lane = [&](int64_t number) { return reinterpret_cast<char*>(self.open_tile() + number % L * self.vectors); };
      return {{lane(step % apart), lane(step % apart + apart)}, first_of(step) % T::block > 0};
    }
    static void took(ColumnTaker& taker, int64_t step, unsigned raised) { static_cast<Open&>(taker).end_step(step, raised); }

    void end_step(int64_t step, unsigned raised) {
      if constexpr (F::guarded) spoiled |= (raised & F::flags) != 0;
      const int64_t end = end_of(step);
      if (is_last(step) && (end == rows.count || end % T::block == 0)) end_block(first_of(step) / T::block * T::block, end);
    }

    Acc* open_tile() {
      if constexpr (F::guarded) return plain.data;
      else return counter.next();
    }

    FW_OUTLINE void end_block(int64_t begin, int64_t end) {
      if constexpr (F::guarded) {
        if (spoiled) {
          const Rows<S> block{rows.first + begin * rows.stride, rows.stride, nullptr, end - begin};
          carefully<C>([&]<class G>(G) { fold_block<G>(block, counter.next()); });
        } else {
          CarefulAcc* tile = counter.next();
          for (int64_t v = 0; v < L * vectors; ++v) tile[v] = F::lift(plain.data[v]);
          settle(tile);
        }
        spoiled = false;
      }
      counter.push();
    }

    // All of its rows, a lane at a time.
    template <class G>
    void fold_block(const Rows<S>& block, typename Terms<G>::Acc* tile) const {
      for (int64_t lane = 0; lane < L; ++lane, tile += vectors) {
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t column = std::min(v * W, columns - W);
          tile[v] = absence<G, W>();
          for (int64_t row = lane; row < block.count; row += L) {
            const auto* p = block(row) + column;
            tile[v] = row == lane ? Terms<G>::load(p) : joined<G, W>(tile[v], p);
          }
        }
      }
    }
  };

  Cursor start_of(int64_t unit) const { return kept_cursor(plan.kept_rank - 1, unit / strips); }
  int64_t column_of(int64_t unit) const { return unit % strips * width; }
  int64_t columns_of(int64_t unit) const { return unit % strips + 1 < strips ? width : kept.size - column_of(unit); }
  int64_t vectors_of(int64_t unit) const { return (columns_of(unit) + W - 1) / W; }

  bool run() {
    const int64_t units = plan.outputs / kept.size * strips;
    const Room parts(chunks > 1 ? units * chunks * tile_bytes : 0);
    const auto fold_chunk = [&](int64_t task, Turns& turns) {
      const int64_t unit = task / chunks, first = task % chunks * chunk, stride = plan.fold[0].x;
      const char* x = start_of(unit).x + column_of(unit) * size + first * stride;
      const int place = turns.place();
      Open open(Rows<S>{x, stride, nullptr, std::min(chunk, plan.count - first)}, columns_of(unit), most_vectors, plan.source.dtype, turns);
      turns.take([&](int64_t step) {
        if (step == 0 && place == 0) arrange(turns.partners());
        open.take(step);
      }, &open);
      turns.leave(place, open.whole(), tile_bytes);
    };
    const auto finish = [&](int64_t unit, char* tile) {
      auto* acc = reinterpret_cast<CarefulAcc*>(tile);
      const int64_t columns = columns_of(unit), vectors = vectors_of(unit);
      fold_lanes<C>(acc, std::min<int64_t>(L, plan.count), vectors);
      note(this->template write_row<C>(plan.sink.out + start_of(unit).out + column_of(unit) * kept.out, kept.out, columns,
                                       -columns & (W - 1), [&](int64_t v) FW_INLINED { return acc[v]; }));
    };
    const int64_t windows = (std::min(chunk, plan.count) + window - 1) / window;
    plan.company->join(units * chunks, windows * apart, fold_chunk, [&](int64_t task, char* made) {
      if (chunks > 1) std::memcpy(parts.begin() + task * tile_bytes, made, tile_bytes);
      else finish(task, made);
    });
    if (chunks == 1) return fits;
    const auto join_tiles = [&](int64_t unit, char* tiles, const char* some, int64_t count) {
      join(tiles, some, count, L * vectors_of(unit), L * most_vectors);
    };
    Units{units, 0, 0, tile_bytes}.join_each(chunks, parts.begin(), join_tiles, finish);
    return fits;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

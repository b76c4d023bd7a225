// Columns that several reductions read: each takes the same few rows of a strip before any of them takes the next ones.
#pragma once
#include "columns.h"
#include "joint_loop.h"
#include "parts.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ColumnsInStep : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)

  // A step is every 32nd row of a window: whatever a fold accumulates in has as many lanes, or twice as many, so that these are the
  // same rows for all. Those of all windows of a chunk follow each other, and are whole lanes. A block is as many windows, and a chunk
  // as many blocks, as a power of two, for all of them. What a step accumulates in is to stay in the first cache.
  static constexpr int64_t apart = JointLoop::apart, window = 1024, chunk = 8192, lanes_at_once = L / apart;
  static constexpr int64_t most_row_bytes = std::min<int64_t>(ColumnTaker::most_row_bytes, 1024 * size);
  static_assert((L == apart || L == 2 * apart) && chunk % T::block == 0 && T::block % window == 0);

  const Axis& kept;
  const int64_t lines, chunks, strip_lines, strips, width;  // of whole lines of cache; the last has the columns left over, too
  const int64_t most_vectors, rows_made, bytes_made;        // of what a chunk leaves: its lanes, or all as one if it is alone

  explicit ColumnsInStep(const ReducePlan& p)
      : Work(p),
        kept(inner_kept()),
        lines(kept.size * size / line_bytes),
        chunks((p.count + chunk - 1) / chunk),
        strip_lines(lines_for(p)),
        strips((lines + strip_lines - 1) / strip_lines),
        width(strip_lines * line_bytes / size),
        most_vectors((width + line_bytes / size) / W),
        rows_made(chunks > 1 ? L : 1),
        bytes_made(rows_made * most_vectors * static_cast<int64_t>(sizeof(CarefulAcc))) {}

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

  // A chunk of the rows of a strip on its way through the steps. A lane's blocks go up their tree as they end; so do lanes, as
  // neighbours in theirs follow each other, unless they wait for those of other chunks.
  class Open : public ColumnTaker {
    const Rows<S> rows;
    const int64_t columns, vectors, windows, place, company;
    const bool alone;
    const Tiles<Acc> lane_room, block_room;
    const Tiles<CarefulAcc> made;
    Counter<F> lanes, blocks;
    bool spoiled = false;

   public:
    // Whoever copies what was made does so as if the strip had as many vectors as the widest.
    Open(const Rows<S>& some, int64_t of_columns, const ColumnsInStep& all, const Turns& turns)
        : ColumnTaker{{Way::columns, part_of<F>, std::is_floating_point_v<A>, size, all.plan.source.dtype, true}, lanes_of, took},
          rows(some),
          columns(of_columns),
          vectors((columns + W - 1) / W),
          windows(all.windows()),
          place(turns.place()),
          company(turns.count()),
          alone(all.chunks == 1),
          lane_room((alone ? counter_depth(apart) : L) * all.most_vectors),
          block_room(counter_depth(blocks_of(rows)) * lanes_at_once * vectors),
          made(F::guarded ? all.rows_made * all.most_vectors : 0),
          lanes{lane_room.data, vectors},
          blocks{block_room.data, lanes_at_once * vectors} {}

    void take(int64_t step) {
      const int64_t lane = step / windows;
      const Turn turn{lane_of(lane), step % windows * window, lane_of((lane + 1) % apart)};
      if (turn.first >= rows.count) return;
      take(turn);
      if (end_of(turn) == rows.count) end_lane(turn.lane);
    }

    // What the chunk comes to: all its lanes as one, or each.
    char* whole() {
      if constexpr (F::guarded) {
        if (spoiled) fold_carefully();
        else for (int64_t v = 0; v < (alone ? 1 : L) * vectors; ++v) made.data[v] = F::lift(lane_room.data[v]);
        settle(made.data);
        return reinterpret_cast<char*>(made.data);
      } else {
        return reinterpret_cast<char*>(lane_room.data);
      }
    }

   private:
    // With their bits turned round, they are neighbours in the tree of lanes.
    static int64_t lane_of(int64_t number) {
      int64_t lane = 0;
      for (int64_t bit = 1; bit < apart; bit *= 2) lane = 2 * lane + (number & bit ? 1 : 0);
      return lane;
    }
    static int64_t blocks_of(const Rows<S>& rows) { return (rows.count + T::block - 1) / T::block; }
    int64_t end_of(Turn turn) const { return std::min(rows.count, turn.first + window); }

    template <class Act>
    FW_INLINE void plainly(Act&& act) {
      if constexpr (F::guarded) clear_flags();
      act();
      settle(&block_room);
      if constexpr (F::guarded) spoiled |= (noted_flags() & F::flags) != 0;
    }

    void take(Turn turn) {
      const int64_t end = end_of(turn), begin = turn.first / T::block * T::block;
      const int64_t ahead = rows.ahead(turn.first + turn.lane, end < rows.count ? end + turn.lane : turn.next);
      if (loop && end - turn.first == window && columns % loop->columns == 0) {
        if (!follows) {
          lead(reinterpret_cast<const char*>(rows(turn.first + turn.lane)), apart * rows.stride, window / apart, columns, turn, ahead);
        }
        return;
      }
      const Onward onward(ahead, columns * size, place, company);
      plainly([&] {
        Acc* out = blocks.next();
        for (int64_t lane = turn.lane; lane < L; lane += apart, out += vectors) {
          if (begin + lane >= rows.count) std::fill(out, out + vectors, absence<F, W>());
          else fold_lane<F>(rows, turn.first + lane, end, turn.first == begin, vectors, columns - W, [&](int64_t, int) { return onward; }, out);
        }
      });
      end_turn(turn);
    }

    static Lanes lanes_of(ColumnTaker& taker, Turn turn) {
      auto& self = static_cast<Open&>(taker);
      Acc* next = self.blocks.next();
      return {{reinterpret_cast<char*>(next), reinterpret_cast<char*>(next + (lanes_at_once - 1) * self.vectors)}, turn.first % T::block > 0};
    }
    static void took(ColumnTaker& taker, Turn turn, unsigned raised) {
      auto& self = static_cast<Open&>(taker);
      if constexpr (F::guarded) self.spoiled |= (raised & F::flags) != 0;
      self.end_turn(turn);
    }
    void end_turn(Turn turn) {
      if (const int64_t end = end_of(turn); end == rows.count || end % T::block == 0) plainly([&] { blocks.push(); });
    }

    FW_OUTLINE void end_lane(int64_t first) {
      plainly([&] {
        Acc* whole = blocks.whole();
        if (!alone) {
          for (int64_t lane = first; lane < L; lane += apart, whole += vectors) std::copy_n(whole, vectors, lane_room.data + lane * vectors);
        } else {
          if (lanes_at_once > 1) merge_rows<F>(whole, whole + vectors, vectors);
          std::copy_n(whole, vectors, lanes.next());
          lanes.push();
        }
      });
      blocks = {block_room.data, lanes_at_once * vectors};
    }

    FW_OUTLINE void fold_carefully() {
      const Tiles<CarefulAcc> tiles(counter_depth(blocks_of(rows)) * L * vectors);
      Counter<C> careful{tiles.data, L * vectors};
      carefully<C>([&]<class G>(G) {
        for (int64_t begin = 0; begin < rows.count; begin += T::block, careful.push()) {
          fold_block<G>({rows.first + begin * rows.stride, rows.stride, nullptr, std::min<int64_t>(T::block, rows.count - begin)}, careful.next());
        }
      });
      CarefulAcc* all = careful.whole();
      if (alone) fold_lanes<C>(all, std::min<int64_t>(L, rows.count), vectors);
      std::copy_n(all, (alone ? 1 : L) * vectors, made.data);
    }

    template <class G>
    void fold_block(const Rows<S>& block, typename Terms<G>::Acc* tile) const {
      const Onward onward(block, 1, columns * size, block.ahead(0, L));
      for (int64_t lane = 0; lane < L; ++lane, tile += vectors) {
        if (lane >= block.count) std::fill(tile, tile + vectors, absence<G, W>());
        else fold_lane<G>(block, lane, block.count, true, vectors, columns - W, [&](int64_t, int) { return onward; }, tile);
      }
    }
  };

  int64_t windows() const { return (std::min(chunk, plan.count) + window - 1) / window; }
  Cursor start_of(int64_t unit) const { return kept_cursor(plan.kept_rank - 1, unit / strips); }
  int64_t column_of(int64_t unit) const { return unit % strips * width; }
  int64_t columns_of(int64_t unit) const { return unit % strips + 1 < strips ? width : kept.size - column_of(unit); }
  int64_t vectors_of(int64_t unit) const { return (columns_of(unit) + W - 1) / W; }

  bool run() {
    const int64_t units = plan.outputs / kept.size * strips;
    const Room parts(chunks > 1 ? units * chunks * bytes_made : 0);
    const auto fold_chunk = [&](int64_t task, Turns& turns) {
      const int64_t unit = task / chunks, first = task % chunks * chunk, stride = plan.fold[0].x;
      const char* x = start_of(unit).x + column_of(unit) * size + first * stride;
      const int place = turns.place();
      Open open(Rows<S>{x, stride, nullptr, std::min(chunk, plan.count - first)}, columns_of(unit), *this, turns);
      turns.take([&](int64_t step) {
        if (step == 0 && place == 0) arrange(turns.partners());
        open.take(step);
      }, &open);
      turns.leave(place, open.whole(), bytes_made);
    };
    const auto finish = [&](int64_t unit, char* row) {
      const auto* acc = reinterpret_cast<const CarefulAcc*>(row);
      note(this->template write_row<C>(plan.sink.out + start_of(unit).out + column_of(unit) * kept.out, kept.out, columns_of(unit), 0,
                                       -columns_of(unit) & (W - 1), [&](int64_t v) FW_INLINED { return acc[v]; }));
    };
    plan.company->join(units * chunks, windows() * apart, fold_chunk, [&](int64_t task, char* made) {
      if (chunks > 1) std::memcpy(parts.begin() + task * bytes_made, made, bytes_made);
      else finish(task, made);
    });
    if (chunks == 1) return fits;
    const auto join_tiles = [&](int64_t unit, char* tiles, const char* some, int64_t count) {
      join(tiles, some, count, L * vectors_of(unit), L * most_vectors);
    };
    Units{units, 0, 0, bytes_made}.join_each(chunks, parts.begin(), join_tiles, [&](int64_t unit, char* tile) {
      fold_lanes<C>(reinterpret_cast<CarefulAcc*>(tile), L, vectors_of(unit));
      finish(unit, tile);
    });
    return fits;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

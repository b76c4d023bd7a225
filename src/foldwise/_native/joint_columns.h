// A few rows side by side, at most one block, that several reductions fold into each other in one loop.
#pragma once
#include "joint_results.h"

namespace foldwise::FOLDWISE_ISA {

template <class Loop> struct JointColumns;

// As fold_rows_by_branch does it for one: rows whose numbers are equal modulo `branches` are a branch of the tree over halves.
template <class S, class... Folds>
struct JointColumns<Joint<S, Folds...>> {
  using Loop = Joint<S, Folds...>;
  static constexpr int N = Loop::N, branches = 8, levels = 3;
  static constexpr int in_turn[branches] = {0, 4, 2, 6, 1, 5, 3, 7};  // as neighbours in the tree follow each other
  static constexpr int64_t most_columns = 1024, least_columns = 128, size = sizeof(S);
  static constexpr auto folds = std::index_sequence_for<Folds...>{};

  // N columns of one fold, and what waits for its neighbour in the tree: a row for each level.
  template <class F>
  struct Columns {
    static constexpr int W = Terms<F>::W, side_by_side = N / W;
    using Acc = typename Terms<F>::Acc;
    Acc acc[side_by_side];
    FW_INLINE void join(const Acc* left, const Acc* right) {
      repeat<side_by_side>([&](int i) FW_INLINED { acc[i] = F::merge(left[i], right[i]); });
    }
  };
  template <class F>
  struct Waiting {
    Columns<F> row[levels + 1][most_columns / N];
    Waiting() {}  // nothing is set to zero
  };
  using All = std::tuple<Columns<Folds>...>;
  using EveryLevel = std::tuple<Waiting<Folds>...>;

  template <int step, std::size_t... I>
  static FW_INLINE All fold_apart(const Rows<S>& rows, int64_t lane, int64_t column, int64_t ahead, std::index_sequence<I...> each) {
    All all;
    if constexpr (step < JointLoop::apart) {
      all = fold_apart<2 * step>(rows, lane, column, ahead, each);
      if (lane + step >= rows.count) return all;
      const All others = fold_apart<2 * step>(rows, lane + step, column, ahead, each);
      (std::get<I>(all).join(std::get<I>(all).acc, std::get<I>(others).acc), ...);
    } else {
      std::tuple<typename Loop::template HeldColumns<Folds>...> held;
      const auto take = [&](int turn, int64_t row) FW_INLINED {
        const S* some = rows(row) + column;
        ask_second_for(some, ahead);
        const auto x = in_register(load<typename Loop::Shared, N>(some));
        (std::get<I>(held).take(turn, some, x), ...);
      };
      for (int64_t row = lane; row < rows.count; row += 2 * step) {
        take(0, row);
        if (row + step < rows.count) take(1, row + step);
      }
      (std::get<I>(held).join_turns(std::get<I>(all).acc), ...);
    }
    return all;
  }

  // Leaves the results in the row of the last level.
  template <std::size_t... I>
  static FW_OUTLINE void fold_strip(const Rows<S>& rows, int64_t columns, bool from_memory, EveryLevel& waiting, std::index_sequence<I...> each) {
    for (int turn = 0; turn < branches; ++turn) {
      const int branch = in_turn[turn], level = std::countr_one(unsigned(turn));
      const int64_t to_next = rows.ahead(branch, in_turn[(turn + 1) % branches]) + (turn + 1 < branches ? 0 : columns * size);
      const Onward onward(rows.count / branches, columns * size, to_next);
      for (int64_t i = 0; i < columns / N; ++i) {
        All all = fold_apart<branches>(rows, branch, i * N, from_memory ? onward(i * N * size) : 0, each);
        for (int below = 0; below < level; ++below) {
          (std::get<I>(all).join(std::get<I>(waiting).row[below][i].acc, std::get<I>(all).acc), ...);
        }
        ((std::get<I>(waiting).row[level][i] = std::get<I>(all)), ...);
      }
    }
  }

  // Strips first..last - 1, of whole N columns; what is left over of a line are its last N.
  template <std::size_t... I>
  static void fold_strips(const JointPlans& wanted, int64_t width, int64_t first, int64_t last, std::index_sequence<I...> each) {
    const ReducePlan& plan = wanted.plan;
    const Axis& kept = plan.kept[plan.kept_rank - 1];
    const int64_t even = kept.size / N * N, strips = strips_of(kept.size, width);
    const Room room(sizeof(EveryLevel));
    auto& waiting = *new (room.begin()) EveryLevel;
    for (int64_t unit = first; unit < last; ++unit) {
      int64_t column = unit % strips * width, columns = std::min(width, even - column);
      if (column >= even) column = kept.size - N, columns = N;
      const char* x = Cursor(plan.kept, plan.kept_rank - 1, plan.source.x, nullptr, unit / strips).x + column * size;
      clear_flags();
      fold_strip({x, plan.fold[0].x, nullptr, plan.count}, columns, wanted.from_memory, waiting, each);
      settle(&waiting);
      const int64_t at = unit / strips * kept.size + column;
      (finish_outputs<AsRead<Folds>>(std::get<I>(waiting).row[levels], wanted.of(I), at, columns), ...);
      fold_again<Folds...>(wanted, noted_flags(), x, at, columns);
    }
  }
  static int64_t strips_of(int64_t columns, int64_t width) { return (columns / N * N + width - 1) / width + (columns % N > 0); }

  // So wide that a row of a strip is worth a walk to it, and no wider than every thread has a strip.
  static int64_t width_for(int64_t columns, int64_t lines, int threads) {
    int64_t strips = (columns + most_columns - 1) / most_columns;
    while (lines * strips < threads && columns / strips >= 2 * least_columns) ++strips;
    return (columns / N + strips - 1) / strips * N;
  }

  static void fold(const JointPlans& wanted) {
    const ReducePlan& plan = wanted.plan;
    const int64_t columns = plan.kept[plan.kept_rank - 1].size, lines = plan.outputs / columns;
    const int64_t width = width_for(columns, lines, threads_for(plan.outputs * plan.count * size));
    share(lines * strips_of(columns, width), plan.count * width * size, [&](int64_t first, int64_t last) {
      const ReleasesVectors afterwards;
      fold_strips(wanted, width, first, last, folds);
    });
  }
};

}  // namespace foldwise::FOLDWISE_ISA

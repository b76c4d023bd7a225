// Spans of elements that several reductions fold in one loop, and rows that are no longer: into the lanes of all, and those of
// rows, some of them together, into results.
#pragma once
#include "joint_results.h"

namespace foldwise::FOLDWISE_ISA {

template <class Loop> struct JointSpans;

template <class S, class... Folds>
struct JointSpans<Joint<S, Folds...>> {
  using Loop = Joint<S, Folds...>;
  static constexpr int N = Loop::N;  // rows whose results leave together
  static constexpr int64_t block = Loop::least * int64_t{steps_per_block};  // the shortest

  // What one fold holds of a span: its blocks; and of some rows one vector each.
  template <class F>
  struct Held {
    using T = Terms<F>;
    using Acc = typename T::Acc;
    static constexpr int W = T::W, L = T::L, depth = std::bit_width(uint64_t{JointLoop::span / T::block}) + 1;
    Acc tiles[depth * L / W], rows[N];
    Counter<F> counter{tiles, L / W};

    Held() {}  // nothing is set to zero
    FW_INLINE void open() {
      counter.top = 0;
      counter.count = 0;
    }
    FW_INLINE char* lanes() { return reinterpret_cast<char*>(counter.next()); }
    // The first `count` of N elements, which go to lanes from `lane` on.
    FW_INLINE void take(const Padded<S, N>& some, int count, char* to, int64_t lane) {
      Acc* lanes = reinterpret_cast<Acc*>(to) + lane % L / W;
      repeat<N / W>([&](int i) FW_INLINED {
        lanes[i] = joined<F, W>(lanes[i], load_padded<typename F::Value, W>(some.elements + i * W, count - i * W, F::absent()));
      });
    }
    FW_INLINE void taken(int64_t at) {
      if (at % T::block == 0) counter.push();
    }
    FW_INLINE const Acc* close(int64_t count) {
      if (count % T::block) counter.push();
      return counter.whole();
    }
  };
  using All = std::tuple<Held<Folds>...>;
  static constexpr int64_t state_bytes = sizeof(All);
  static constexpr auto folds = std::index_sequence_for<Folds...>{};

  template <class Act>
  static FW_INLINE void each(All& all, Act&& act) {
    std::apply([&](auto&... held) FW_INLINED { (act(held), ...); }, all);
  }

  static void open(void* state) { new (state) All; }

  // Elements of a block, its last ones if they are no whole steps.
  template <std::size_t... I>
  static FW_INLINE void take_block(All& all, const char* p, int64_t count, char* const (&lanes)[sizeof...(I)], unsigned resumed, const Ahead& ahead,
                                   std::index_sequence<I...>) {
    const int64_t whole = count / Loop::step * Loop::step;
    Loop::fold(p, whole, lanes, resumed, ahead);
    if (whole == count) return;
    const S* rest = reinterpret_cast<const S*>(p) + whole;
    if (ahead.far) fetch_line(reinterpret_cast<const char*>(rest) + ahead.distance, false, true);
    for (int64_t lane = 0, left = count - whole; left > 0; lane += N, left -= N) {
      const int present = static_cast<int>(std::min<int64_t>(N, left));
      const Padded<S, N> padded(rest + lane, present);
      (std::get<I>(all).take(padded, present, lanes[I], lane), ...);
    }
  }

  template <std::size_t... I>
  static FW_OUTLINE void take_some(All& all, const char* p, int64_t at, int64_t count, const Ahead& ahead, std::index_sequence<I...> each_of) {
    while (count) {
      const int64_t some = std::min(count, block - at % block);
      char* const lanes[] = {std::get<I>(all).lanes()...};
      take_block(all, p, some, lanes, ((unsigned{at % Terms<Folds>::block > 0} << I) | ...), ahead, each_of);
      at += some;
      count -= some;
      p += some * static_cast<int64_t>(sizeof(S));
      each(all, [&](auto& held) FW_INLINED { held.taken(at); });
    }
  }
  static void take(void* state, const char* p, int64_t at, int64_t count, const Ahead& ahead) {
    take_some(*static_cast<All*>(state), p, at, count, ahead, folds);
  }

  static void close(void* state, int64_t count, const char* (&lanes)[parts_in_loop]) {
    int part = 0;
    each(*static_cast<All*>(state), [&](auto& held) { lanes[part++] = reinterpret_cast<const char*>(held.close(count)); });
  }

  // A row of one block, whose lanes need no counter.
  template <std::size_t... I>
  static FW_INLINE void fold_short_row(All& all, const char* p, int64_t count, int64_t row, bool far, std::index_sequence<I...> each_of) {
    char* const lanes[] = {reinterpret_cast<char*>(std::get<I>(all).tiles)...};
    take_block(all, p, count, lanes, 0, {JointLoop::distance, false, 0, far}, each_of);
    each(all, [&]<class F>(Held<F>& held) FW_INLINED { held.rows[row] = fold_lane_vectors<F>(held.tiles); });
  }

  static FW_OUTLINE void fold_row(All& all, const char* p, int64_t count, int64_t row, bool far) {
    if (count <= block) return fold_short_row(all, p, count, row, far, folds);
    each(all, [](auto& held) FW_INLINED { held.open(); });
    take_some(all, p, 0, count, {JointLoop::distance, false, 0, far}, folds);
    each(all, [&]<class F>(Held<F>& held) FW_INLINED {
      held.close(count);
      held.rows[row] = fold_lane_vectors<F>(held.tiles);
    });
  }

  template <std::size_t... I>
  static void fold_rows(const JointPlans& wanted, int64_t first, int64_t last, std::index_sequence<I...>) {
    const ReducePlan& plan = wanted.plan;
    const int64_t stride = plan.kept_rank ? plan.kept[plan.kept_rank - 1].x : 0;
    All all;
    for (Cursor at(plan.kept, plan.kept_rank, plan.source.x, nullptr, first); first < last;) {
      const int64_t rows = std::min({at.left_in_line(), last - first, int64_t{N}});
      clear_flags();
      for (int64_t row = 0; row < rows; ++row) fold_row(all, at.x + row * stride, plan.count, row, wanted.from_memory);
      settle(&all);
      (finish_rows<AsRead<Folds>>(std::get<I>(all).rows, wanted.of(I), first, rows), ...);
      fold_again<Folds...>(wanted, noted_flags(), at.x, first, rows);
      at.advance(rows);
      first += rows;
    }
  }

  static void fold(const JointPlans& wanted) {
    share(wanted.plan.outputs, wanted.plan.count * static_cast<int64_t>(sizeof(S)), [&](int64_t first, int64_t last) {
      const ReleasesVectors afterwards;
      fold_rows(wanted, first, last, folds);
    });
  }
};

}  // namespace foldwise::FOLDWISE_ISA

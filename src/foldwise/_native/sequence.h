// A sequence of any length, folded as its stretches come: blocks into lanes, lanes into the counter.
#pragma once
#include "threads.h"
#include "tree.h"

namespace foldwise::FOLDWISE_ISA {

// `k` sequences where they lie interleaved. Every stretch but the last is whole steps. Plain arithmetic runs over a span
// of blocks under one check; where it left its range, the span is walked again block by block, and a block that left it
// by itself again in careful arithmetic.
//
// A walk shows elements first..first + count - 1 once more: visit(p, some, next) for each stretch, `next` being where
// memory goes on after it.
template <class S> using Visit = Calls<void(const S* p, int64_t some, const S* next)>;
template <class S> using Walk = Calls<void(int64_t first, int64_t count, Visit<S> visit)>;

template <class F, int static_lanes>
class OpenSequence {
  using T = Terms<F>;
  using S = typename T::S;
  using C = typename F::Careful;
  using Acc = typename T::Acc;
  using CarefulAcc = typename Terms<C>::Acc;
  static constexpr int L = T::L, most_log = 3;

  const int64_t k, vectors;
  Counter<C> counter;
  Counter<F> plain;
  int span_log = most_log;
  int64_t position, span_start;
  bool left_range = false;

 public:
  static constexpr int64_t plain_tiles = F::guarded ? most_log + 1 : 0;

  // Starts with element `first`, the first of a block. `tiles` has room for the counter's, `plain_room` for plain_tiles.
  OpenSequence(int64_t interleaved, int64_t first, CarefulAcc* tiles, Acc* plain_room)
      : k(interleaved), vectors(L * k / T::W), counter{tiles, vectors}, plain{plain_room, vectors}, position(first),
        span_start(first) {}

  void take(const S* p, int64_t count, const S* next, Walk<S> walk) {
    if constexpr (F::guarded) clear_range_flags();
    while (count) {
      const int64_t some = std::min(count, T::block - position % T::block);
      const S* end = p + some * k;
      const S* then = some < count ? end : next;
      const int64_t distance = then == end ? prefetch_distance : (then - p) * static_cast<int64_t>(sizeof(S));
      fold_piece<F>(p, some, open_tile(), position % T::block > 0, distance);
      position += some;
      p = end;
      count -= some;
      if (position % T::block == 0) end_block(walk);
    }
    note_range();
  }

  // Nothing follows: the lanes of everything are in the first tile.
  void end(Walk<S> walk) {
    if (position % T::block) end_block(walk);
    if (position != span_start) end_span(walk);
    counter.whole();
  }

 private:
  Acc* open_tile() {
    if constexpr (F::guarded) return plain.next();
    else return counter.next();
  }

  void note_range() {
    if constexpr (F::guarded) left_range |= left_normal_range();
  }

  template <class G>
  FW_INLINE void fold_piece(const S* p, int64_t count, typename Terms<G>::Acc* tile, bool resume, int64_t distance) const {
    if constexpr (G::heavy) fold_into_lanes<G, 0, false>(p, count * k, L * k, tile, resume);
    else fold_into_lanes<G, static_lanes, true>(p, count * k, L * k, tile, resume, distance);
    settle(tile);
  }

  FW_INLINE void end_block(Walk<S> walk) {
    if constexpr (F::guarded) {
      plain.push();
      if (plain.count == uint64_t{1} << span_log || position % T::block) end_span(walk);
    } else {
      counter.push();
      span_start = position;
    }
  }

  FW_OUTLINE void end_span(Walk<S> walk) {
    if constexpr (F::guarded) {
      note_range();
      const Acc* whole = plain.whole();
      const int64_t first = span_start, count = position - first;
      plain.top = 0;
      plain.count = 0;
      if (!left_range) {
        CarefulAcc* tile = counter.next();
        for (int64_t v = 0; v < vectors; ++v) tile[v] = F::lift(whole[v]);
        settle(tile);
        counter.push(span_log);
      } else if (left_range = false; span_log) {
        span_log = 0;
        position = first;
        walk(first, count, [&](const S* p, int64_t some, const S* next) { take(p, some, next, walk); });
        if (position % T::block) end_block(walk);
      } else {
        bool resume = false;
        walk(first, count, [&](const S* p, int64_t some, const S*) {
          fold_piece<C>(p, some, counter.next(), resume, 0);
          resume = true;
        });
        counter.push();
      }
      span_start = position;
      clear_range_flags();
    }
  }
};

}  // namespace foldwise::FOLDWISE_ISA

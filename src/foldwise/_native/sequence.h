// A sequence of any length, folded as its stretches come: blocks into lanes, lanes into the counter.
#pragma once
#include "parts.h"
#include "reduce_work.h"
#include "sequences.h"
#include "tree.h"

namespace foldwise::FOLDWISE_ISA {

// `k` sequences where they lie interleaved. Without `static_lanes` every stretch but the last is whole steps. Plain arithmetic
// runs over a span of blocks under one check, and over longer ones later; where it left its range, the span is walked again block by block,
// and a block that left it by itself again in careful arithmetic.
template <class F, int static_lanes>
class OpenSequence {
  using T = Terms<F>;
  using S = typename T::S;
  using C = typename F::Careful;
  using Acc = typename T::Acc;
  using CarefulAcc = typename Terms<C>::Acc;
  // Spans of squares become longer as the counter has room for them, for what is made careful takes long to merge. Products would
  // only leave their range the sooner, and extremes are as soon merged.
  static constexpr int L = T::L, first_log = 3, most_log = has_plain_parts<C> || chooses<C> ? first_log : 6;
  static constexpr bool begins_anywhere = static_lanes && !any_order<F>;
  static constexpr int G = L_vectors<F>;
  static constexpr bool parted = static_lanes && by_parity<F, G>;  // lanes lie by parity until the end

  const int64_t k, vectors;
  Counter<C> counter;
  Counter<F> plain;
  int span_log = first_log;
  int64_t position, span_start;
  bool left_range = false, decided = false;  // nothing that comes changes what is decided
  const char* lead = nullptr;
  int64_t slowness = 1;
  // In the middle a step that begins in one stretch and goes on in another: what is copied there is as long as a whole one.
  S waiting[begins_anywhere ? 3 * L : 1];

 public:
  static constexpr int64_t plain_tiles = F::guarded ? most_log + 1 : 0;

  // Starts with element `first`, the first of a block. `tiles` has room for the counter's, `plain_room` for plain_tiles.
  OpenSequence(int64_t interleaved, int64_t first, CarefulAcc* tiles, Acc* plain_room)
      : k(interleaved), vectors(L * k / T::W), counter{tiles, vectors}, plain{plain_room, vectors}, position(first),
        span_start(first) {}

  // Several that take the same elements fetch what comes next together: each from a place of its own on, and so much
  // slower than it takes.
  void fetch(const char* from, int64_t slower) {
    lead = from;
    slowness = slower;
  }

  // `next` is where memory goes on afterwards, or null if nothing need be fetched. Returns whether more is wanted.
  FW_OUTLINE bool take(const S* p, int64_t count, const S* next, Walk walk) {
    if constexpr (F::guarded) clear_flags();
    while (count && !decided) {
      const int64_t some = std::min(count, T::block - position % T::block);
      const S* end = p + some * k;
      const S* then = some < count || !next ? end : next;
      constexpr int64_t size = sizeof(S);
      const bool on = (static_lanes || k == 1) && then == end;
      Ahead ahead{on ? sequence_prefetch_distance() : (then - p) * size, then != end, 0, next && !is_read_unasked<F>(then != end)};
      if (lead) {
        ahead = {lead - reinterpret_cast<const char*>(p), true, L * k * size / slowness};
        lead += some * k * size / slowness;
      }
      fold_piece(p, some, open_tile(), ahead);
      if constexpr (of_truths<F>) decided = k == 1 && decides(open_tile());
      position += some;
      p = end;
      count -= some;
      if (position % T::block == 0) end_block(walk);
    }
    note_range();
    return !decided;
  }

  // A span of elements in lanes that another made; where something was raised, they are taken again.
  void give(const Acc* lanes, int64_t count, unsigned raised, Walk walk) {
    if constexpr (F::guarded) {
      if (raised & F::flags) {
        static_assert(JointLoop::span % (T::block << first_log) == 0);
        if (span_log) span_log = first_log;  // the last of them ends where these do
        walk(position, count, [&](const char* p, int64_t some, const char*) { return take(elements(p), some, nullptr, walk); });
        return;
      }
    }
    CarefulAcc* tile = counter.next();
    for (int64_t v = 0; v < vectors; ++v) tile[v] = F::lift(lanes[v]);
    if constexpr (parted) put_by_parity<F, G>(tile);
    settle(tile);
    counter.push(std::countr_zero(uint64_t{JointLoop::span / T::block}));
    span_start = position += (count + T::block - 1) / T::block * T::block;  // no block is left open
  }

  // Nothing follows: the lanes of everything are in the first tile.
  void end(Walk walk) {
    if (position % T::block) end_block(walk);
    if (position != span_start) end_span(walk);
    CarefulAcc* whole = counter.whole();
    if constexpr (parted) put_in_order<F, G>(whole);
  }

 private:
  static const S* elements(const char* p) { return reinterpret_cast<const S*>(p); }

  Acc* open_tile() {
    if constexpr (F::guarded) return plain.next();
    else return counter.next();
  }

  // Whether one of these truths is enough, whatever the others are.
  bool decides(const Acc* lanes) const {
    Acc all = lanes[0];
    for (int64_t v = 1; v < vectors; ++v) all = F::merge(all, lanes[v]);
    return F::result(folded<F, T::W>(all))[0] != F::result(absence<F, 1>())[0];
  }

  void note_range() {
    if constexpr (F::guarded) left_range |= spoilt<F>();
  }

  // A piece of a block. A step that it shares with others waits until it is whole.
  FW_INLINE void fold_piece(const S* p, int64_t count, Acc* tile, Ahead ahead) {
    const int64_t into_block = position % T::block;
    if constexpr (begins_anywhere) {
      S* const step = waiting + L;
      if (const int64_t lane = into_block % L) {
        const int64_t some = std::min(count, L - lane);
        if (count < L) std::copy_n(p, some, step + lane);
        else copy_step(step + lane, p);
        if (lane + some < L) return;
        fold_waiting(tile, L, into_block >= L);
        p += some;
        count -= some;
      }
      if (const int64_t rest = count % L) {
        if (count < L) std::copy_n(p, rest, step);
        else copy_step(step + rest - L, p + count - L);
        count -= rest;
      }
      if (!count) return settle(tile);
    }
    fold_steps<F, !parted>(p, count, tile, into_block > 0, ahead);
    settle(tile);
  }

  static FW_INLINE void copy_step(S* to, const S* from) {
    constexpr int bytes = L * sizeof(S), vector = std::min(vector_bytes, bytes);
    repeat<bytes / vector>([&](int v) FW_INLINED {
      store_vector(reinterpret_cast<char*>(to) + v * vector, load_vector<char, vector>(reinterpret_cast<const char*>(from) + v * vector));
    });
  }

  // What waits: a step, or, when nothing follows, some of one.
  FW_OUTLINE void fold_waiting(Acc* tile, int64_t count, bool resume) {
    S* const step = waiting + L;
    std::fill_n(step + count, L - count, absent_source<S, typename T::A>(F::absent()));
    if (resume) join_vectors<F, G>(tile, step);
    else start_vectors<F, G>(tile, step);
    settle(tile);
  }

  template <class H, bool in_order>
  FW_INLINE void fold_steps(const S* p, int64_t count, typename Terms<H>::Acc* tile, bool resume, Ahead ahead) const {
    if constexpr (H::heavy) fold_into_lanes<H, 0, std::is_same_v<H, F>>(p, count * k, L * k, tile, resume, ahead);
    else if (static_lanes && !ahead.far) fold_into_lanes<H, static_lanes, false, false, in_order>(p, count * k, L * k, tile, resume);
    else fold_into_lanes<H, static_lanes, true, false, in_order>(p, count * k, L * k, tile, resume, ahead);
  }

  void lengthen_span() {
    if (span_log) span_log = std::clamp(std::countr_zero(counter.count), first_log, most_log);
  }

  FW_OUTLINE void end_block(Walk walk) {
    if constexpr (begins_anywhere) {
      if (position % L) fold_waiting(open_tile(), position % L, position % T::block >= L);
    }
    if constexpr (F::guarded) {
      plain.push();
      if (plain.count == uint64_t{1} << span_log || position % T::block) end_span(walk);
    } else {
      counter.push();
      span_start = position;
    }
  }

  FW_OUTLINE void end_span(Walk walk) {
    if constexpr (F::guarded) {
      const Acc* whole = plain.whole();
      settle(whole);
      note_range();
      const int64_t first = span_start, count = position - first;
      plain.top = 0;
      plain.count = 0;
      if (!left_range) {
        CarefulAcc* tile = counter.next();
        for (int64_t v = 0; v < vectors; ++v) tile[v] = F::lift(whole[v]);
        settle(tile);
        counter.push(span_log);
        lengthen_span();
      } else if (left_range = false; span_log) {
        span_log = 0;
        position = first;
        walk(first, count, [&](const char* p, int64_t some, const char* next) { return take(elements(p), some, elements(next), walk); });
        if (position % T::block) end_block(walk);
      } else {
        const Room block(count * k * static_cast<int64_t>(sizeof(S)));  // in one piece
        S* to = reinterpret_cast<S*>(block.begin());
        walk(first, count, [&](const char* p, int64_t some, const char*) {
          to = std::copy_n(elements(p), some * k, to);
          return true;
        });
        CarefulAcc* tile = counter.next();
        fold_steps<C, true>(elements(block.begin()), count, tile, false, {});
        if constexpr (parted) put_by_parity<F, G>(tile);
        settle(tile);
        counter.push();
      }
      span_start = position;
      clear_flags();
    }
  }
};

// What the driver of sequences is told of a fold.
template <class F, int static_lanes>
struct Sequence : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using Work::Work;
  using Open = OpenSequence<F, static_lanes>;

  // `one`: not a few that lie interleaved.
  bool run(bool one) const { return fold_sequences(plan, told, this, one, is_from_memory(plan.count * plan.outputs * size)); }

 private:
  static constexpr int64_t most_interleaved = 32;
  static constexpr Part part = static_lanes || is_judged<F> ? part_of<F> : Part::none;  // the judged ones are built for size

  static void open(void* state, int64_t k, int64_t first, char* tiles, char* plain) {
    new (state) Open(k, first, reinterpret_cast<CarefulAcc*>(tiles), reinterpret_cast<Acc*>(plain));
  }
  static bool take(void* state, const char* p, int64_t count, const char* next, Walk walk) {
    return static_cast<Open*>(state)->take(reinterpret_cast<const S*>(p), count, reinterpret_cast<const S*>(next), walk);
  }
  static void fetch(void* state, const char* from, int64_t slower) { static_cast<Open*>(state)->fetch(from, slower); }
  static void end(void* state, Walk walk) { static_cast<Open*>(state)->end(walk); }
  static void give(void* state, const char* lanes, int64_t count, unsigned raised, Walk walk) {
    if constexpr (part != Part::none) static_cast<Open*>(state)->give(reinterpret_cast<const Acc*>(lanes), count, raised, walk);
  }
  static void join_tiles(char* tiles, const char* parts, int64_t chunks, int64_t k) {
    join(tiles, parts, chunks, L * k / W, L * k / W);
  }
  static void read(const void* reduction, char* to, Cursor& from, int64_t count) {
    static_cast<const Sequence*>(reduction)->reader.sequence(reinterpret_cast<S*>(to), from, count);
  }

  static bool finish(const ReducePlan& plan, const void* reduction, char* tile, int64_t k, char* out) {
    auto* lanes = reinterpret_cast<CarefulAcc*>(tile);
    typename C::template Acc<1> ends[most_interleaved * W];
    A results[most_interleaved];
    if constexpr (static_lanes) ends[0] = folded<C, W>(fold_lane_vectors<C>(lanes));
    else fold_interleaved_lanes<C>(lanes, k, ends);
    bool fit = true;
    for (int64_t i = 0; i < k; ++i) fit &= finished<C, 1>(ends[i], plan.finish, results + i);
    const auto* self = static_cast<const Sequence*>(reduction);
    self->scatter(out, k > 1 ? self->inner_kept().out : 0, results, k);
    return fit;
  }

  // What is folded in any order has no steps.
  static constexpr int64_t step = any_order<F> && part == Part::none ? 1 : L;
  static constexpr SequenceFold told{
      size, effort, T::block, step, sizeof(Open), L / W * static_cast<int64_t>(sizeof(CarefulAcc)),
      Open::plain_tiles * (L / W) * static_cast<int64_t>(sizeof(Acc)), open, take, fetch, end, join_tiles,
      finish, read, static_lanes != 0, takes_short<F>, part, std::is_floating_point_v<A>, give};
};

}  // namespace foldwise::FOLDWISE_ISA

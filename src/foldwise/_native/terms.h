// The words of one fold, how vectors of elements join its accumulators, and what of that depends on the fold.
#pragma once
#include <algorithm>

#include "folds.h"
#include "lines.h"

namespace foldwise::FOLDWISE_ISA {

// The words of one fold.
template <class F>
struct Terms {
  using S = typename F::Source;
  using A = typename F::Value;
  static constexpr int W = native<A>;
  static constexpr int L = lanes_of<A>;
  static constexpr int block = L * steps_per_block;
  using Acc = typename F::template Acc<W>;
  static FW_INLINE Acc load(const S* p) { return F::start(foldwise::FOLDWISE_ISA::load<A, W>(p)); }
  static FW_INLINE Pack<A, W> some(const S* p, int64_t count) {
    return foldwise::FOLDWISE_ISA::load_some<A, W>(p, static_cast<int>(count), F::absent());
  }
  static FW_INLINE Acc load_some(const S* p, int64_t count) { return F::start(some(p, count)); }
};

// One more element joins an accumulator; a fold may know a shorter way than to make one of the element first.
template <class F> constexpr bool joins = requires { &F::template join<Terms<F>::W>; };
template <class F, int W>
FW_INLINE typename F::template Acc<W> joined(const typename F::template Acc<W>& a, const Pack<typename F::Value, W>& x) {
  if constexpr (joins<F>) return F::join(a, x);
  else return F::merge(a, F::start(x));
}
template <class F, int W, class S>
FW_INLINE typename F::template Acc<W> joined(const typename F::template Acc<W>& a, const S* p) {
  return joined<F, W>(a, load<typename F::Value, W>(p));
}

// Merged, and joined by one more element, by the units that multiply, where the fold says how.
template <class F, int W>
FW_INLINE typename F::template Acc<W> merged_aside(const typename F::template Acc<W>& a, const typename F::template Acc<W>& b) {
  if constexpr (requires { F::merge_aside(a, b); }) return F::merge_aside(a, b);
  else return F::merge(a, b);
}
template <class F, int W>
FW_INLINE typename F::template Acc<W> joined_aside(const typename F::template Acc<W>& a, const Pack<typename F::Value, W>& x) {
  return merged_aside<F, W>(a, F::start(x));
}

// Of two vectors of bfloats, one as they lie has those of even places, shifted up, and of odd ones, masked: together that takes less
// than to widen either half. Where G accumulators are folded so, each pair has even lanes in one and odd ones in the other.
template <class F, int G>
constexpr bool by_parity = vector_bytes >= 32 && G % 2 == 0 && std::is_same_v<typename F::Source, bfloat> &&
                           std::is_same_v<typename F::Value, float> && !F::heavy && !is_rare<F> && !has_plain_parts<F>;
template <class F, int G, class Take>
FW_INLINE void take_by_parity(const bfloat* p, Take&& take) {
  constexpr int W = Terms<F>::W;
  repeat<G / 2>([&](int pair) FW_INLINED {
    const auto [even, odd] = load_by_parity<W>(p + 2 * pair * W);
    take(2 * pair, even);
    take(2 * pair + 1, odd);
  });
}
// Where that leaves so little to do that rows of several blocks need not ask for what comes next, either.
template <class F> constexpr bool comes_by_parity = vector_bytes == 64 && by_parity<F, Terms<F>::L / Terms<F>::W>;

// G vectors of elements, as accumulators or joining them, while what comes later is asked for.
inline constexpr auto asks_nothing = [](int) {};
template <class F, int G, class Ask = decltype(asks_nothing)>
FW_INLINE void start_vectors(typename Terms<F>::Acc* acc, const typename F::Source* p, Ask&& ask = {}) {
  if constexpr (by_parity<F, G>) {
    repeat<G>(ask);
    take_by_parity<F, G>(p, [&](int g, const auto& x) FW_INLINED { acc[g] = F::start(x); });
  } else {
    repeat<G>([&](int g) FW_INLINED { ask(g), acc[g] = Terms<F>::load(p + g * Terms<F>::W); });
  }
}
template <class F, int G, class Ask = decltype(asks_nothing)>
FW_INLINE void join_vectors(typename Terms<F>::Acc* acc, const typename F::Source* p, Ask&& ask = {}) {
  constexpr int W = Terms<F>::W;
  if constexpr (by_parity<F, G>) {
    repeat<G>(ask);
    take_by_parity<F, G>(p, [&](int g, const auto& x) FW_INLINED {  // all units have something to do
      acc[g] = g % 2 ? joined_aside<F, W>(acc[g], x) : joined<F, W>(acc[g], x);
    });
  } else {
    repeat<G>([&](int g) FW_INLINED { ask(g), acc[g] = joined<F, W>(acc[g], p + g * W); });
  }
}
// Lanes as they follow each other, and by parity again; also those of another fold that goes on with these.
template <class F, int G, class Acc, class Left, class Right>
FW_INLINE void change_pairs(Acc* acc, Left&& left, Right&& right) {
  if constexpr (by_parity<F, G>) {
    repeat<G / 2>([&](int pair) FW_INLINED {
      const Acc one = acc[2 * pair], other = acc[2 * pair + 1];
      acc[2 * pair] = remade<Acc>(left, one, other);
      acc[2 * pair + 1] = remade<Acc>(right, one, other);
    });
  }
}
template <class F, int G, class Acc>
FW_INLINE void put_in_order(Acc* acc) {
  change_pairs<F, G>(acc, [](const auto& p, const auto& q) { return in_turns<0>(p, q); },
                     [](const auto& p, const auto& q) { return in_turns<1>(p, q); });
}
template <class F, int G, class Acc>
FW_INLINE void put_by_parity(Acc* acc) {
  change_pairs<F, G>(acc, [](const auto& p, const auto& q) { return every_second<0>(p, q); },
                     [](const auto& p, const auto& q) { return every_second<1>(p, q); });
}

// Floats that join doubles: Zen 4 makes four doubles of four floats in memory in one step, of eight, for which it has an instruction as
// well, in four. So there vectors take them by halves, for as long as that is worth taking accumulators apart and putting them together.
template <class F>
constexpr bool may_join_by_halves = vector_bytes == 64 && joins<F> && std::is_same_v<typename F::Source, float> &&
                                    std::is_same_v<typename F::Value, double> && !F::heavy && !is_exact<F>;
constexpr int64_t least_by_halves = 4;  // steps
template <class F, int G, class Ask, class Next>
FW_INLINE void join_by_halves(typename Terms<F>::Acc* acc, const typename F::Source* p, int64_t steps, int64_t stride, Ask&& ask, Next&& next) {
  constexpr int H = Terms<F>::W / 2;
  using Half = typename F::template Acc<H>;
  Half halves[2 * G];
  repeat<G>([&](int g) FW_INLINED {
    halves[2 * g] = remade<Half>([](const auto& a) FW_INLINED { return lower(a); }, acc[g]);
    halves[2 * g + 1] = remade<Half>([](const auto& a) FW_INLINED { return upper(a); }, acc[g]);
  });
  for (; steps > 0; --steps, p += stride, next()) {
    repeat<2 * G>([&](int h) FW_INLINED {
      if (h % 2 == 0) ask(h / 2);
      halves[h] = joined<F, H>(halves[h], p + h * H);
    });
  }
  repeat<G>([&](int g) FW_INLINED {
    acc[g] = remade<typename Terms<F>::Acc>([](const auto& a, const auto& b) FW_INLINED { return joined_halves(a, b); }, halves[2 * g],
                                            halves[2 * g + 1]);
  });
}

// A careful accumulator and the vectors of elements at(0), at(1), ...: eight at a time, where these need no care.
template <class F, class At>
FW_INLINE typename Terms<F>::Acc joined_in_turn(typename Terms<F>::Acc acc, int64_t count, At&& at) {
  using T = Terms<F>;
  constexpr int64_t most = 8;
  for (int64_t first = 0; first < count; first += most) {
    Pack<typename F::Value, T::W> x[most];
    const int some = static_cast<int>(std::min(most, count - first));
    bool moderate = true;
    for (int i = 0; i < some; ++i) {
      x[i] = load<typename F::Value, T::W>(at(first + i));
      moderate = moderate && F::is_moderate(x[i]);
    }
    if (moderate) acc = F::join_moderate(acc, x, some);
    else for (int i = 0; i < some; ++i) acc = F::merge(acc, F::start(x[i]));
  }
  return acc;
}

// G accumulators become what `step` makes of all of them together: of a fold with long steps one step of all, then the next of all.
template <class F, int G, class Step>
FW_INLINE void step_side_by_side(typename Terms<F>::Acc* acc, Step&& step) {
  const auto all = step(side_by_side<typename F::template Acc<G * Terms<F>::W>, G>(acc));
  repeat<G>([&](int g) FW_INLINED {
    acc[g] = remade<typename Terms<F>::Acc>([g](const auto& pack) {
      return Pack<typename F::Value, Terms<F>::W>{{pack.v[g]}};
    }, all);
  });
}
// A vector of elements joins each of them.
template <class F, int G>
FW_INLINE void join_side_by_side(typename Terms<F>::Acc* acc, const typename F::Source* p) {
  step_side_by_side<F, G>(acc, [p](const auto& all) FW_INLINED { return F::join(all, load<typename F::Value, G * Terms<F>::W>(p)); });
}

// Vectors that take a long step together, as there are registers for what waits between its parts.
template <class F> constexpr int abreast = F::heavy && fuses && joins<F> ? (vector_bytes == 64 ? 4 : 2) : 1;

template <class F> constexpr int L_vectors = Terms<F>::L / Terms<F>::W;

// Sums into 64 bits, which are of shorter integers, too (short_sums.h).
template <class F> constexpr bool takes_short = std::is_same_v<F, Sum<int64_t, int64_t>>;
static_assert(!Sum<int64_t, int64_t>::guarded);  // or places of elements would be walked to again

// Where a vector of elements takes one step.
template <class F>
constexpr bool takes_one_step = std::is_same_v<typename F::Source, typename F::Value> && !F::heavy &&
                                sizeof(typename Terms<F>::Acc) == vector_bytes &&
                                (std::is_floating_point_v<typename F::Value> || !may_repeat<F>);

// A Zen 4 that nobody asks for what comes next reads faster, unless that lies apart or steps are long and rows not short; and so does a
// Zen 3 where steps are that short, of rows that are not. (Rows of several blocks come so only where steps are short on Zen 4, too,
// or which are in cache: the others would be built twice.)
constexpr int64_t least_unasked = 512;
template <class F>
FW_INLINE bool is_read_unasked(bool apart, int64_t bytes = least_unasked) {
  if (vector_bytes == 64) return lines_come_in_pairs && !apart && !(F::heavy && bytes >= 2 * line_bytes);
  return takes_one_step<F> && asks_for_what_is_near() && bytes >= least_unasked;
}

// Where what is done with a vector takes no longer than to load it as it lies, or than to load and to widen it.
template <class F> constexpr bool is_soon_done = AcrossLines::pays && !F::heavy && !is_judged<F> && !of_truths<F> && !is_exact<F>;
template <class F> constexpr bool takes_lines = is_soon_done<F> && std::is_same_v<typename F::Source, typename F::Value>;
template <class F> constexpr bool is_widened = is_soon_done<F> && !takes_lines<F>;

}  // namespace foldwise::FOLDWISE_ISA

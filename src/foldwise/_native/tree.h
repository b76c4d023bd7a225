// The fixed trees. A reduction: elements into lanes, blocks into a binary counter, lanes by halves. A scan: packs by
// doubling. Whatever path an array's layout takes, it is one of these steps on the same numbers in the same order.
#pragma once
#include <algorithm>

#include "results.h"
#include "terms.h"
#include "units.h"

namespace foldwise::FOLDWISE_ISA {

// Room for so many tiles, or whatever they are.
template <class T>
struct Tiles : Room {
  T* data;
  explicit Tiles(int64_t count) : Room(count * static_cast<int64_t>(sizeof(T))), data(reinterpret_cast<T*>(begin())) {}
};

// ---- 1. elements into lanes

// Lane l of `lanes` folds elements l, l + lanes, ... left to right; a lane without an element is absent. A block may
// come in pieces: all but the last are whole steps, all but the first `resume` on the tile. Of rows there may be few steps. Lanes that
// come by parity lie in order afterwards, or as they come, of whole steps only.
template <class F, int static_lanes, bool prefetch, bool of_rows = !prefetch, bool in_order = true>
FW_INLINE void fold_into_lanes(const typename F::Source* p, int64_t count, int64_t runtime_lanes,
                               typename Terms<F>::Acc* tile, bool resume = false, Ahead ahead = {}) {
  using T = Terms<F>;
  constexpr int W = T::W;
  const int64_t lanes = static_lanes ? static_lanes : runtime_lanes;
  constexpr int most = F::heavy ? abreast<F> : static_lanes && !one_way<F> ? 8 : 4;
  constexpr int group = L_vectors<F> < most ? L_vectors<F> : most;
  const int64_t full = count / lanes;
  const int64_t rest = count % lanes;
  const bool in_turn = !static_lanes && !ahead.pace;
  const auto fold_group = [&]<int G>(std::integral_constant<int, G>, int64_t first) FW_INLINED {
    typename T::Acc acc[G];
    int64_t step = 0;
    const char* soon = reinterpret_cast<const char*>(p + (in_turn ? first * full : first) * W) + (prefetch ? ahead.distance : cached_distance);
    const int64_t pace = ahead.pace ? ahead.pace : (in_turn ? G * W : lanes) * static_cast<int64_t>(sizeof(*p));
    constexpr int bytes = W * static_cast<int>(sizeof(*p));
    const int64_t second = lines_come_in_pairs && !(ahead.apart || in_turn) ? -line_bytes : 0;  // once, not at each line
    const bool asks_cache = static_lanes && !prefetch && is_widened<F> && asks_in_cache();
    const auto fetch = [&](int g) FW_INLINED {
      if (asks_cache && g * bytes % 64 == 0) __builtin_prefetch(soon + g * bytes, 0, 3);
      if (!prefetch || g * bytes % 64 || g * bytes >= pace) return;
      constexpr bool paced = static_lanes && bytes >= 32;  // else there is more to do with a line
      const char* line = soon + g * bytes + (g * bytes & 64 ? second : 0);
      fetch_line<paced, (static_lanes > L_vectors<F> * W), !static_lanes>(line, false, true);
    };
    // Where every line is asked for as it comes, nothing need be asked of it.
    const bool every_line = static_lanes && prefetch && lines_come_first() && !ahead.pace;
    const auto fetch_every = [&](int g) FW_INLINED {
      if (prefetch && g * bytes % 64 == 0) __builtin_prefetch(soon + g * bytes, 0, 3);
    };
    if (resume || !full) repeat<G>([&](int g) FW_INLINED { acc[g] = resume ? tile[first + g] : absence<F, W>(); });
    if constexpr (static_lanes && !prefetch && takes_lines<F>) {
      if (full > 1 && AcrossLines::suits(p)) {
        AcrossLines vectors(p);
        for (; step < full; ++step) {
          vectors.begin(p + step * lanes + first * W);
          if (step || resume) repeat<G>([&](int g) FW_INLINED { acc[g] = joined<F, W>(acc[g], vectors.next<typename F::Value>()); });
          else repeat<G>([&](int g) FW_INLINED { acc[g] = F::start(vectors.next<typename F::Value>()); });
        }
      }
    }
    // A few steps are done as soon with vectors that are widened, and rows that take no more lose a fifth by a jump.
    constexpr int64_t most_widened = of_rows ? 2 : 0;
    constexpr bool widens = !by_parity<F, G> || most_widened > 0;
    if constexpr (by_parity<F, G>) {
      const auto fold_parted = [&](auto&& ask) FW_INLINED {
        if (in_order && resume) put_by_parity<F, G>(acc);
        for (; step < full; ++step) {
          const auto* row = p + step * lanes + first * W;
          if (step || resume) join_vectors<F, G>(acc, row, ask);
          else start_vectors<F, G>(acc, row, ask);
          soon += pace;
        }
        if (in_order) put_in_order<F, G>(acc);
      };
      if (__builtin_expect(full > most_widened, !of_rows)) every_line ? fold_parted(fetch_every) : fold_parted(fetch);
    }
    if (widens && full && !resume && step == 0) {
      const typename F::Source* row = p + first * W;
      repeat<G>([&](int g) FW_INLINED { fetch(g), acc[g] = T::load(row + g * W); });
      soon += pace;
      step = 1;
    }
    if constexpr (has_plain_parts<F>) {
      const auto* row = p + step * lanes + first * W;
      repeat<G>([&](int g) FW_INLINED {
        acc[g] = joined_in_turn<F>(acc[g], full - step, [=](int64_t i) FW_INLINED { return row + i * lanes + g * W; });
      });
      step = full;
    }
    const auto fold_steps = [&](auto&& ask) FW_INLINED {
      if constexpr (static_lanes && may_join_by_halves<F>) {
        if (zen4 && full - step >= least_by_halves) {
          join_by_halves<F, G>(acc, p + step * lanes + first * W, full - step, lanes, ask, [&]() FW_INLINED { soon += pace; });
          step = full;
        }
      }
      for (; step < full; ++step) {
        const typename F::Source* row = p + step * lanes + first * W;
        if constexpr (F::heavy && G > 1) {
          repeat<G>(ask);
          join_side_by_side<F, G>(acc, row);
        } else {
          repeat<G>([&](int g) FW_INLINED { ask(g), acc[g] = joined<F, W>(acc[g], row + g * W); });
        }
        soon += pace;
      }
    };
    if constexpr (widens) every_line ? fold_steps(fetch_every) : fold_steps(fetch);
    if (rest) {
      const typename F::Source* row = p + full * lanes + first * W;
      repeat<G>([&](int g) FW_INLINED {
        const int64_t left = rest - (first + g) * W;
        if (left >= W) acc[g] = joined<F, W>(acc[g], row + g * W);
        else if (static_lanes && may_repeat<F> && left > 0 && count >= W) acc[g] = joined<F, W>(acc[g], p + count - W);
        else if (left > 0) acc[g] = joined<F, W>(acc[g], T::some(row + g * W, left));
      });
    }
    repeat<G>([&](int g) FW_INLINED { tile[first + g] = acc[g]; });
  };
  int64_t v = 0;
  for (; v + group <= lanes / W; v += group) fold_group(std::integral_constant<int, group>{}, v);
  if constexpr (!static_lanes && group > 1) {
    for (; v < lanes / W; ++v) fold_group(std::integral_constant<int, 1>{}, v);
  }
}

// A merge in a loop: of a fold that is called for single ones, a part of that loop, where it is not too long for that.
template <class F, int N>
FW_INLINE typename F::template Acc<N> merged(const typename F::template Acc<N>& a, const typename F::template Acc<N>& b) {
  if constexpr (fuses && requires { F::merge_inlined(a, b); }) return F::merge_inlined(a, b);
  else return F::merge(a, b);
}
template <class F>
FW_INLINE void merge_rows(typename Terms<F>::Acc* left, const typename Terms<F>::Acc* right, int64_t vectors) {
  constexpr int G = abreast<F>;
  int64_t v = 0;
  if constexpr (G > 1) {
    for (; v + G <= vectors; v += G) {
      step_side_by_side<F, G>(left + v, [&](const auto& all) FW_INLINED {
        return F::merge_inlined(all, side_by_side<std::remove_cvref_t<decltype(all)>, G>(right + v));
      });
    }
  }
  for (; v < vectors; ++v) left[v] = merged<F, Terms<F>::W>(left[v], right[v]);
}

// ---- 2. blocks into a binary counter

// Equal-sized neighbours merge as they complete, the left one's elements first; what is left merges from the right.
template <class F>
struct Counter {
  using Acc = typename Terms<F>::Acc;
  Acc* tiles;    // room for counter_depth(blocks) tiles
  int64_t size;  // vectors in a tile
  int top = 0;
  uint64_t count = 0;

  Acc* next() { return tiles + top * size; }
  void merge_top() {
    Acc* right = tiles + --top * size;
    Acc* left = right - size;
    merge_rows<F>(left, right, size);
  }
  // What `next` holds now is 2^log blocks; a shorter last one may be said to be as long.
  void push(int log = 0) {
    ++top;
    for (uint64_t done = count >> log; done & 1; done >>= 1) merge_top();
    count += uint64_t{1} << log;
  }
  Acc* whole() {
    while (top > 1) merge_top();
    return tiles;
  }
};

// ---- 3. lanes by halves

// A tile of `lanes` x `width` elements, row by row: afterwards row 0 holds the fold of the first `present` rows.
template <class F>
void fold_lanes(typename Terms<F>::Acc* tile, int64_t present, int64_t width_vectors) {
  for (int64_t half = Terms<F>::L / 2; half >= 1; half /= 2) {
    for (int64_t lane = 0; lane < half && lane + half < present; ++lane) {
      merge_rows<F>(tile + lane * width_vectors, tile + (lane + half) * width_vectors, width_vectors);
    }
    if (half < present) present = half;
  }
}

// One sequence: its L lanes lie in L / W vectors.
template <class F, int vectors = L_vectors<F>>
FW_STEP typename Terms<F>::Acc fold_lane_vectors(typename Terms<F>::Acc* tile) {
  if constexpr (F::heavy) {
    for (int half = vectors / 2; half >= 1; half /= 2) merge_rows<F>(tile, tile + half, half);
    return tile[0];
  } else if constexpr (vectors == 1) {
    return tile[0];
  } else {
    repeat<vectors / 2>([&](int v) FW_INLINED { tile[v] = F::merge(tile[v], tile[v + vectors / 2]); });
    return fold_lane_vectors<F, vectors / 2>(tile);
  }
}

// K interleaved sequences, L * K elements in a row: vectors while they fit, single elements at the end.
template <class F>
void fold_interleaved_lanes(typename Terms<F>::Acc* tile, int64_t k, typename F::template Acc<1>* out) {
  constexpr int W = Terms<F>::W;
  int64_t half = Terms<F>::L / 2;
  for (; half >= 1 && half * k % W == 0; half /= 2) {
    merge_rows<F>(tile, tile + half * k / W, half * k / W);
  }
  const int64_t left = 2 * half * k;
  if (half == 0) {
    for (int64_t i = 0; i < k; ++i) out[i] = element<F, W>(tile[i / W], static_cast<int>(i % W));
    return;
  }
  for (int64_t i = 0; i < left; ++i) out[i] = element<F, W>(tile[i / W], static_cast<int>(i % W));
  for (; half >= 1; half /= 2) {
    for (int64_t i = 0; i < half * k; ++i) out[i] = F::merge(out[i], out[i + half * k]);
  }
}

// W sequences that each lie in one vector: element i of the result is the fold of sequence i.
template <class F, int G = Terms<F>::W>
FW_STEP typename Terms<F>::Acc fold_across(typename Terms<F>::Acc* rows) {
  using Acc = typename Terms<F>::Acc;
  if constexpr (G == 1) {
    return rows[0];
  } else {
    const auto merge = [&](int i) FW_INLINED {
      const Acc a = rows[2 * i], b = rows[2 * i + 1];
      rows[i] = merged<F, Terms<F>::W>(remade<Acc>([](const auto& p, const auto& q) { return halves<G, 0>(p, q); }, a, b),
                                       remade<Acc>([](const auto& p, const auto& q) { return halves<G, 1>(p, q); }, a, b));
    };
    if constexpr (F::heavy) {
      for (int i = 0; i < G / 2; ++i) merge(i);
    } else {
      repeat<G / 2>(merge);
    }
    return fold_across<F, G / 2>(rows);
  }
}

// ---- a scan: the elements of a pack by doubling

constexpr int pack_size = 8;

template <class G, int N> using AccOf = typename G::template Acc<N>;

// Lines of bfloat16 gain nothing by the units that multiply, or lose.
template <class G> constexpr bool doubles_aside = !chooses<G> && !std::is_same_v<typename G::Source, bfloat>;

template <class G, int H, int N>
FW_INLINE AccOf<G, N> doubled(const AccOf<G, N>& a) {
  const auto left = [](const auto& p, const auto& elsewhere) { return carried_up<H>(p, elsewhere); };
  const auto filled = [&]() FW_INLINED {
    if constexpr (chooses<G>) return a;  // with itself it stays as it is
    else return absence<G, N>();
  };
  const auto before = remade<AccOf<G, N>>(left, a, filled());
  if constexpr (doubles_aside<G>) return merged_aside<G, N>(before, a);
  else return G::merge(before, a);
}

// Element i of every pack of so many, or of as many as there are, becomes the fold of those before it and itself.
template <class G, int N, int H = 1, int size = pack_size>
FW_INLINE AccOf<G, N> prefix_of_packs(const AccOf<G, N>& a) {
  if constexpr (H == std::min(N, size)) return a;
  else return prefix_of_packs<G, N, 2 * H, size>(doubled<G, H, N>(a));
}

// The last of each of eight packs: neighbours merge, then pairs, then fours.
template <class G, int left = pack_size>
FW_STEP AccOf<G, 8> lasts_of_packs(AccOf<G, 8>* packs) {
  const auto even = [](const auto& p, const auto& q) { return every_second<0>(p, q); };
  const auto odd = [](const auto& p, const auto& q) { return every_second<1>(p, q); };
  repeat<left / 2>([&](int i) FW_INLINED {
    const AccOf<G, 8> a = packs[2 * i], b = packs[2 * i + 1];
    packs[i] = G::merge(remade<AccOf<G, 8>>(even, a, b), remade<AccOf<G, 8>>(odd, a, b));
  });
  if constexpr (left > 2) return lasts_of_packs<G, left / 2>(packs);
  else return packs[0];
}

// The same for some rows of N columns.
template <class G, int N, int size, int half = 1>
FW_INLINE void prefix_of_rows(AccOf<G, N>* rows, int64_t present = size) {
  repeat<size>([&](int i) FW_INLINED {
    if (i & half && i < present) rows[i] = merged_aside<G, N>(rows[i / (2 * half) * 2 * half + half - 1], rows[i]);
  });
  if constexpr (2 * half < size) prefix_of_rows<G, N, size, 2 * half>(rows, present);
}

template <class G, int i, int N>
FW_INLINE AccOf<G, N> everywhere(const AccOf<G, N>& a) {
  return remade<AccOf<G, N>>([](const auto& p) { return splat<std::decay_t<decltype(p[0])>, N>(p[i]); }, a);
}

// Packs one after the other, placed on what their segment holds so far, which then holds them too.
template <class G, int N>
FW_INLINE AccOf<G, N> placed(const AccOf<G, N>& prefixes, AccOf<G, N>& so_far) {
  const auto merge = [](const auto& a, const auto& b) FW_INLINED {  // of logarithms it is too long for this loop
    if constexpr (has_plain_parts<G>) return merged<G, N>(a, b);
    else return G::merge(a, b);
  };
  if constexpr (N <= pack_size || regroups<G>) {
    const AccOf<G, N> local = merge(so_far, prefixes);
    so_far = merge(so_far, everywhere<G, N - 1, N>(prefixes));
    return local;
  } else {
    static_assert(N == 2 * pack_size);
    const AccOf<G, N> between = merge(so_far, everywhere<G, pack_size - 1, N>(prefixes));
    const auto joined = [](const auto& p, const auto& q) { return halves_of(p, q); };
    const AccOf<G, N> local = merge(remade<AccOf<G, N>>(joined, so_far, between), prefixes);
    so_far = merge(between, everywhere<G, N - 1, N>(prefixes));
    return local;
  }
}

// Wherever they lie.
template <class Out>
void make_canonical(Out* results, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Out value;
    std::memcpy(&value, results + i, sizeof value);
    if (!is_nan(value)) continue;
    value = canonical_nan<Out>();
    std::memcpy(results + i, &value, sizeof value);
  }
}

// A NaN stays in every prefix after it, so a stretch of results has one only if its last does; then all are looked at.
template <class A, class Out>
bool canonical_from_here(Out* results, int64_t count, A last) {
  if (last == last) [[likely]] return false;
  make_canonical(results, count);
  return true;
}

// A piece of work in careful arithmetic: hardly more than the calls of it, hence built for size.
template <class Careful, class Work>
FW_RARELY auto carefully(Work&& work) {
  return work(Careful{});
}

// Whether plain arithmetic did what it is not good for.
template <class F>
FW_INLINE bool spoilt() {
  if constexpr (F::guarded) return raised_flags(F::flags);
  else return false;
}

// Runs a piece of work in plain arithmetic and, where that was not enough, again in careful arithmetic.
// `work` takes the fold to use; its results must be in memory when it returns.
template <class F, class Work>
FW_INLINE bool guarded(Work&& work) {
  if constexpr (F::guarded) {
    clear_flags();
    const bool fits = work(F{});
    if (!spoilt<F>()) return fits;
    return carefully<typename F::Careful>(work);
  } else {
    return work(F{});
  }
}

}  // namespace foldwise::FOLDWISE_ISA

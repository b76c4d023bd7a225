// Rows that lie side by side, folded into each other: columns.
#pragma once
#include <array>
#include <bit>

#include "tree.h"

namespace foldwise::FOLDWISE_ISA {

class Strips;
struct RowPlaces;

// So many rows are read side by side at most.
constexpr int most_side_by_side = 8;

// Rows of a strip that do not lie as they are read: they are gathered when they are, each into the place of one of those that are
// read side by side with it. So there is room for wide ones in the second cache.
struct Gathering {
  const Strips* strips = nullptr;
  const char *x = nullptr, *mask = nullptr;
  int64_t first = 0, columns = 0;
  char* to = nullptr;

  // The next one comes `apart` rows later.
  const char* bring(int64_t row, int place, int64_t apart) const;
  // All rows of a lane, where a fold goes back to them: as if those of the other lanes lay between them.
  RowPlaces lane(int64_t lane, int64_t lanes, int64_t count, char* room) const;
  int64_t lane_bytes(int64_t lanes, int64_t count) const;

 private:
  int64_t row_bytes() const;
  void gather(int64_t row, char* gathered, int64_t apart) const;
};

// Where the rows of a block lie: evenly spaced, each at a place of its own, or nowhere yet.
struct RowPlaces {
  const char* first;
  int64_t stride;
  const char* const* places;
  int64_t count;
  const Gathering* gathering = nullptr;

  // How far from a row lies one that is read later, in bytes, where they are evenly spaced.
  FW_INLINE int64_t ahead(int64_t row, int64_t later) const { return (later - row) * stride; }
};
template <class S>
struct Rows : RowPlaces {
  FW_INLINE const S* operator()(int64_t row) const {
    return reinterpret_cast<const S*>(places ? places[row] : first + row * stride);
  }
  // As one of those that are read side by side.
  FW_INLINE const S* operator()(int64_t row, int place, int64_t apart) const {
    return gathering ? reinterpret_cast<const S*>(gathering->bring(row, place, apart)) : (*this)(row);
  }
};

// What is read soon where some rows are read side by side: what lies further on in them; towards their ends, and from short ones,
// what the rows begin with that are read next.
struct Onward {
  int64_t near, next, turn, span;

  // `to_next`: from each of the rows to the one that comes next in its place. Zen 5 wants to be asked for long ones twice as early,
  // but for those that are few.
  FW_INLINE Onward(int64_t side_by_side, int64_t row_bytes, int64_t to_next, bool early = false)
      : near(prefetch_distance / side_by_side), span(row_bytes) {
    if (row_bytes < 4 * near) near = row_bytes;
    else if (early && lines_come_first()) near *= 2;
    next = near - row_bytes + to_next;
    turn = row_bytes - near;
  }
  template <class S>
  FW_INLINE Onward(const Rows<S>& rows, int64_t side_by_side, int64_t row_bytes, int64_t to_next, bool early = false)
      : Onward(side_by_side, row_bytes, to_next, early) {
    if (rows.places) near = next = stream_distance;
  }
  // Where those come next that lie behind them. Zen 4 reads the faster what was asked for some turns ago.
  template <class S>
  static FW_INLINE Onward in_order(const Rows<S>& rows, int64_t side_by_side, int64_t row_bytes) {
    constexpr int64_t least_ahead = 12 << 10;
    const int64_t to_next = rows.ahead(0, side_by_side);
    Onward onward(rows, side_by_side, row_bytes, to_next, true);
    if (zen4 && !rows.places) onward.near = onward.next = std::max<int64_t>(1, least_ahead / (side_by_side * row_bytes)) * to_next;
    return onward;
  }
  // Only a part of the rows that come next, whose other parts are fetched by others: one of `company`, at `place`.
  Onward(int64_t to_next, int64_t row_bytes, int64_t place, int64_t company)
      : near(0), next(to_next), turn(place * row_bytes / company), span((row_bytes + company - 1) / company) {}

  FW_INLINE int64_t operator()(int64_t done) const {
    return static_cast<uint64_t>(done - turn) < static_cast<uint64_t>(span) ? next : near;
  }
};

// Row r goes to lane r mod L, `width` native vectors of columns wide: a row of the tile for each lane. From a cache, where there
// are blocks of rows to be joined lane by lane, or too little for branches, a lane at a time stays in registers.
template <class F, int group>
FW_INLINE void fold_rows_by_lane(const Rows<typename F::Source>& rows, int64_t first, int64_t last, int64_t width,
                                 typename Terms<F>::Acc* tile) {
  using T = Terms<F>;
  constexpr int W = T::W;
  for (int64_t lane = first; lane < last; ++lane) {
    typename T::Acc* out = tile + lane * width;
    if (lane >= rows.count) {
      for (int64_t v = 0; v < width; ++v) out[v] = absence<F, W>();
      continue;
    }
    const auto fold_group = [&]<int G>(std::integral_constant<int, G>, int64_t v) FW_INLINED {
      typename T::Acc acc[G];
      const typename F::Source* p = rows(lane) + v * W;
      start_vectors<F, G>(acc, p);
      if constexpr (has_plain_parts<F>) {
        repeat<G>([&](int g) FW_INLINED {
          acc[g] = joined_in_turn<F>(acc[g], (rows.count - 1 - lane) / T::L,
                                     [&](int64_t i) FW_INLINED { return rows(lane + (i + 1) * T::L) + (v + g) * W; });
        });
      } else {
        for (int64_t row = lane + T::L; row < rows.count; row += T::L) {
          join_vectors<F, G>(acc, rows(row) + v * W);
        }
      }
      put_in_order<F, G>(acc);
      repeat<G>([&](int g) FW_INLINED { out[v + g] = acc[g]; });
    };
    int64_t v = 0;
    for (; v + group <= width; v += group) fold_group(std::integral_constant<int, group>{}, v);
    if constexpr (group > 1) {
      for (; v < width; ++v) fold_group(std::integral_constant<int, 1>{}, v);
    }
  }
}

// R rows at a time, so far apart, each a stream of its own. The last of `width` vectors begins at column `last`, be it a part of
// the one before it.
template <class F, int R>
FW_OUTLINE void fold_streams(const Rows<typename F::Source>& rows, int64_t row, int64_t apart, bool fresh, int64_t width, int64_t last,
                             const Onward& onward, typename Terms<F>::Acc* out) {
  using T = Terms<F>;
  using S = typename F::Source;
  constexpr int W = T::W;
  const S* p[R];
  for (int r = 0; r < R; ++r) p[r] = rows(row + r * apart, r, apart);
  for (int64_t v = 0; v < width; ++v) {
    const int64_t column = std::min(v * W, last), ahead = onward(column * int64_t{sizeof(S)});
    const auto next = [&](int r) FW_INLINED {
      const S* here = p[r] + column;
      ask_for(here, ahead);
      return here;
    };
    typename T::Acc acc = fresh ? T::load(next(0)) : joined<F, W>(out[v], next(0));
    if constexpr (F::heavy) {
      for (int r = 1; r < R; ++r) acc = joined<F, W>(acc, next(r));
    } else if constexpr (R > 1) {
      repeat<R - 1>([&](int r) FW_INLINED { acc = joined<F, W>(acc, next(r + 1)); });
    }
    out[v] = acc;
  }
}

// Rows row, row + L, ... before `end` into their lane; `onward` knows what is read after so many rows from one of them on.
template <class F, class OnwardOf>
FW_INLINE void fold_lane(const Rows<typename F::Source>& rows, int64_t row, int64_t end, bool fresh, int64_t width, int64_t last,
                         OnwardOf&& onward, typename Terms<F>::Acc* out) {
  constexpr int L = Terms<F>::L;
  const auto fold = [&]<int R>(std::integral_constant<int, R>) FW_INLINED {
    fold_streams<F, R>(rows, row, L, fresh, width, last, onward(row, R), out);
    row += R * L;
    fresh = false;
  };
  while (row + (most_side_by_side - 1) * L < end) fold(std::integral_constant<int, most_side_by_side>{});
  while (row + L < end) fold(std::integral_constant<int, 2>{});
  if (row < end) fold(std::integral_constant<int, 1>{});
}

// From memory, the lane waits in the tile between eight rows and the next eight, which are on their way into the second cache.
template <class F>
FW_INLINE void fold_rows_streaming(const Rows<typename F::Source>& rows, int64_t lanes, int64_t width,
                                   typename Terms<F>::Acc* tile) {
  using T = Terms<F>;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    typename T::Acc* out = tile + lane * width;
    if (lane >= rows.count) {
      std::fill(out, out + width, absence<F, T::W>());
      continue;
    }
    const auto onward = [&](int64_t row, int side_by_side) {
      const int64_t later = row + side_by_side * T::L, next = later < rows.count ? later : lane + 1 < lanes ? lane + 1 : rows.count;
      return Onward(rows, side_by_side, width * T::W * int64_t{sizeof(typename F::Source)}, rows.ahead(row, next), true);
    };
    fold_lane<F>(rows, lane, rows.count, true, width, (width - 1) * T::W, onward, out);
  }
}

// Row after row into one, as they lie in memory.
template <class F>
FW_INLINE void fold_rows_in_order(const Rows<typename F::Source>& rows, int64_t width, typename Terms<F>::Acc* out) {
  using T = Terms<F>;
  constexpr int64_t vector_bytes = T::W * int64_t{sizeof(typename F::Source)};
  int64_t row = 0;
  const auto fold = [&]<int R>(std::integral_constant<int, R>) FW_INLINED {
    const Onward onward = Onward::in_order(rows, R, width * vector_bytes);
    fold_streams<F, R>(rows, row, 1, row == 0, width, (width - 1) * T::W, onward, out);
    row += R;
  };
  while (row + 4 <= rows.count) fold(std::integral_constant<int, 4>{});
  while (row < rows.count) fold(std::integral_constant<int, 1>{});
}

// As suits the fold, and where the rows are: in cache `narrow` ones, if it says so.
template <class F, bool narrow = false>
FW_INLINE void fold_rows_into_lanes(const Rows<typename F::Source>& rows, int64_t lanes, int64_t width, bool from_memory,
                                    typename Terms<F>::Acc* tile) {
  if constexpr (any_order<F>) {
    fold_rows_in_order<F>(rows, width, tile);
  } else {
    constexpr int group = narrow || F::heavy ? 1 : 4;
    if constexpr (!is_rare<F>) {
      if (from_memory) return fold_rows_streaming<F>(rows, lanes, width, tile);
      fold_rows_by_lane<F, group>(rows, 0, lanes, width, tile);
    } else {
      constexpr int L = Terms<F>::L;
      const Gathering* const late = rows.gathering;
      const Tiles<char> room(late ? late->lane_bytes(L, rows.count) : 0);
      for (int64_t lane = 0, some = late ? 1 : lanes; lane < lanes; lane += some) {
        const Rows<typename F::Source> here{late ? late->lane(lane, L, rows.count, room.data) : static_cast<const RowPlaces&>(rows)};
        fold_rows_by_lane<F, group>(here, lane, lane + some, width, tile);
      }
    }
  }
}

// Lanes l, l + step, l + 2 step, ... of a few vectors of columns: each lane in a register, joined by halves.
template <class F, int G, int step>
FW_INLINE void fold_lanes_apart(const Rows<typename F::Source>& rows, int64_t lane, int64_t column, int64_t ahead,
                                typename Terms<F>::Acc* acc) {
  using T = Terms<F>;
  constexpr int W = T::W;
  if constexpr (step == T::L) {
    const auto* here = rows(lane) + column;
    const auto ask = [&](int g) FW_INLINED { if (ahead) ask_for(here + g * W, ahead); };
    start_vectors<F, G>(acc, here, ask);
    for (int64_t row = lane + step; row < rows.count; row += step) {
      here = rows(row) + column;
      join_vectors<F, G>(acc, here, ask);
    }
  } else {
    fold_lanes_apart<F, G, 2 * step>(rows, lane, column, ahead, acc);
    if (lane + step >= rows.count) return;
    typename T::Acc others[G];
    fold_lanes_apart<F, G, 2 * step>(rows, lane + step, column, ahead, others);
    repeat<G>([&](int g) FW_INLINED { acc[g] = F::merge(acc[g], others[g]); });
  }
}

// At most a block of rows, `width` vectors wide: lanes whose numbers are equal modulo `branches` are a branch of the tree over
// halves. Branches follow each other as neighbours in the tree do, so that what waits for its neighbour is still in the first
// cache: a row of the tile for each level. Returns the row of results.
template <class F, int branches, int group>
FW_INLINE const typename Terms<F>::Acc* fold_rows_by_branch(const Rows<typename F::Source>& rows, int64_t width,
                                                            bool from_memory, typename Terms<F>::Acc* tile) {
  using T = Terms<F>;
  constexpr int most_levels = std::bit_width(unsigned{branches}) - 1;
  constexpr int64_t vector_bytes = T::W * int64_t{sizeof(typename F::Source)};
  constexpr auto in_turn = [] {
    std::array<int, branches> order{};
    for (int half = branches / 2, done = 1; half >= 1; half /= 2, done *= 2) {
      for (int turn = 0; turn < done; ++turn) order[done + turn] = order[turn] + half;
    }
    return order;
  }();
  const int levels = std::min<int>(most_levels, std::bit_width(uint64_t(rows.count - 1)));
  const int turns = 1 << levels, unused = most_levels - levels;  // fewer rows than branches are a smaller tree
  typename T::Acc* waiting[most_levels + 1];
  bool present[most_levels + 1];
  for (int level = 0; level <= levels; ++level) waiting[level] = tile + level * width;
  for (int turn = 0; turn < turns; ++turn) {
    const int64_t branch = in_turn[turn] >> unused, level = std::countr_one(unsigned(turn));
    if (branch >= rows.count) {  // what waited for it goes on without it
      present[level] = false;
      for (int64_t below = 0; below < level; ++below) {
        if (!present[below]) continue;
        if (!present[level]) std::swap(waiting[below], waiting[level]);
        else for (int64_t v = 0; v < width; ++v) waiting[level][v] = F::merge(waiting[below][v], waiting[level][v]);
        present[level] = true;
      }
      continue;
    }
    present[level] = true;
    const int64_t to_next = rows.ahead(branch, in_turn[(turn + 1) % turns] >> unused) + (turn + 1 < turns ? 0 : width * vector_bytes);
    const Onward onward(rows, std::max<int64_t>(1, rows.count / branches), width * vector_bytes, to_next);
    for (int64_t next = 0; next < width; next += group) {
      const int64_t v = std::min(next, width - group);  // what is left over is folded with what was before it, again
      typename T::Acc acc[group];
      fold_lanes_apart<F, group, branches>(rows, branch, v * T::W, from_memory ? onward(v * vector_bytes) : 0, acc);
      put_in_order<F, group>(acc);
      for (int64_t below = 0; below < level; ++below) {
        repeat<group>([&](int g) FW_INLINED { acc[g] = F::merge(waiting[below][v + g], acc[g]); });
      }
      repeat<group>([&](int g) FW_INLINED { waiting[level][v + g] = acc[g]; });
    }
  }
  return waiting[levels];
}

// More than two rows and no more than lanes, a vector or a few wide: of four at a time the first two halvings are done before
// anything is kept.
template <class F>
FW_INLINE const typename Terms<F>::Acc* fold_rows_by_fours(const Rows<typename F::Source>& rows, int64_t width,
                                                           typename Terms<F>::Acc* tile) {
  using T = Terms<F>;
  const int64_t half = std::bit_floor(static_cast<uint64_t>(rows.count - 1)), quarter = half / 2;
  for (int64_t lane = 0; lane < quarter; ++lane) {
    const auto pair = [&](int64_t row, int64_t column) FW_INLINED {
      const auto one = T::load(rows(row) + column);
      return row + half < rows.count ? F::merge(one, T::load(rows(row + half) + column)) : one;
    };
    for (int64_t v = 0; v < width; ++v) {
      tile[lane * width + v] = F::merge(pair(lane, v * T::W), pair(lane + quarter, v * T::W));
    }
  }
  fold_lanes<F>(tile, quarter, width);
  return tile;
}

// All rows of at most one block; returns the row of results in the tile, which has room for `lanes` rows and one for each level.
template <class F>
FW_INLINE const typename Terms<F>::Acc* fold_rows(const Rows<typename F::Source>& rows, int64_t lanes, int64_t width,
                                                  bool from_memory, typename Terms<F>::Acc* tile) {
  using T = Terms<F>;
  constexpr bool by_branch = !F::heavy && !one_way<F>;
  if constexpr (by_branch) {
    // About eight rows side by side: more of them fight for places in the first cache. From memory there may be more, of each a
    // line at a time; in cache as much as there are registers for.
    constexpr int few_branches = 8, group = 4, line = vector_bytes == 32 && sizeof(typename T::S) > 2 ? 2 : group;
    const bool wide = width >= group && !rows.gathering, few = rows.count <= few_branches * (from_memory ? 40 : 8);
    if constexpr (vector_bytes == 64 && sizeof(typename T::S) > 2) {  // one loop for both; sixteen bits would be slower for it
      if (wide && few && !(any_order<F> && from_memory)) return fold_rows_by_branch<F, few_branches, group>(rows, width, from_memory, tile);
    } else {
      if (wide && few && from_memory && !any_order<F>) return fold_rows_by_branch<F, few_branches, line>(rows, width, true, tile);
      if (wide && few && !from_memory) return fold_rows_by_branch<F, few_branches, group>(rows, width, false, tile);
    }
    if (wide && !from_memory) return fold_rows_by_branch<F, std::max(32, T::L / 2), group>(rows, width, false, tile);
    if (!any_order<F> && !from_memory && rows.count > 2 && rows.count <= T::L) return fold_rows_by_fours<F>(rows, width, tile);
  }
  fold_rows_into_lanes<F, by_branch>(rows, lanes, width, from_memory, tile);  // in cache those are left that are narrow
  fold_lanes<F>(tile, lanes, width);
  return tile;
}

// The tree over at most so many rows, in registers: `most`, or twice as many.
constexpr int64_t few_rows = 8;

template <class G, int most, bool twice = false, class RowAt>
FW_INLINE typename Terms<G>::Acc few_rows_vector(int64_t rows, RowAt&& row_at) {
  typename Terms<G>::Acc acc[most];
  const auto each = [&]<int count>(std::integral_constant<int, count>, auto&& act) FW_INLINED {
    if constexpr (!G::heavy) repeat<count>(act);
    else for (int r = 0; r < count; ++r) act(r);
  };
  each(std::integral_constant<int, most>{}, [&](int r) FW_INLINED {
    if (r < rows) acc[r] = G::start(row_at(r));
    if (twice && r + most < rows) acc[r] = G::merge(acc[r], G::start(row_at(r + most)));
  });
  const auto join = [&](auto half) FW_INLINED {
    if constexpr (half < most) each(half, [&](int r) FW_INLINED {
      if (r + half < rows) acc[r] = G::merge(acc[r], acc[r + half]);
    });
  };
  join(std::integral_constant<int, 4>{}), join(std::integral_constant<int, 2>{}), join(std::integral_constant<int, 1>{});
  return acc[0];
}
template <class G, bool twice = false>
FW_INLINE typename Terms<G>::Acc few_rows_vector(const Rows<typename G::Source>& rows, int64_t column) {
  const auto row_at = [&](int r) FW_INLINED { return load<typename G::Value, Terms<G>::W>(rows(r) + column); };
  return few_rows_vector<G, few_rows, twice>(rows.count, row_at);
}

}  // namespace foldwise::FOLDWISE_ISA

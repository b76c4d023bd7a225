// The one reduction driver. A plan's shape decides how memory is walked and how threads share it; the trees of tree.h
// decide the bits, so any split, strip or chunk below may change for speed alone.
#pragma once
#include <algorithm>
#include <atomic>
#include <vector>

#include "company.h"
#include "sequence.h"

namespace foldwise::FOLDWISE_ISA {

constexpr int64_t chunk_bytes = 1 << 20;
constexpr int64_t prefetch_bytes = 768 << 10;

template <class F>
struct Reduction {
  using T = Terms<F>;
  using S = typename T::S;
  using A = typename T::A;
  using C = typename F::Careful;
  using Acc = typename T::Acc;
  using CarefulAcc = typename Terms<C>::Acc;
  static constexpr int W = T::W, L = T::L;
  static constexpr int64_t size = sizeof(S);

  const ReducePlan& plan;
  const Reader<S> reader;
  const Scatter<A> scatter;
  const int64_t blocks;
  const bool prefetch;
  std::atomic<bool> fits{true};

  explicit Reduction(const ReducePlan& p)
      : plan(p),
        reader(p.source, absent_source<S, A>(F::absent())),
        scatter(scatter_for<A>(p.sink.dtype)),
        blocks((p.count + T::block - 1) / T::block),
        prefetch(p.count * p.outputs * size > prefetch_bytes) {}

  bool run() {
    if (plan.shape == Shape::columns) columns();
    else if (plan.shape == Shape::rows && (blocks <= 1 || (blocks <= most_row_blocks && rows_lie_whole()))) short_rows();
    else sequences();
    return fits;
  }

  const Axis& inner_kept() const {
    static constexpr Axis point{1, 0, 0, 0};
    return plan.kept_rank ? plan.kept[plan.kept_rank - 1] : point;
  }
  const Axis& inner_fold() const {
    static constexpr Axis point{1, sizeof(S), 0, 0};
    return plan.fold_rank ? plan.fold[plan.fold_rank - 1] : point;
  }
  Cursor kept_cursor(int rank, int64_t position) const {
    return Cursor(plan.kept, rank, plan.source.x, plan.source.mask, position);
  }
  Cursor fold_cursor(const char* x, const char* mask, int64_t position) const {
    return Cursor(plan.fold, plan.fold_rank, x, mask, position);
  }
  void note(bool fit) {
    if (!fit) fits.store(false, std::memory_order_relaxed);
  }

  // Has the work done: now, or in step with that of others.
  void divide(int64_t units, int64_t unit_bytes, Pieces pieces) const {
    if (plan.company) plan.company->join(units, pieces);
    else share(units, unit_bytes, pieces);
  }

  // ---- short rows: whole rows of at most one block, or a few where they lie, W at a time

  static constexpr int64_t most_row_blocks = 8;

  bool rows_lie_whole() const { return plan.source.direct && plan.fold_rank <= 1 && inner_fold().x == size; }

  template <class G>
  static FW_OUTLINE typename Terms<G>::Acc long_row_vector(const S* p, int64_t count) {
    typename Terms<G>::Acc tiles[(std::bit_width(static_cast<uint64_t>(most_row_blocks)) + 1) * L / W];
    Counter<G> counter{tiles, L / W};
    for (int64_t done = 0; done < count; done += T::block) {
      fold_into_lanes<G, G::heavy ? 0 : L, !G::heavy>(p + done, std::min<int64_t>(T::block, count - done), L, counter.next());
      counter.push();
    }
    return fold_lane_vectors<G>(counter.whole());
  }

  template <class G>
  FW_INLINE typename Terms<G>::Acc row_vector(const S* p, int64_t count) const {
    if (count > T::block) return long_row_vector<G>(p, count);
    if (prefetch) {
      const char* ahead = reinterpret_cast<const char*>(p) + prefetch_distance;
      for (int64_t line = 0; line < count * size; line += 64) __builtin_prefetch(ahead + line, 0, 3);
    }
    if (count < W) return Terms<G>::load_some(p, count);
    typename Terms<G>::Acc lanes[L / W];
    fold_into_lanes<G, L, false>(p, count, L, lanes);
    return fold_lane_vectors<G>(lanes);
  }

  template <class G>
  bool fold_short_rows(const char* x, int64_t stride, int64_t rows, A* out) const {
    bool fit = true;
    const auto row = [&](int64_t i) { return reinterpret_cast<const S*>(x + i * stride); };
    int64_t i = 0;
    for (; i + W <= rows; i += W) {
      typename Terms<G>::Acc vectors[W];
#pragma GCC unroll 1
      for (int j = 0; j < W; ++j) vectors[j] = row_vector<G>(row(i + j), plan.count);
      fit &= finished<G, W>(fold_across<G>(vectors), plan.finish, out + i);
    }
    for (; i < rows; ++i) {
      fit &= finished<G, 1>(folded<G, W>(row_vector<G>(row(i), plan.count)), plan.finish, out + i);
    }
    settle(out);
    return fit;
  }

  // Rows of two to four elements, one after the other in memory: turned into that many columns in cache.
  bool fold_narrow_rows(const char* x, int64_t rows, A* out) const {
    constexpr int64_t batch = 256;
    S columns[most_interleaved_words * batch];
    deinterleave(columns, batch, x, plan.count, rows);
    const int64_t whole = (rows + W - 1) / W * W;
    for (int64_t c = 0; c < plan.count; ++c) std::fill(columns + c * batch + rows, columns + c * batch + whole, reader.absent);
    const Rows<S> turned{reinterpret_cast<const char*>(columns), batch * size, nullptr, plan.count};
    return guarded<F>([&]<class G>(G) FW_INLINED {
      bool fit = true;
      for (int64_t i = 0; i < rows; i += W) {
        A some[W];
        A* to = i + W <= rows ? out + i : some;
        fit &= finished<G, W>(few_rows_vector<G>(turned, i), plan.finish, to);
        if (to == some) std::copy_n(some, rows - i, out + i);
      }
      settle(out);
      return fit;
    });
  }

  void short_rows() {
    constexpr int64_t batch = 256;
    const Axis& kept = inner_kept();
    const bool direct = rows_lie_whole();
    const bool narrow = direct && plan.count >= 2 && plan.count <= most_interleaved_words && kept.x == plan.count * size &&
                        kept.size >= batch;
    divide(plan.outputs, plan.count * size, [&](int64_t first, int64_t last) {
      S gathered[2 * T::block];
      A results[batch];
      Cursor at = kept_cursor(plan.kept_rank, first);
      while (first < last) {
        int64_t rows = std::min({at.left_in_line(), last - first, batch});
        const char* x = at.x;
        int64_t stride = kept.x;
        if (!direct) {
          rows = std::clamp<int64_t>(2 * T::block / plan.count, 1, rows);
          for (int64_t i = 0; i < rows; ++i) {
            Cursor from = fold_cursor(at.x + i * kept.x, at.mask + i * kept.mask, 0);
            reader.sequence(gathered + i * plan.count, from, plan.count);
          }
          x = reinterpret_cast<const char*>(gathered);
          stride = plan.count * size;
        }
        char* out = plan.sink.out + at.out;
        const bool in_place = plan.sink.direct && (rows == 1 || kept.out == sizeof(A));
        A* to = in_place ? reinterpret_cast<A*>(out) : results;
        if (narrow) note(fold_narrow_rows(x, rows, to));
        else note(guarded<F>([&]<class G>(G) FW_INLINED {
          return fold_short_rows<G>(x, stride, rows, to);
        }));
        if (!in_place) scatter(out, kept.out, results, rows);
        at.advance(rows);
        first += rows;
      }
    });
  }

  // How much of the source this one reads before it is another's turn. Columns have tiles to keep.
  int64_t step_bytes() const { return plan.shape == Shape::columns ? 4 * strip_in_company : Company::step_bytes; }

  // ---- units: one output row of a tile each, folded block by block

  // Folds the blocks of every unit, in chunks over threads where there are few units, and finishes each tile.
  // fold(unit, first, last, tile) leaves the lanes of blocks first..last-1; finish(unit, tile) writes the outputs.
  FW_OUTLINE void each_unit(int64_t units, int64_t tile_vectors, int64_t unit_bytes,
                            Calls<void(int64_t unit, int64_t first, int64_t last, CarefulAcc* tiles)> fold,
                            Calls<void(int64_t unit, CarefulAcc* tile)> finish) {
    const int threads = thread_count();
    const auto room = [&](int64_t tiles) { return Counter<C>::depth(tiles) * tile_vectors; };
    const bool cut = plan.company ? unit_bytes > step_bytes()
                                  : threads > 1 && units < 4 * threads && units * unit_bytes >= serial_bytes;
    if (!cut || blocks <= 1) {
      divide(units, unit_bytes, [&](int64_t first, int64_t last) {
        Tiles<CarefulAcc> tiles(room(blocks));
        for (int64_t unit = first; unit < last; ++unit) {
          fold(unit, int64_t{0}, blocks, tiles.data);
          finish(unit, tiles.data);
        }
      });
      return;
    }
    const int64_t wanted = plan.company ? step_bytes() : std::max(chunk_bytes, units * unit_bytes / (16 * threads));
    const int64_t chunk = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, wanted * blocks / unit_bytes)));
    const int64_t chunks = (blocks + chunk - 1) / chunk;
    Tiles<CarefulAcc> parts(units * chunks * tile_vectors);
    divide(units * chunks, unit_bytes / chunks, [&](int64_t from, int64_t to) {
      Tiles<CarefulAcc> tiles(room(chunk));
      for (int64_t task = from; task < to; ++task) {
        const int64_t first = task % chunks * chunk;
        fold(task / chunks, first, std::min(blocks, first + chunk), tiles.data);
        std::copy_n(tiles.data, tile_vectors, parts.data + task * tile_vectors);
      }
    });
    Tiles<CarefulAcc> tiles(room(chunks));
    for (int64_t unit = 0; unit < units; ++unit) {
      Counter<C> counter{tiles.data, tile_vectors};
      for (int64_t c = 0; c < chunks; ++c) {
        std::copy_n(parts.data + (unit * chunks + c) * tile_vectors, tile_vectors, counter.next());
        counter.push();
      }
      finish(unit, counter.whole());
    }
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

  // ---- long rows, and a few interleaved sequences

  static constexpr int64_t most_interleaved = 32;
  static constexpr int64_t side_by_side_bytes = 128 << 10, strip_in_company = 256 << 10;

  void sequences() {
    const bool flat = plan.shape == Shape::flat;
    const int64_t k = flat ? inner_kept().size : 1;
    if (k == 1) return sequences_of<L>(1, plan.kept_rank);
    return sequences_of<0>(k, plan.kept_rank - 1);
  }

  // Shows `count` elements of a sequence from element `first` on: where they lie, or gathered block by block.
  FW_OUTLINE void walk(const char* x, const char* mask, int64_t k, bool as_they_lie, int64_t first, int64_t count,
                       Visit<S> visit) const {
    Cursor from = fold_cursor(x, mask, first);
    if (as_they_lie) {
      while (count) {
        const int64_t some = std::min(count, from.left_in_line());
        const S* p = reinterpret_cast<const S*>(from.x);
        from.advance(some);
        visit(p, some, reinterpret_cast<const S*>(from.x));
        count -= some;
      }
      return;
    }
    std::vector<S> gathered(T::block * k);
    const bool copied = plan.source.direct && inner_fold().x == k * size;
    while (count) {
      const int64_t some = std::min<int64_t>(T::block, count);
      if (!copied) reader.sequence(gathered.data(), from, some);
      else for (int64_t done = 0; done < some;) {
        const int64_t here = std::min(some - done, from.left_in_line());
        std::memcpy(gathered.data() + done * k, from.x, here * k * size);
        from.advance(here);
        done += here;
      }
      visit(gathered.data(), some, gathered.data() + some * k);
      count -= some;
    }
  }

  template <int static_lanes>
  void sequences_of(int64_t k, int unit_rank) {
    using Open = OpenSequence<F, static_lanes>;
    const Axis& line = inner_fold();
    const bool as_they_lie = plan.source.direct && line.x == k * size && (plan.fold_rank <= 1 || (line.size % L == 0 && line.size * 8 >= T::block));
    const int64_t vectors = L * k / W;
    const auto walk_of = [&](const char* x, const char* mask) {
      return [=, this](int64_t first, int64_t count, Visit<S> visit) { walk(x, mask, k, as_they_lie, first, count, visit); };
    };
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, CarefulAcc* tiles) {
      const Cursor start = kept_cursor(unit_rank, unit);
      const auto here = walk_of(start.x, start.mask);
      Tiles<Acc> plain(Open::plain_tiles * vectors);
      Open open(k, first * T::block, tiles, plain.data);
      here(first * T::block, std::min(plan.count, last * T::block) - first * T::block,
           [&](const S* p, int64_t some, const S* next) { open.take(p, some, next, here); });
      open.end(here);
    };
    const auto finish = [&](int64_t unit, CarefulAcc* tile) {
      char* out = plan.sink.out + kept_cursor(unit_rank, unit).out;
      typename C::template Acc<1> ends[most_interleaved * W];
      A results[most_interleaved];
      if constexpr (static_lanes) ends[0] = folded<C, W>(fold_lane_vectors<C>(tile));
      else fold_interleaved_lanes<C>(tile, k, ends);
      for (int64_t i = 0; i < k; ++i) note(finished<C, 1>(ends[i], plan.finish, results + i));
      scatter(out, k > 1 ? inner_kept().out : 0, results, k);
    };
    int64_t units = 1;
    for (int a = 0; a < unit_rank; ++a) units *= plan.kept[a].size;
    const bool side_by_side = static_lanes && as_they_lie && plan.fold_rank > 1 && plan.kept_rank &&
                              inner_kept().x == line.size * size && prefetch && units >= 4 * thread_count() && !plan.company;
    if (!side_by_side) return each_unit(units, vectors, plan.count * k * size, fold, finish);

    // Stretches of one sequence lie far apart, and those of its neighbours between them: walked together, as memory goes.
    const int64_t most = inner_kept().size;
    const int64_t together = std::clamp<int64_t>(side_by_side_bytes / inner_kept().x, 1, most);
    const int64_t per_line = (most + together - 1) / together;
    const int64_t lines = plan.count / line.size;
    divide(units / most * per_line, together * plan.count * size, [&](int64_t first, int64_t last) {
      const int64_t room = Counter<C>::depth(blocks) * vectors, plain_room = Open::plain_tiles * vectors;
      Tiles<CarefulAcc> tiles(together * room);
      Tiles<Acc> plain(together * plain_room);
      for (int64_t group = first; group < last; ++group) {
        const int64_t unit = group / per_line * most + group % per_line * together;
        const int64_t sequences = std::min(together, most - group % per_line * together);
        const char* x = kept_cursor(unit_rank, unit).x;
        std::vector<Open> open;
        open.reserve(sequences);
        for (int64_t i = 0; i < sequences; ++i) open.emplace_back(1, 0, tiles.data + i * room, plain.data + i * plain_room);
        Cursor from(plan.fold, plan.fold_rank - 1, x, nullptr, 0);
        for (int64_t done = 0; done < lines; ++done, from.advance(1)) {
          for (int64_t i = 0; i < sequences; ++i) {
            const S* p = reinterpret_cast<const S*>(from.x + i * inner_kept().x);
            const auto again = walk_of(x + i * inner_kept().x, nullptr);
            open[i].take(p, line.size, p + line.size, again);
          }
        }
        for (int64_t i = 0; i < sequences; ++i) {
          const auto again = walk_of(x + i * inner_kept().x, nullptr);
          open[i].end(again);
          finish(unit + i, tiles.data + i * room);
        }
      }
    });
  }

  // ---- columns: strips of the innermost kept axis

  static constexpr int64_t tile_columns = 1024, few_rows = 8, few_rows_columns = 4096;

  // A block of so many stays in cache until all have folded it.
  int64_t columns_in_company() const {
    const int64_t rows = std::min<int64_t>(plan.count, T::block);
    return std::max<int64_t>(64, std::bit_floor(static_cast<uint64_t>(strip_in_company / (rows * size) + 1)));
  }

  struct Room {
    std::vector<const char*> places;
    std::vector<S> gathered;
  };

  void columns() {
    const Axis& kept = inner_kept();
    const bool contiguous = plan.source.direct && kept.x == size;
    const bool few = contiguous && plan.fold_rank == 1 && plan.count <= few_rows;
    const int64_t most_columns = few ? few_rows_columns : contiguous ? tile_columns : 2 * W;
    const int64_t whole_columns = plan.company ? std::min(most_columns, columns_in_company()) : most_columns;
    const int64_t strips = (kept.size + whole_columns - 1) / whole_columns;
    const int64_t units = plan.outputs / kept.size * strips;
    const int64_t unit_columns = std::min(whole_columns, kept.size);
    const int64_t vectors = (unit_columns + W - 1) / W;
    const int64_t lanes = blocks > 1 ? L : std::min<int64_t>(L, plan.count);

    // The rows of one block of one strip, columns padded to whole vectors: as they lie, or gathered into `room`.
    const auto rows_of = [&](int64_t unit, int64_t block, Room& room) {
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
        room.places.resize(rows);
        for (const char*& place : room.places) {
          place = from.x;
          from.advance(1);
        }
        return Rows<S>{nullptr, 0, room.places.data(), rows};
      }
      const int64_t padded = (columns + W - 1) / W * W;
      room.gathered.resize(rows * padded);
      for (int64_t r = 0; r < rows; ++r, from.advance(1)) {
        S* row = room.gathered.data() + r * padded;
        reader(row, from.x, from.mask, kept, columns);
        std::fill(row + columns, row + padded, reader.absent);
      }
      return Rows<S>{reinterpret_cast<const char*>(room.gathered.data()), padded * size, nullptr, rows};
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
      return divide(units, plan.count * unit_columns * size, [&](int64_t first, int64_t last) {
        Tiles<CarefulAcc> tile(few ? 0 : lanes * vectors);
        Room room;
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
    const auto fold = [&](int64_t unit, int64_t first, int64_t last, CarefulAcc* tiles) {
      const int64_t width = vectors_of(unit);
      Tiles<Acc> plain(F::guarded ? L * width : 0);
      Counter<C> counter{tiles, L * width};
      Room room;
      for (int64_t block = first; block < last; ++block) {
        const Rows<S> rows = rows_of(unit, block, room);
        careful_tile(L * width, plain.data, counter.next(), [&]<class G>(G, auto* tile) FW_INLINED {
          if constexpr (!G::heavy) {
            if (prefetch) return fold_rows_streaming<G>(rows, L, width, tile);
          }
          fold_rows_by_lane<G>(rows, L, width, tile);
        });
        counter.push();
      }
      counter.whole();
    };
    each_unit(units, L * vectors, plan.count * unit_columns * size, fold, [&](int64_t unit, CarefulAcc* tile) {
      fold_lanes<C>(tile, L, vectors_of(unit));
      note(finish_row(C{}, unit, [&](int64_t v) FW_INLINED { return tile[v]; }));
    });
  }

  // The tree over at most eight rows, in registers.
  template <class G>
  static FW_INLINE typename Terms<G>::Acc few_rows_vector(const Rows<S>& rows, int64_t column) {
    typename Terms<G>::Acc acc[few_rows];
#pragma GCC unroll 8
    for (int r = 0; r < few_rows; ++r) {
      if (r < rows.count) acc[r] = Terms<G>::load(rows(r) + column);
    }
#pragma GCC unroll 3
    for (int half = few_rows / 2; half >= 1; half /= 2) {
#pragma GCC unroll 4
      for (int r = 0; r < half; ++r) {
        if (r + half < rows.count) acc[r] = G::merge(acc[r], acc[r + half]);
      }
    }
    return acc[0];
  }
};

template <class F>
bool reduce(const ReducePlan& plan) {
  return Reduction<F>(plan).run();
}

}  // namespace foldwise::FOLDWISE_ISA

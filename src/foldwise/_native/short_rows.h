// Short rows: whole rows of at most one block, or a few where they lie, W of them at a time.
#pragma once
#include "reduce_work.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ShortRows : ReduceWork<F> {
  FOLDWISE_REDUCE_WORK(F)
  using Work::Work;

  static constexpr int64_t most_row_blocks = 8;

  // Whether rows of that length are for here.
  bool suits() const {
    return blocks <= 1 || (blocks <= most_row_blocks && rows_lie_whole() && !plan.company);
  }

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
    S columns[few_rows * batch];
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

  bool run() {
    constexpr int64_t batch = 256;
    const Axis& kept = inner_kept();
    const bool direct = rows_lie_whole();
    const bool narrow = direct && plan.count >= 2 && plan.count <= most_interleaved_words && kept.x == plan.count * size &&
                        kept.size >= batch;
    divide(plan, plan.outputs, plan.count * size, [&](int64_t first, int64_t last) {
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
    return fits;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

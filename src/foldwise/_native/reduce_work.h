// What every way of reducing shares: the plan, places in it.
#pragma once
#include <atomic>

#include "tree.h"

namespace foldwise::FOLDWISE_ISA {

template <class F>
struct ReduceWork {
  using T = Terms<F>;
  using S = typename T::S;
  using A = typename T::A;
  using C = typename F::Careful;
  using Acc = typename T::Acc;
  using CarefulAcc = typename Terms<C>::Acc;
  static constexpr int W = T::W, L = T::L;
  static constexpr int64_t size = sizeof(S);
  // How much sooner than what is limited by memory it is worth sharing: in cache, exact sums are of doubles.
  static constexpr bool of_doubles = requires { F::parts; };
  static constexpr int64_t effort = F::heavy ? 4 : of_doubles ? sizeof(double) / size : 1;

  const ReducePlan& plan;
  const Reader<S> reader;
  const Scatter<A> scatter;
  const int64_t blocks;
  const bool prefetch;
  std::atomic<bool> fits{true};

  explicit ReduceWork(const ReducePlan& p)
      : plan(p),
        reader(p.source, absent_source<S, A>(F::absent())),
        scatter(scatter_for<A>(p.sink.dtype)),
        blocks((p.count + T::block - 1) / T::block),
        prefetch(is_from_memory(p.count * p.outputs * size) && (!p.company || p.company->leads())) {}

  // Of an element: so much memory takes as long.
  int64_t weight() const { return of_doubles && prefetch ? size : size * effort; }

  const Axis& inner_kept() const { return innermost_kept(plan); }
  Cursor kept_cursor(int rank, int64_t position) const {
    return Cursor(plan.kept, rank, plan.source.x, plan.source.mask, position);
  }
  void note(bool fit) {
    if (!fit) fits.store(false, std::memory_order_relaxed);
  }

  // Writes a row of results: W at a time while in place, through a buffer at its ends or into another dtype. Left out are the first
  // `skipped` lanes of the first vector, and the first `repeated` of the last one, unless that is a whole one.
  template <class G, class At>
  FW_INLINE bool write_row(char* out, int64_t stride, int64_t columns, int64_t skipped, int64_t repeated, At&& acc_at) const {
    const bool in_place = plan.sink.direct && stride == sizeof(A);
    bool fit = true;
    for (int64_t v = 0, c = 0; c < columns; ++v) {
      const int64_t first = v ? 0 : skipped, some = std::min<int64_t>(W - first, columns - c);
      A results[W];
      A* to = in_place && some == W ? reinterpret_cast<A*>(out) + c : results;
      fit &= finished<G, W>(acc_at(v), plan.finish, to);
      settle(to);
      if (to == results) scatter(out + c * stride, stride, results + first + (first + some < W ? repeated : 0), some);
      c += some;
    }
    return fit;
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

  // Chunks of so many vectors each, `stride` apart.
  static void join(char* tiles, const char* parts, int64_t chunks, int64_t vectors, int64_t stride) {
    Counter<C> counter{reinterpret_cast<CarefulAcc*>(tiles), vectors};
    for (int64_t c = 0; c < chunks; ++c) {
      std::copy_n(reinterpret_cast<const CarefulAcc*>(parts) + c * stride, vectors, counter.next());
      counter.push();
    }
    counter.whole();
  }
};

// The names of ReduceWork, for the structs made from it.
#define FOLDWISE_REDUCE_WORK(F)                                                                               \
  using Work = ReduceWork<F>;                                                                                 \
  using Work::plan, Work::reader, Work::scatter, Work::blocks, Work::prefetch, Work::fits, Work::inner_kept;  \
  using Work::kept_cursor, Work::note, Work::join, Work::careful_tile;                                        \
  using Work::W, Work::L, Work::size, Work::effort, Work::weight;                                             \
  using typename Work::T, typename Work::S, typename Work::A, typename Work::C, typename Work::Acc;           \
  using typename Work::CarefulAcc;

}  // namespace foldwise::FOLDWISE_ISA

// What joint loops leave in vectors becomes the results of everybody who asked for them.
#pragma once
#include <atomic>

#include "folds.h"
#include "joint_loop.h"
#include "results.h"

namespace foldwise::FOLDWISE_ISA {

// A fold as if it read what it accumulates: it ends alike whatever it reads, so there is one for all.
template <class F> struct AsReadOf;
template <template <class, class> class Fold, class S, class A> struct AsReadOf<Fold<S, A>> { using type = Fold<A, A>; };
template <class S, class A, bool largest> struct AsReadOf<Extreme<S, A, largest>> { using type = Extreme<A, A, largest>; };
template <class F> using AsRead = typename AsReadOf<F>::type;

inline void note(Member& member, bool fits) {
  if (!fits) std::atomic_ref(member.fits).store(false, std::memory_order_relaxed);
}

// Where the output at a position goes, and how far from it the next one.
inline char* out_of(const ReducePlan& plan, int64_t at) {
  return plan.sink.out + Cursor(plan.kept, plan.kept_rank, plan.source.x, nullptr, at).out;
}
inline int64_t stride_of(const ReducePlan& plan) { return plan.kept_rank ? plan.kept[plan.kept_rank - 1].out : 0; }

// Outputs that follow each other along the innermost axis.
template <class F>
FW_OUTLINE void finish_outputs(const void* vectors, std::span<Member* const> members, int64_t at, int64_t count) {
  using A = typename F::Value;
  constexpr int W = Terms<F>::W;
  const auto* acc = static_cast<const typename Terms<F>::Acc*>(vectors);
  for (Member* member : members) {
    const ReducePlan& plan = member->plan;
    const auto scatter = scatter_for<A>(plan.sink.dtype);
    const int64_t stride = stride_of(plan);
    char* out = out_of(plan, at);
    for (int64_t i = 0; i < count; i += W) {
      A results[W];
      note(*member, finished<F, W>(acc[i / W], plan.finish, results));
      settle(results);
      scatter(out + i * stride, stride, results, std::min<int64_t>(W, count - i));
    }
  }
}

// Of rows, one vector of each.
template <class F>
FW_OUTLINE void finish_rows(void* vectors, std::span<Member* const> members, int64_t at, int64_t rows) {
  constexpr int W = Terms<F>::W;
  auto* acc = static_cast<typename Terms<F>::Acc*>(vectors);
  for (int64_t row = rows; row % W; ++row) acc[row] = acc[0];
  for (int64_t i = 0; i < rows; i += W) acc[i / W] = fold_across<F>(acc + i);
  finish_outputs<F>(acc, members, at, rows);
}

// What was no plain arithmetic for a fold, each of those who asked for it does by itself: outputs that follow each other.
FW_RARELY inline void fold_by_themselves(std::span<Member* const> members, const char* x, int64_t at, int64_t count) {
  for (Member* member : members) {
    ReducePlan some = member->plan;
    if (some.kept_rank) some.kept[0] = some.kept[some.kept_rank - 1];
    some.kept_rank = std::min(some.kept_rank, 1);
    some.kept[0].size = some.outputs = count;
    some.source.x = x;
    some.sink.out = out_of(member->plan, at);
    note(*member, member->kernel(some));
  }
}
template <class... Folds>
FW_INLINE void fold_again(const JointPlans& all, unsigned raised, const char* x, int64_t at, int64_t count) {
  std::size_t part = 0;
  const auto look = [&]<class F>(std::type_identity<F>) {
    if constexpr (F::guarded) {
      if (raised & F::flags) fold_by_themselves(all.of(part), x, at, count);
    }
    ++part;
  };
  (look(std::type_identity<Folds>{}), ...);
}

}  // namespace foldwise::FOLDWISE_ISA

// The one reduction driver. A plan's shape decides how memory is walked and how threads share it; the trees of tree.h
// decide the bits, so any split, strip or chunk may change for speed alone.
#pragma once
#include "columns_in_step.h"
#include "exact_reduce.h"
#include "sequence.h"
#include "short_rows.h"
#include "short_sums.h"

namespace foldwise::FOLDWISE_ISA {

// Sums of shorter integers by themselves; one of a company takes what others go through in steps as a sequence, too.
inline bool adds_short(const ReducePlan& plan) {
  const bool at_once = plan.shape == Shape::columns || (plan.shape == Shape::rows && plan.count * item_size(plan.source.dtype) <= small_unit_bytes);
  return (!plan.company || at_once) && ShortTotals::suit(plan);
}
template <class F>
FW_OUTLINE bool reduce_short(const ReducePlan& plan) {
  const ReduceWork<F> work(plan);
  return add_short(plan, [&](const int64_t* totals, int64_t count, char* out, int64_t stride) {
    return work.template write_row<F>(out, stride, count, 0, 0, [&](int64_t v) FW_INLINED { return Terms<F>::load(totals + v * Terms<F>::W); });
  });
}

template <class F>
bool reduce(const ReducePlan& plan) {
  const ReleasesVectors afterwards;
  if constexpr (is_exact<F>) {
    return reduce_exactly<F>(plan);
  } else {
    if constexpr (takes_short<F>) {
      if (adds_short(plan)) return reduce_short<F>(plan);
    }
    if (plan.shape == Shape::columns) {
      if constexpr (!F::heavy && !one_way<F>) {
        if (ColumnsInStep<F> in_step(plan); in_step.suits()) return in_step.run();
      }
      return Columns<F>(plan).run();
    }
    ShortRows<F> rows(plan);
    if (plan.shape == Shape::rows && rows.suits()) return rows.run();
    const bool one = plan.shape == Shape::rows || plan.kept[plan.kept_rank - 1].size == 1;
    return one ? Sequence<F, small ? 0 : Terms<F>::L>(plan).run(one) : Sequence<F, 0>(plan).run(one);
  }
}

}  // namespace foldwise::FOLDWISE_ISA

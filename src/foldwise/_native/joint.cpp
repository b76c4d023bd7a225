// Compiled once per ISA.
#include "joint_columns.h"
#include "joint_spans.h"

#include "folds.h"

namespace foldwise::FOLDWISE_ISA {

namespace {

// As they fold by themselves: integers are squared as floats, for norms.
template <FoldId id, class S> using Reduced = typename FoldOf<id>::template Reduced<S>;
template <class S, class... More>
using AllOf = Joint<S, Reduced<FoldId::sum, S>, Reduced<FoldId::max, S>, Reduced<FoldId::min, S>,
                    Reduced<FoldId::sumsquare, std::conditional_t<std::is_integral_v<S>, double, S>>, More...>;

template <class S, class... Folds>
constexpr JointLoop loop_of(Joint<S, Folds...>) {
  using Loop = Joint<S, Folds...>;
  using Spans = JointSpans<Loop>;
  return {Loop::N, {sizeof(typename Folds::Source)...}, {std::is_floating_point_v<typename Folds::Value>...},
          Spans::state_bytes, Spans::open, Spans::take, Spans::close, Spans::fold, JointColumns<Loop>::fold, Loop::fold_columns};
}
template <class S, class... More> constexpr JointLoop loop = loop_of(AllOf<S, More...>{});

// Built for size there are none: a template, so that they are not built either.
template <bool there_are>
const JointLoop* loop_for(Dtype source, bool exactly) {
  if constexpr (there_are) {
    switch (source) {
      case Dtype::float16: return &loop<half>;
      case Dtype::bfloat16: return &loop<bfloat>;
      case Dtype::float32: return &loop<float>;
      case Dtype::float64: return &loop<double>;
      case Dtype::int32: return &loop<std::int32_t>;
      case Dtype::int64: return exactly ? &loop<int64_t, Reduced<FoldId::judged_sum, int64_t>> : &loop<int64_t>;
      default: break;
    }
  }
  return nullptr;
}

// Rows of some length that lie whole, one like the other.
bool are_rows(const ReducePlan& plan) {
  return plan.shape == Shape::rows && plan.fold[0].x == item_size(plan.source.dtype) && plan.count >= JointLoop::least_row &&
         plan.count <= JointLoop::span;
}

// A few of them side by side.
bool are_few_rows(const ReducePlan& plan) {
  if (plan.shape != Shape::columns) return false;
  const Axis& kept = plan.kept[plan.kept_rank - 1];
  return kept.x == item_size(plan.source.dtype) && kept.size >= JointLoop::least_row &&
         plan.count >= JointLoop::least_few && plan.count <= JointLoop::most_few;
}

// Whether a member folds what another does, as the loop does it.
bool takes(const JointLoop& loop, const Member& member, const ReducePlan& like) {
  const ReducePlan& plan = member.plan;
  if (member.done || member.part == Part::none || plan.shape != like.shape || plan.source.mask || plan.source.dtype != like.source.dtype ||
      plan.sink.kept != Kept::result || plan.count != like.count || plan.kept_rank != like.kept_rank) {
    return false;
  }
  for (int a = 0; a < like.kept_rank; ++a) {
    if (plan.kept[a].size != like.kept[a].size || plan.kept[a].x != like.kept[a].x) return false;
  }
  const bool real = loop.real[static_cast<int>(member.part)];
  return plan.source.direct == (real == is_float(like.source.dtype)) && is_float(member.reduced) == real;
}

}  // namespace

const JointLoop* joint_loop_for(Dtype source, bool exactly) { return loop_for<!small>(source, exactly); }

void fold_jointly(Member* members, int count) {
  for (Member* leader = members; leader < members + count; ++leader) {
    const ReducePlan& plan = leader->plan;
    if (leader->done || !plan.source.direct || plan.fold_rank != 1) continue;
    const bool rows = are_rows(plan);
    const bool exactly = std::any_of(members, members + count, [](const Member& each) { return each.part == Part::exact_total; });
    const JointLoop* loop = rows || are_few_rows(plan) ? joint_loop_for(plan.source.dtype, exactly) : nullptr;
    if (!loop || !takes(*loop, *leader, plan)) continue;
    JointPlans all{plan, is_from_memory(plan.outputs * plan.count * item_size(plan.source.dtype))};
    for (Member* each = members; each < members + count; ++each) {
      const int part = static_cast<int>(each->part);
      if (takes(*loop, *each, plan)) all.parts[part][all.counts[part]++] = each;
    }
    if (std::count(all.counts, std::end(all.counts), 0) > parts_in_loop - JointLoop::fewest) continue;
    (rows ? loop->fold_rows : loop->fold_few_rows)(all);
    for (int part = 0; part < parts_in_loop; ++part) {
      for (Member* each : all.of(part)) each->done = true;
    }
  }
}

void ColumnTaker::lead(const char* p, int64_t stride, int64_t rows, int64_t columns, Turn turn, int64_t to_next) {
  alignas(64) char nobodys[2 * (most_row_bytes + line_bytes)];  // accumulators may be twice as wide as elements
  char* tiles[parts_in_loop][2];
  for (auto& each : tiles) each[0] = each[1] = nobodys;
  unsigned resumed = 0;
  each_part<ColumnTaker>([&](int i, ColumnTaker& part) {
    const Lanes open = part.lanes_for(part, turn);
    std::copy_n(open.tiles, 2, tiles[i]);
    resumed |= unsigned{open.resumed} << i;
  });
  clear_flags();
  const int64_t row_bytes = columns * item, some = JointLoop::rows * stride;
  for (int64_t row = 0; row < rows; row += JointLoop::rows, p += some, resumed = ~0u) {
    const int64_t next = row + JointLoop::rows < rows ? some : to_next - row * stride;
    loop->fold_columns(p, stride, columns, tiles, resumed, Onward(JointLoop::rows, row_bytes, next));
  }
  const unsigned raised = noted_flags();
  each_part<ColumnTaker>([&](int, ColumnTaker& part) { part.taken(part, turn, raised); });
}

void arrange(std::span<Partner* const> company) {
  const bool exactly = std::any_of(company.begin(), company.end(), [](Partner* each) {
    return each && static_cast<Taker*>(each)->part == Part::exact_total;
  });
  for (Partner* each : company) {
    auto* leader = static_cast<Taker*>(each);
    const JointLoop* loop = leader && leader->may_lead && !leader->loop ? joint_loop_for(leader->source, exactly) : nullptr;
    if (!loop) continue;
    Taker* parts[parts_in_loop] = {};
    int count = 0;
    for (Partner* one : company) {
      auto* taker = static_cast<Taker*>(one);
      if (!taker || taker->way != leader->way || taker->source != leader->source || taker->loop) continue;
      const int part = static_cast<int>(taker->part);
      if (taker->part == Part::none || taker->real != loop->real[part] || taker->item != loop->item[part] || parts[part]) continue;
      parts[part] = taker;
      ++count;
    }
    if (count < JointLoop::fewest || std::find(parts, std::end(parts), leader) == std::end(parts)) continue;
    std::copy_n(parts, parts_in_loop, leader->parts);
    leader->each_part<Taker>([&](int, Taker& taker) {
      taker.loop = loop;
      taker.follows = &taker != leader;
    });
  }
}

}  // namespace foldwise::FOLDWISE_ISA

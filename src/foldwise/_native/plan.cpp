#include "plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace foldwise {

namespace {

// Walks an axis from its lowest address, of elements or of results.
template <class Plan, class Beside>
Axis ascending(Plan& plan, Beside& beside, Axis axis, bool moves_out, int64_t Axis::*of = &Axis::x) {
  if (axis.*of >= 0) return axis;
  const int64_t end = axis.size - 1;
  plan.source.x += end * axis.x;
  if (beside) beside += end * axis.mask;
  if (moves_out) plan.sink.out += end * axis.out;
  return {axis.size, -axis.x, -axis.mask, moves_out ? -axis.out : 0};
}

// Where axes go that do not move in memory. Kept ones go outside: they repeat the work, they do not shape it.
constexpr int64_t outside = std::numeric_limits<int64_t>::max(), inside = 0;

// Outermost first; axes of one stride keep their order.
void insert_by_stride(Axis* axes, int& rank, const Axis& axis, int64_t still) {
  const auto place = [still](const Axis& a) { return a.x ? std::abs(a.x) : still; };
  int at = rank++;
  for (; at > 0 && place(axes[at - 1]) < place(axis); --at) axes[at] = axes[at - 1];
  axes[at] = axis;
}

// Two axes are one when stepping off the end of the inner is a step of the outer, in every array.
void collapse(Axis* axes, int& rank) {
  int kept = 0;
  for (int a = 1; a < rank; ++a) {
    Axis& outer = axes[kept];
    const Axis& inner = axes[a];
    if (outer.x == inner.x * inner.size && outer.mask == inner.mask * inner.size && outer.out == inner.out * inner.size) {
      outer = {outer.size * inner.size, inner.x, inner.mask, inner.out};
    } else {
      axes[++kept] = inner;
    }
  }
  if (rank) rank = kept + 1;
}

// Elements along an axis that does not move in memory are the same. If the other axis is no short one, and lies in one piece where the
// still one is folded, it is gone along again and again.
Shape choose_shape(const ReducePlan& plan) {
  const int64_t item = item_size(plan.source.dtype);
  constexpr int64_t short_line = 64, most_interleaved = 32, many = 64;
  if (!plan.kept_rank) return Shape::rows;
  const Axis& kept = plan.kept[plan.kept_rank - 1];
  if (!plan.fold_rank) return Shape::columns;
  const Axis& fold = plan.fold[plan.fold_rank - 1];
  if (kept.x == 0 && fold.size >= worth_repeating) return Shape::rows;
  if (fold.x == 0 && kept.x == item && kept.size >= worth_repeating) return Shape::columns;
  if (fold.x < kept.x) {
    // Short stretches of folded elements, far apart: better to walk across the outputs that lie between them.
    const bool scattered = plan.fold_rank > 1 && fold.size * item < short_line && kept.size * item >= short_line;
    return scattered ? Shape::columns : Shape::rows;
  }
  const bool interleaved = !plan.source.mask && kept.x == item && fold.x == kept.size * item;
  return interleaved && kept.size <= most_interleaved && plan.count >= many ? Shape::flat : Shape::columns;
}

// ---- results that are there again and again

struct ResultAxis {
  int64_t size, stride;
  bool repeated;
};

template <class Item>
void copy_results(char* to, const char* from, const ResultAxis* axes, int rank) {
  if (!rank) {
    std::memcpy(to, from, sizeof(Item));
  } else if (rank == 1 && axes->stride == sizeof(Item)) {
    std::memcpy(to, from, axes->size * sizeof(Item));
  } else {
    for (int64_t i = 0; i < axes->size; ++i) copy_results<Item>(to + i * axes->stride, from + i * axes->stride, axes + 1, rank - 1);
  }
}

template <class Item>
void fill(char* out, const ResultAxis& axis) {
  constexpr int64_t size = sizeof(Item), many = 64;
  if (axis.stride == size && axis.size >= many) {
    for (int64_t done = 1; done < axis.size; done *= 2) std::memcpy(out + done * size, out, std::min(done, axis.size - done) * size);
  } else {
    Item value;
    std::memcpy(&value, out, size);
    for (int64_t i = 1; i < axis.size; ++i) std::memcpy(out + i * axis.stride, &value, size);
  }
}

// Axes with the longest stride first, so that results go to memory as it lies; `beyond`: those from there on are not repeated.
template <class Item>
void repeat_along(char* out, const ResultAxis* axes, int rank, const ResultAxis* beyond) {
  if (axes == beyond) return;
  if (!axes->repeated) {
    for (int64_t i = 0; i < axes->size; ++i) repeat_along<Item>(out + i * axes->stride, axes + 1, rank - 1, beyond);
  } else if (rank == 1) {
    fill<Item>(out, *axes);
  } else {
    repeat_along<Item>(out, axes + 1, rank - 1, beyond);
    for (int64_t i = 1; i < axes->size; ++i) copy_results<Item>(out + i * axes->stride, out, axes + 1, rank - 1);
  }
}

}  // namespace

void lay_out(ReducePlan& plan, const Geometry& g, uint64_t folded) {
  plan.kept_rank = plan.fold_rank = plan.repeated_rank = 0;
  plan.count = plan.outputs = 1;
  for (int a = 0; a < g.rank; ++a) {
    const bool fold = folded >> a & 1;
    (fold ? plan.count : plan.outputs) *= g.shape[a];
    if (g.shape[a] == 1) continue;
    const Axis axis = ascending(plan, plan.source.mask, {g.shape[a], g.x[a], g.mask ? g.mask[a] : 0, fold ? 0 : g.out[a]}, !fold);
    if (fold) {
      insert_by_stride(plan.fold, plan.fold_rank, axis, inside);
    } else if (axis.x == 0 && axis.mask == 0 && plan.sink.kept == Kept::result) {
      plan.repeated[plan.repeated_rank++] = axis;
      plan.outputs /= axis.size;
    } else {
      insert_by_stride(plan.kept, plan.kept_rank, axis, outside);
    }
  }
  collapse(plan.fold, plan.fold_rank);
  collapse(plan.kept, plan.kept_rank);
  plan.shape = choose_shape(plan);
}

void repeat_results(const ReducePlan& plan) {
  if (!plan.repeated_rank) return;
  ResultAxis axes[max_rank];
  int rank = 0;
  for (int a = 0; a < plan.kept_rank; ++a) axes[rank++] = {plan.kept[a].size, plan.kept[a].out, false};
  for (int a = 0; a < plan.repeated_rank; ++a) axes[rank++] = {plan.repeated[a].size, plan.repeated[a].out, true};
  std::sort(axes, axes + rank, [](const ResultAxis& a, const ResultAxis& b) { return std::abs(a.stride) > std::abs(b.stride); });
  const ResultAxis* beyond = axes + rank;
  while (!beyond[-1].repeated) --beyond;
  const auto repeat = [&]<class Item>(Item) { repeat_along<Item>(plan.sink.out, axes, rank, beyond); };
  switch (item_size(plan.sink.dtype)) {
    case 1: return repeat(std::uint8_t{});
    case 2: return repeat(std::uint16_t{});
    case 4: return repeat(std::uint32_t{});
    default: return repeat(uint64_t{});
  }
}

void lay_out(ScanPlan& plan, const Geometry& g, int axis, int64_t out_length, bool reverse) {
  const bool flat = axis < 0;
  // Results are as many as elements, and put in order with more effort; places are few.
  int64_t Axis::*const by = out_length > 1 ? &Axis::out : &Axis::x;
  plan.kept_rank = plan.nest_rank = 0;
  plan.lines = 1;
  plan.length = out_length;
  plan.along = {1, 0, 0, g.out[flat ? 0 : axis]};
  for (int a = 0; a < g.rank; ++a) {
    Axis here{g.shape[a], g.x[a], 0, 0};
    if (flat || a == axis) {
      if (reverse) {
        plan.source.x += (here.size - 1) * here.x;
        here.x = -here.x;
      }
      if (here.size > 1) plan.nest[plan.nest_rank++] = here;
    } else if (here.size > 1) {
      plan.lines *= here.size;
      here.mask = g.mask ? g.mask[a] : 0;
      here.out = g.out[a];
      insert_by_stride(plan.kept, plan.kept_rank, ascending(plan, plan.carried, here, true, by), outside);
    }
  }
  collapse(plan.kept, plan.kept_rank);
  collapse(plan.nest, plan.nest_rank);
  if (reverse) {
    plan.sink.out += (out_length - 1) * plan.along.out;
    plan.along.out = -plan.along.out;
  }
  if (plan.nest_rank > 1) return;
  if (plan.nest_rank == 1) {
    plan.along.size = plan.nest[0].size;
    plan.along.x = plan.nest[0].x;
  }
  plan.nest_rank = 0;
}

void lay_out_like(int rank, const int64_t* shape, const int64_t* like, int64_t item, int64_t* strides) {
  int order[max_rank];
  int64_t places[max_rank], next = 0;  // an axis that does not move goes where its neighbour goes
  for (int a = rank - 1; a >= 0; --a) {
    order[a] = a;
    places[a] = next = like[a] ? std::abs(like[a]) : next;
  }
  std::stable_sort(order, order + rank, [&](int a, int b) { return places[a] > places[b]; });
  for (int i = rank - 1; i >= 0; --i) {
    strides[order[i]] = item;
    item *= std::max<int64_t>(shape[order[i]], 1);
  }
}

Extent::Extent(const char* data, int64_t item, int rank, const int64_t* shape, const int64_t* strides)
    : low(data), high(data + item) {
  for (int a = 0; a < rank; ++a) {
    const int64_t reach = (shape[a] - 1) * strides[a];
    (reach < 0 ? low : high) += reach;
  }
}

}  // namespace foldwise

// Sums of few numbers each, and what endings make of them, a vector of sums at a time: in two doubles, where these tell how all of
// it is rounded.
#pragma once
#include "exact_folds.h"

namespace foldwise::FOLDWISE_ISA {

// v is the number nearest to a sum, e what the sum has beyond it: made odd where that is not nothing, so that rounding
// once more gives what rounding once would.
template <class T, class V>
FW_INLINE V made_odd(V v, V e) {
  using Bit = std::conditional_t<sizeof(T) == 8, int64_t, std::int32_t>;
  typedef typename VectorOf<Bit, sizeof(v) / sizeof(T)>::type Bits;
  const Bits bits = std::bit_cast<Bits>(v);
  const Bits apart = std::bit_cast<Bits>(e) ^ bits;  // signs that differ: the sum lies nearer to zero
  const Bits even = (bits & 1) - 1;
  return std::bit_cast<V>(bits + (even & (Bits)(e != 0) & ((Bits)(apart < 0) | 1)));
}

// a + b, rounded, and what was lost; shared by the units that add and those that multiply.
template <class V>
FW_INLINE V two_sum_shared(V a, V b, V& error) {
  const V sum = a + b, back = sum - a;
  error = added_aside(a - taken_aside(sum, back), taken_aside(b, back));
  return sum;
}

// The results of a vector of sums; returns the lanes of which doubles do not tell them. Number m of sum i is numbers[m * row + i]; no
// initial value is added.
template <int count>
FW_OUTLINE unsigned round_few(const double* numbers, int64_t row, const Finish& finish, bool narrower, double* results) {
  constexpr int W = native<double>;
  constexpr double largest = 0x1p900, least = 0x1p-900, negligible = 0x1p-48;
  using Vector = typename Pack<double, W>::Vector;
  const auto size = [](Vector v) FW_INLINED { return magnitude(Pack<double, W>{{v}}).v[0]; };
  Vector part[count];
  for (int m = 0; m < count; ++m) part[m] = load<double, W>(numbers + m * row).v[0];
  for (int turn = 1; turn < count; ++turn) {  // the sum itself comes first, and less and less is left behind it
    for (int m = count - 1; m > 0; --m) part[m - 1] = two_sum_shared(part[m - 1], part[m], part[m]);
  }
  Vector rest{}, apart{};
  for (int m = count - 1; m > 0; --m) rest += part[m], apart += size(part[m]);
  const Vector first = part[0];
  Vector near = first, left{}, step = rest, doubt = apart;
  if (finish.ending != Ending::none) {
    Vector slope;
    if (finish.ending == Ending::mean) {
      const auto elements = static_cast<double>(finish.count);
      near = first / elements;
      left = fused(-near, elements - Vector{}, first);
      slope = 1 / elements - Vector{};
    } else {
      double roots[W];
      store(roots, Pack<double, W>{{first}});
      for (double& each : roots) each = std::sqrt(each);
      near = load<double, W>(roots).v[0];
      left = fused(-near, near, first);
      slope = 0.5 / near;
    }
    step = (left + rest) * slope;
    doubt = (size(left) + apart) * slope;
  }
  doubt *= negligible;
  Vector beyond;
  const Vector nearest = two_sum_shared(near, step, beyond);
  // Neither may what follows underflow, nor what is left be more than the last places.
  auto told = (size(first) < largest) & (size(first) > least) & (apart <= size(first) * negligible);
  const auto whole = (left == 0) & (apart == 0);
  if (narrower) told &= whole | (size(beyond) > doubt);
  else told &= nearest + (beyond + (beyond < 0 ? -doubt : doubt)) == nearest;
  const auto nothing = (first == 0) & (apart == 0);
  const Vector odd = narrower ? made_odd<double>(nearest, whole ? Vector{} : beyond) : nearest;
  store(results, Pack<double, W>{{nothing ? Vector{} : odd}});
  return lanes_where(~(told | nothing));
}

}  // namespace foldwise::FOLDWISE_ISA

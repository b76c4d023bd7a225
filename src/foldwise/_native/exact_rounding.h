// From exact parts to results: many at once where that takes two numbers, one Total at a time otherwise.
#pragma once
#include "exact_folds.h"
#include "reduce_work.h"

namespace foldwise::FOLDWISE_ISA {

// y is the double nearest to a sum, `error` what the sum has beyond it: made odd where that is not nothing, so that
// rounding once more gives what rounding once would.
template <int N>
FW_INLINE Pack<double, N> made_odd(const Pack<double, N>& y, const Pack<double, N>& error) {
  return each([](auto v, auto e) {
    typedef typename VectorOf<int64_t, sizeof(v) / 8>::type Bits;
    const Bits bits = std::bit_cast<Bits>(v);
    const Bits apart = std::bit_cast<Bits>(e) ^ bits;  // signs that differ: the sum lies nearer to zero
    const Bits moved = bits + (apart < 0 ? Bits{} - 1 : Bits{} + 1);
    const Bits even = (bits & 1) - 1;
    const Bits inexact = (Bits)(e != 0) & (Bits)(v - v == 0);
    return std::bit_cast<decltype(v)>((inexact & even & moved) | (~(inexact & even) & bits));
  }, y, error);
}

// a + b, rounded, and what was lost.
template <int N>
FW_INLINE Pack<double, N> two_sum(const Pack<double, N>& a, const Pack<double, N>& b, Pack<double, N>& error) {
  const auto sum = a + b, back = sum - a;
  error = (a - (sum - back)) + (b - back);
  return sum;
}

// A Total, and the initial value, rounded for where it goes.
inline double rounded_total(Total& total, const ReducePlan& plan) {
  if (plan.finish.number != 0) total.add(plan.finish.number);
  total.carry();
  return total.rounded(plan.finish, plan.sink.dtype);
}

// What Python keeps, brought up to date.
inline bool keep_totals(const Total* totals, int64_t count, char* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    Total kept;
    std::memcpy(static_cast<void*>(&kept), out + i * stride, sizeof kept);
    kept.add(totals[i]);
    std::memcpy(out + i * stride, &kept, sizeof kept);
  }
  return true;
}

// Rows of parts: parts[m * row + i] is part m of output i.
template <class F>
struct ExactOutputs {
  static constexpr int W = native<double>;
  const ReducePlan& plan;
  const Scatter<double> scatter;
  const bool plainly;  // two numbers make the result

  explicit ExactOutputs(const ReducePlan& p, Scatter<double> to)
      : plan(p), scatter(to),
        plainly(F::parts <= 2 && p.finish.ending == Ending::none && p.finish.number == 0 && !p.sink.totals) {}

  static void add(Total& total, const double* parts, int64_t row, int64_t i) {
    for (int m = 0; m < F::parts; ++m) total.add(parts[m * row + i]);
  }

  // `spilled`, where there are any, hold what the parts do not. Rows have room for whole vectors.
  void write(const double* parts, int64_t row, int64_t count, Total* spilled, char* out, int64_t stride) const {
    if (plan.sink.totals) {
      for (int64_t i = 0; i < count; ++i) {
        Total total = spilled ? spilled[i] : Total();
        add(total, parts, row, i);
        keep_totals(&total, 1, out + i * stride, 0);
      }
      return;
    }
    constexpr int64_t most = 64;
    const bool narrower = plan.sink.dtype != Dtype::float64;
    for (int64_t first = 0; first < count; first += most) {
      const int64_t some = std::min(most, count - first);
      double results[most];
      if (plainly && !spilled) {
        for (int64_t i = 0; i < some; i += W) {
          auto y = load<double, W>(parts + first + i);
          if constexpr (F::parts == 2) {
            Pack<double, W> error;
            y = two_sum<W>(y, load<double, W>(parts + row + first + i), error);
            if (narrower) y = made_odd<W>(y, error);
          }
          store(results + i, canonical(y + splat<double, W>(0.0)));
        }
      } else {
        for (int64_t i = 0; i < some; ++i) {
          Total total = spilled ? spilled[first + i] : Total();
          add(total, parts, row, first + i);
          results[i] = rounded_total(total, plan);
        }
      }
      scatter(out + first * stride, stride, results, some);
    }
  }
};

}  // namespace foldwise::FOLDWISE_ISA

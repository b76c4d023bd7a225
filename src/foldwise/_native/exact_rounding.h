// From exact parts to results: many at once where that takes two numbers, one Total at a time otherwise.
#pragma once
#include "exact_few.h"
#include "reduce_work.h"

namespace foldwise::FOLDWISE_ISA {

// Few short floats may be added as the default adds them, in floats: unless the flags say otherwise, that is exact.
template <class F>
constexpr bool adds_short_floats =
    !small && sizeof(typename F::Source) == 2 && std::is_same_v<F, ExactSum<typename F::Source, double>>;
template <class F> using AsDefault = Sum<typename F::Source, float>;
template <class Acc>
FW_INLINE void store_floats(float* to, const Acc& sums) {
  store(to, canonical(sums.total + splat<float, native<float>>(0.0f)));  // an exact zero is +0
}

template <int N>
FW_INLINE Pack<double, N> made_odd(const Pack<double, N>& y, const Pack<double, N>& error) {
  return each([](auto v, auto e) FW_INLINED { return v - v == 0 ? made_odd<double>(v, e) : v; }, y, error);
}

// a + b, rounded, and what was lost.
template <int N>
FW_INLINE Pack<double, N> two_sum(const Pack<double, N>& a, const Pack<double, N>& b, Pack<double, N>& error) {
  const auto sum = a + b, back = sum - a;
  error = (a - (sum - back)) + (b - back);
  return sum;
}

// The sum of two or three numbers, rounded once. What comes out may not be finite where the sum is.
template <class T, int N>
FW_INLINE Pack<T, N> rounded_sum(const Pack<T, N>& a, const Pack<T, N>& b) {
  return a + b + splat<T, N>(0);  // an exact zero is +0
}
template <class T, int N>
FW_INLINE Pack<T, N> rounded_sum(const Pack<T, N>& a, const Pack<T, N>& b, const Pack<T, N>& c) {
  using V = typename Pack<T, N>::Vector;
  constexpr int chunks = Pack<T, N>::chunks;
  V sum[chunks], of_both[chunks], of_all[chunks], lost[chunks];
  Pack<T, N> rest;
  repeat<chunks>([&](int k) FW_INLINED { sum[k] = two_sum_shared<V>(b.v[k], c.v[k], of_both[k]); });
  repeat<chunks>([&](int k) FW_INLINED { sum[k] = two_sum_shared<V>(a.v[k], sum[k], of_all[k]); });
  repeat<chunks>([&](int k) FW_INLINED { rest.v[k] = two_sum_shared<V>(of_all[k], of_both[k], lost[k]); });
  repeat<chunks>([&](int k) FW_INLINED { rest.v[k] = sum[k] + made_odd<T>(rest.v[k], lost[k]); });
  return rest;
}

// Sums of two or three numbers each, as those are: no flag is asked. Four vectors at a time, as each step of a sum waits for the one before.
template <class F> constexpr bool rounds_few = !small && std::is_same_v<F, ExactSum<typename F::Source, double>> && sizeof(typename F::Source) >= 4;
template <class S>
class RoundedAsAdded {
  static constexpr int chains = 4;

 public:
  static constexpr int at_once = chains * native<S>;
  using Some = Pack<S, at_once>;

  template <int K>
  FW_INLINE Some operator()(const Some (&numbers)[K]) {
    const Some all = std::apply([](const auto&... each) FW_INLINED { return rounded_sum(each...); }, std::to_array(numbers));
    repeat<chains>([&](int k) FW_INLINED { nothing_ = fused(all.v[k], typename Some::Vector{}, nothing_); });
    return all;
  }
  bool all_finite() const { return !lanes_where(nothing_ != 0); }

 private:
  typename Some::Vector nothing_ = {};
};

// A Total, and the initial value, rounded for where it goes.
inline double rounded_total(Total& total, const ReducePlan& plan) {
  if (plan.finish.number != 0) total.add(plan.finish.number);
  total.carry();
  return total.rounded(plan.finish, plan.sink.dtype);
}

// What Python keeps is brought up to date; false where it has no room for that.
template <class Sum, class More>
bool keep(char* out, More& more) {
  Sum kept;
  std::memcpy(static_cast<void*>(&kept), out, sizeof kept);
  const bool fits = kept.add(more);
  std::memcpy(out, &kept, sizeof kept);
  return fits;
}
inline bool keep_total(const ReducePlan& plan, Total& total, char* out) {
  return plan.sink.kept == Kept::total ? keep<Total>(out, total) : keep<Doubles>(out, total);
}

// Three numbers as the nearest one, and two that are what it leaves.
template <int N>
FW_INLINE void part(Pack<double, N>& first, Pack<double, N>& second, Pack<double, N>& third) {
  second = two_sum<N>(second, third, third);
  first = two_sum<N>(first, second, second);
  second = two_sum<N>(second, third, third);
}

// Sums as rows of numbers that add up to them: numbers[m * row + i] is one of output i. Rows have room for whole vectors.
template <int rows>
struct ExactOutputs {
  static constexpr int W = native<double>, most_plain = 3;
  static constexpr int64_t group = 64;
  using Vector = Pack<double, W>;
  const ReducePlan& plan;
  const Scatter<double> scatter;
  const bool plainly, narrower;

  explicit ExactOutputs(const ReducePlan& p, Scatter<double> to)
      : plan(p), scatter(to),
        plainly(rows <= most_plain && (p.sink.kept == Kept::doubles ||
                (p.sink.kept == Kept::result && p.finish.ending == Ending::none && p.finish.number == 0))),
        narrower(p.sink.dtype != Dtype::float64) {}

  // Whether the floats that a sum is, if it is, are all there is to write.
  bool from_floats() const { return plainly && narrower && plan.sink.kept == Kept::result; }
  // Whether sums go where they are to be as numbers like the elements.
  bool as_elements() const { return plainly && plan.sink.kept == Kept::result && plan.sink.dtype == plan.source.dtype; }

  static void add(Total& total, const double* numbers, int64_t row, int64_t i) {
    for (int m = 0; m < rows; ++m) total.add(numbers[m * row + i]);
  }

  // `spilled(i)` is what there is beside the numbers of the group that begins with output i: a Total each, or nothing.
  template <class Spilled>
  bool write(const double* numbers, int64_t row, int64_t count, char* out, int64_t stride, Spilled&& spilled) const {
    bool fit = true;
    for (int64_t first = 0; first < count; first += group) {
      Total* beside = spilled(first);
      const auto write_some = plainly && !beside ? &ExactOutputs::write_plainly : &ExactOutputs::write_totals;
      const int64_t here = std::min(group, count - first);
      fit &= (this->*write_some)(numbers + first, row, here, out + first * stride, stride, beside);
    }
    return fit;
  }
  bool write(const double* numbers, int64_t row, int64_t count, char* out, int64_t stride) const {
    return write(numbers, row, count, out, stride, [](int64_t) { return static_cast<Total*>(nullptr); });
  }

 private:
  // Whether one rounding of the sum of the numbers is all, and results lie one after the other.
  template <class T>
  bool goes(int64_t stride) const {
    constexpr bool is_float = std::is_same_v<T, float>;
    return rows <= 2 - is_float && plan.sink.kept == Kept::result && stride == sizeof(T) &&
           plan.sink.dtype == (is_float ? Dtype::float32 : Dtype::float64);
  }
  // False if two numbers have no finite sum.
  template <class T>
  bool write_sums(const double* numbers, int64_t row, int64_t count, char* out) const {
    Vector nothing = splat<double, W>(0.0);
    for (int64_t i = 0; i < count; i += W) {
      Vector sum = load<double, W>(numbers + i);
      if constexpr (rows > 1) {
        sum = sum + load<double, W>(numbers + row + i);
        nothing = nothing + (sum - sum);
      }
      sum = canonical(sum + splat<double, W>(0.0));
      if (i + W <= count) {
        store(reinterpret_cast<T*>(out) + i, sum);
      } else {
        T last[W];
        store(last, sum);
        std::memcpy(out + i * sizeof(T), last, (count - i) * sizeof(T));
      }
    }
    return !lanes_where(nothing.v[0] != 0);
  }

  bool write_totals(const double* numbers, int64_t row, int64_t count, char* out, int64_t stride, Total* beside) const {
    double results[group];
    bool fit = true;
    const Finish& finish = plan.finish;
    const bool counted = finish.ending != Ending::mean || (finish.count > 0 && finish.count <= int64_t{1} << 53);
    const bool few = !beside && plan.sink.kept == Kept::result && finish.number == 0 && counted;
    for (int64_t first = 0; first < count; first += W) {
      const unsigned untold = few ? round_few<rows>(numbers + first, row, finish, narrower, results + first) : ~0u;
      for (int64_t i = first; untold && i < std::min(first + W, count); ++i) {
        if (!(untold >> (i - first) & 1)) continue;
        Total fresh, &total = beside ? beside[i] : fresh;
        add(total, numbers, row, i);
        if (plan.sink.kept != Kept::result) fit &= keep_total(plan, total, out + i * stride);
        else results[i] = rounded_total(total, plan);
      }
    }
    if (plan.sink.kept == Kept::result) scatter(out, stride, results, count);
    return fit;
  }

  bool write_plainly(const double* numbers, int64_t row, int64_t count, char* out, int64_t stride, Total*) const {
    if (goes<float>(stride) && write_sums<float>(numbers, row, count, out)) return true;
    if (goes<double>(stride) && write_sums<double>(numbers, row, count, out)) return true;
    double parts[most_plain][group];
    Vector nothing = splat<double, W>(0.0);
    for (int64_t i = 0; i < count; i += W) {
      const auto number = [&](int m) FW_INLINED {
        return m < rows ? load<double, W>(numbers + m * row + i) : splat<double, W>(0.0);
      };
      Vector first = number(0), second = number(1), third = number(2);
      if constexpr (rows == 3) part<W>(first, second, third);
      else if constexpr (rows == 2) first = two_sum<W>(first, second, second);
      if (plan.sink.kept == Kept::doubles) {
        store(parts[1] + i, second);
        store(parts[2] + i, third);
      } else {
        if constexpr (rows == 3) {
          second = made_odd<W>(second, third);
          first = two_sum<W>(first, second, second);
        }
        if (rows > 1 && narrower) first = made_odd<W>(first, second);
        first = canonical(first + splat<double, W>(0.0));
      }
      nothing = nothing + (first - first);
      store(parts[0] + i, first);
    }
    if (rows > 1 && lanes_where(nothing.v[0] != 0)) return write_totals(numbers, row, count, out, stride, nullptr);
    if (plan.sink.kept != Kept::doubles) return scatter(out, stride, parts[0], count), true;
    bool fit = true;
    for (int64_t i = 0; i < count; ++i) {
      const Doubles more{parts[0][i], parts[1][i], parts[2][i]};
      fit &= keep<Doubles>(out + i * stride, more);
    }
    return fit;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

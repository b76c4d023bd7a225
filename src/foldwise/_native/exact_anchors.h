// Sums on one anchor, where its additions can be kept from the flags. What the anchor got of a number, and what it leaves of it, are
// differences: if the flags say that both are exact, they are the number, whatever its size.
#pragma once
#include "exact_levels.h"

namespace foldwise::FOLDWISE_ISA {

// Anchors of one size, as many as keep a processor busy, and the sums of what they leave.
template <class F, class T>
struct OneAnchor {
  using S = typename F::Source;
  using Vector = typename Pack<T, native<T>>::Vector;
  static constexpr int N = native<T>, chains = 8;
  static constexpr int64_t at_once = chains * N;
  using Vectors = Vector[chains];

  static FW_INLINE void fill(Vectors& vectors, T x) {
    repeat<chains>([&](int c) FW_INLINED { vectors[c] = x - Vector{}; });
  }
  static FW_INLINE void take(Vectors& sums, Vectors& rests, const S* p, int64_t count, const Ahead& ahead) {
    const auto some = [&](const S* from) FW_INLINED {
      repeat<chains>([&](int c) FW_INLINED {
        const S* here = from + c * N;
        if (ahead.far && c * N * sizeof(S) % line_bytes == 0) ask_for_next(here, ahead);
        const Pack<T, N> x = F::summed(in_register(load<T, N>(here)));
        rests[c] = added_aside(handed<0, 1>([&](int) FW_INLINED -> Vector& { return sums[c]; }, x.v[0]), rests[c]);
      });
    };
    for (const S* const end = p + count / at_once * at_once; p < end; p += at_once) some(p);
    if (const int64_t left = count % at_once) {
      S last[at_once] = {};
      std::copy_n(p, left, last);
      some(last);
    }
  }
};

// Floats in cache, of which few are far below the others. Zen 4 makes doubles of them in less time.
template <class F> constexpr bool starts_on_anchors = adds_unnoted && is_exact_sum<F> && std::is_same_v<typename F::Source, float>;

template <class F>
class FloatsOnAnchors {
  using On = OneAnchor<F, float>;
  using Vector = Floats::Vector;
  using Some = Pack<double, native<double>>;
  static constexpr int N = floats_at_once, looked_at = 256;

  // Sums of like signs move away from it. The flags are told of nothing, whenever that is computed.
  static float anchor_of(const float* p, int64_t count) {
    Vector most{}, sum{};
    for (int64_t i = 0; i + N <= std::min<int64_t>(looked_at, count); i += N) {
      const Floats x = F::summed(load<float, N>(p + i));
      const Vector size = magnitude(x).v[0];
      most = most > size ? most : size;
      sum = added_unnoted(sum, x.v[0]);
    }
    float largest = 0;
    int below = 0;
    for (int i = 0; i < N; ++i) {
      largest = std::max(largest, most[i]);
      below += sum[i] < 0;
    }
    const float anchor = 48 * std::bit_cast<float>(std::bit_cast<std::uint32_t>(largest) & 0x7f800000u);
    return below > N / 2 ? -anchor : anchor;
  }

  // Neither the anchor's sums nor what it leaves of elements like these are beyond normal numbers.
  static constexpr float least = 0x1p-60f, most = 0x1p100f;
  const float anchor_;

 public:
  static constexpr int64_t fewest = 8192, at_once = 16 * On::at_once;  // before what is left has too many bits

  FloatsOnAnchors(const float* p, int64_t count) : anchor_(anchor_of(p, count)) {}
  bool suits() const { return std::fabs(anchor_) > least && std::fabs(anchor_) < most; }

  // The sum of so many, in lanes, unless the flags say that it is not exact.
  FW_OUTLINE Some operator()(const float* p, int64_t count) const {
    typename On::Vectors sums, rests;
    On::fill(sums, anchor_);
    Some low = splat<double, native<double>>(-On::chains * double{anchor_}), high = low;
    const auto add = [&](const Floats& some) FW_INLINED {
      low = added_floats<native<double>>(low, lower(some));
      high = added_floats<native<double>>(high, upper(some));
    };
    for (int64_t some; count; p += some, count -= some) {
      some = std::min(at_once, count);
      On::fill(rests, 0);
      On::take(sums, rests, p, some, {.far = false});
      repeat<On::chains / 2>([&](int c) FW_INLINED { add({{rests[2 * c] + rests[2 * c + 1]}}); });
    }
    repeat<On::chains>([&](int c) FW_INLINED { add({{sums[c]}}); });
    return low + high;
  }
};

// Numbers up to some forty binades apart, as doubles.
template <class F>
class DoublesOnAnchors {
  using S = typename F::Source;
  using On = OneAnchor<F, double>;

 public:
  static constexpr bool suits = adds_unnoted && is_exact_sum<F> && !std::is_same_v<S, half>;
  static constexpr int binades = UnitsAndRests<F>::binades;

  // Adds up to `most_counted` elements, unless the flags say that something is not exact.
  static FW_INLINE bool add(Tally<F>& sum, const S* p, int64_t count, Exponents here, const Ahead& ahead) {
    const int unused = (binades - (here.above - here.below)) / 2, exponent = here.above + 4 + unused;
    if (std::abs(exponent) > 900) return false;  // sums must not overflow, nor rests vanish
    const double anchor = 1.5 * power_of_two(exponent);
    typename On::Vectors sums, rests;
    On::fill(sums, anchor), On::fill(rests, 0);
    double numbers[2 * On::at_once];
    typename On::Vector nothing{};
    clear_flags();
    On::take(sums, rests, p, count, ahead);
    repeat<On::chains>([&](int c) FW_INLINED {
      nothing += sums[c] - sums[c];  // the flags are told of no sum that has left the range
      store(numbers + c * On::N, Pack<double, On::N>{{sums[c] - anchor}});
      store(numbers + On::at_once + c * On::N, Pack<double, On::N>{{rests[c]}});
    });
    settle(numbers);
    if (lost_bits() || lanes_where(nothing != 0)) return false;
    add_halved(sum, numbers, On::at_once);
    add_halved(sum, numbers + On::at_once, On::at_once);
    return true;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

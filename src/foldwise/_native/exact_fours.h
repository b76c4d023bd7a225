// Floats that become doubles or whole numbers four at a time, from memory: AMD's Zen 4 does that in one step, eight in four.
#pragma once
#include "exact_grid.h"
#include "fused.h"

namespace foldwise::FOLDWISE_ISA {

constexpr bool widens_by_fours = vector_bytes == 64;
constexpr int64_t least_by_fours = 2048, least_made = 4096;  // of fewer, what begins and ends it takes too long
template <class F> constexpr bool may_widen_by_fours = widens_by_fours && std::is_same_v<F, ExactSum<float, double>>;

#if defined(__AVX512F__)
// Sums of so many elements, by the units that multiply; what they are together is exact, or else the flags say so.
FW_OUTLINE inline Pack<double, native<double>> sums_by_fours(const float* p, int64_t count, Ahead ahead) {
  constexpr int fours = 16, at_once = 4 * fours;
  Pack<double, 4> sums[fours], even = splat<double, 4>(0.0), odd = even;
  repeat<fours>([&](int k) FW_INLINED { sums[k] = splat<double, 4>(0.0); });
  int64_t i = 0;
  const int64_t second = ahead.apart ? 0 : -line_bytes;  // lines come in pairs there
  const auto add = [&](auto far) FW_INLINED {
    for (; i + at_once <= count; i += at_once) {
      repeat<fours>([&](int k) FW_INLINED {
        const float* here = p + i + 4 * k;
        constexpr int in_line = line_bytes / (4 * sizeof(float));
        if (far && k % in_line == 0) ask_second_for(here, ahead.distance + (k / in_line % 2 ? second : 0));
        sums[k] = aside<4>(load<double, 4>(here), sums[k]);
      });
    }
  };
  ahead.far ? add(std::true_type{}) : add(std::false_type{});
  for (; i + 4 <= count; i += 4) even = aside<4>(load<double, 4>(p + i), even);
  if (i < count) odd = load_some<double, 4>(p + i, static_cast<int>(count - i), 0.0);
  repeat<fours / 2>([&](int k) FW_INLINED { even = even + sums[2 * k], odd = odd + sums[2 * k + 1]; });
  double both[8];
  store(both, even), store(both + 4, odd);
  return load<double, native<double>>(both);
}
#endif

// Floats that are made of elements before they are widened wait in the first cache, for some steps: make(elements, floats) makes the floats
// of one step, and take(floats) has those of `lag` steps before. After so many steps, and in the end, pause(). Lines of cache come first;
// what lies before and behind them is copied when it is its turn, not to disturb the processor's reading ahead, and zeros follow it.
template <int at_once, int between, class S, class Make, class Take, class Pause>
FW_INLINE void made_and_taken(const S* p, int64_t count, Make&& make, Take&& take, Pause&& pause) {
  constexpr int lag = 4;
  static_assert(least_made >= (lag + 1) * at_once);
  alignas(line_bytes) float waiting[2 * lag * at_once];
  const int64_t before = -reinterpret_cast<std::uintptr_t>(p) % line_bytes / sizeof(S);
  const int64_t whole = (count - before) / at_once, behind = count - before - whole * at_once;
  const auto floats = [&](int64_t step) FW_INLINED { return waiting + step % (2 * lag) * at_once; };

  const S* from = p + before;
  int64_t made = 0, taken = 0, steps = whole;
  for (; made < lag; ++made, from += at_once) make(from, floats(made));
  const auto go_on = [&]() FW_INLINED {
    while (made < steps) {
      for (const int64_t end = std::min(steps, made + between); made < end; ++made, ++taken, from += at_once) {
        make(from, floats(made));
        take(floats(taken));
      }
      pause();
    }
  };
  for (S ends[2 * at_once];;) {
    go_on();
    if (steps > whole || !(before + behind)) break;
    std::fill(std::copy_n(from, behind, std::copy_n(p, before, ends)), std::end(ends), S{});
    from = ends;
    steps += (before + behind + at_once - 1) / at_once;
  }
  for (; taken < steps; ++taken) take(floats(taken));
  pause();
}

// Elements so short that a double holds the sum of a hundred, most often, though they are some forty binades apart.
template <class F>
class FewInDoubles {
  using S = typename F::Source;
  using Four = Pack<double, 4>;
  static constexpr int half_line = line_bytes / 2 / sizeof(S), at_once = 4 * half_line, per_sum = 128, sums = 8;
  static constexpr int far_away = 8192;  // 1 KB, which the default's loops ask for, takes up to twice as long from memory

 public:
  static constexpr bool suits = widens_by_fours && std::is_same_v<S, bfloat> && F::linear;
  static constexpr int binades = 41;  // and eight bits: four are left

  // Adds so many elements, `least_made` and more, unless the flags say that a sum was not exact.
  static FW_OUTLINE bool add(Tally<F>& all, const S* p, int64_t count, Exponents, Ahead ahead) requires suits {
    const int64_t distance = ahead.apart ? ahead.distance : far_away;
    Four here[sums], high = splat<double, 4>(0.0), low = high;
    repeat<sums>([&](int k) FW_INLINED { here[k] = high; });
    const auto as_floats = [&](const S* block, float* to) FW_INLINED {
      repeat<at_once / half_line>([&](int v) FW_INLINED {
        const S* const from = block + v * half_line;
        if (ahead.far && v % 2 == 0) ask_second_for(from, distance);
        const auto [even, odd] = load_by_parity<half_line / 2>(from);
        store(to + v * half_line, F::summed(even));
        store(to + v * half_line + half_line / 2, F::summed(odd));
      });
    };
    const auto add_some = [&](const float* some) FW_INLINED {
      repeat<at_once / 4>([&](int k) FW_INLINED {
        Four& sum = here[k % sums];
        sum = aside<4>(load<double, 4>(some + 4 * k), sum);
      });
    };
    const auto put_away = [&]() FW_INLINED {
      repeat<sums>([&](int k) FW_INLINED {
        Four upper, lower;
        cut<27, 4>(here[k], upper, lower);
        high = high + upper, low = low + lower;
        here[k] = splat<double, 4>(0.0);
      });
    };
    clear_flags();
    made_and_taken<at_once, per_sum * sums * 4 / at_once>(p, count, as_floats, add_some, put_away);
    double numbers[8];
    store(numbers, high), store(numbers + 4, low);
    settle(numbers);
    if (lost_bits()) return false;
    add_halved(all, numbers, 8);
    return true;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

// Sums of float16 on two levels: an anchor takes a few of them as whole units of its own, and what it leaves is added as it is.
#pragma once
#include "exact_whole.h"

namespace foldwise::FOLDWISE_ISA {

// A float16 is a multiple of 2^-24 and below 2^16, and two levels hold them all: nothing is rounded that is kept, and nothing becomes a
// double. What anchors got is told by their bits, and is counted in words of 32 bits, as is what they left.
class HalvesOnLevels {
  static constexpr int N = floats_at_once, abreast = vector_bytes == 64 ? 4 : 2, steps = 4, rests = abreast * steps;
  using Vector = Floats::Vector;
  using Bits = typename VectorOf<std::uint32_t, N>::type;

  // An anchor begins in the middle between two powers of two, and its last bit is its unit, 2^-4: four elements leave it there.
  // What it leaves of each is at most half a unit, and sixteen of these have no more bits than a float.
  static constexpr float anchor = 0x1.8p19f;
  static constexpr int unit = -4, last_unit = -24;
  static constexpr int64_t at_once = rests * N, block = 64 * at_once;  // words hold what so many come to

  static FW_INLINE int64_t total(Bits words) {
    int64_t sum = 0;
    for (int i = 0; i < N; ++i) sum += static_cast<std::int32_t>(words[i]);
    return sum;
  }

  // Units, and units of what is left.
  struct Counts {
    int64_t above = 0, below = 0;
  };

  // Units that multiply share the work of those that add.
  static FW_OUTLINE Counts counted(const half* p, int64_t count, int64_t ahead) {
    Bits above{}, below{};
    Vector left[abreast] = {};
    const auto count_left = [&]() FW_INLINED {
      Vector all = left[0];
      repeat<abreast - 1>([&](int a) FW_INLINED { all += left[a + 1]; });
      below += std::bit_cast<Bits>(whole_words({{all * 0x1p24f}}).v[0]);
    };
    for (int64_t i = 0; i < count; i += at_once) {
      count_left();  // of the elements before: nothing waits for it
      Vector anchors[abreast];
      repeat<steps>([&](int step) FW_INLINED {
        Vector x[abreast], back[abreast];
        repeat<abreast>([&](int a) FW_INLINED {
          const int v = step * abreast + a;
          const half* at = p + i + v * N;
          if (v * N * sizeof(half) % line_bytes == 0) ask_for(at, ahead);
          x[a] = load<float, N>(at).v[0];
        });
        repeat<abreast>([&](int a) FW_INLINED {
          const Vector before = step == 0 ? anchor - Vector{} : anchors[a];
          anchors[a] = before + x[a];
          back[a] = taken_aside(before, anchors[a]);
        });
        repeat<abreast>([&](int a) FW_INLINED {
          const Vector rest = added_aside(back[a], x[a]);
          left[a] = step == 0 ? rest : added_aside(rest, left[a]);
        });
      });
      repeat<abreast>([&](int a) FW_INLINED { above += std::bit_cast<Bits>(anchors[a]); });
    }
    count_left();
    const auto anchors = static_cast<std::uint32_t>(count / (steps * N));
    return {total(above - (std::bit_cast<std::uint32_t>(anchor) * anchors - Bits{})), total(below)};
  }

 public:
  // Adds so many elements, unless the flags say that some are no numbers.
  template <class Sum>
  static FW_INLINE bool add(Sum& sum, const half* p, int64_t count, int64_t ahead) {
    Counts all;
    const auto take = [&](const half* some, int64_t so_many) FW_INLINED {
      const Counts here = counted(some, so_many, ahead);
      all.above += here.above;
      all.below += here.below;
    };
    clear_flags();
    for (int64_t here; (here = std::min(count, block) / at_once * at_once); p += here, count -= here) take(p, here);
    if (count) {
      half last[at_once] = {};
      std::copy_n(p, count, last);
      take(last, at_once);
    }
    settle(&all);
    if (raised_flags(flag_of_invalid)) return false;
    const int64_t units = (all.above << (unit - last_unit)) + all.below;
    sum.add_units(static_cast<uint64_t>(std::abs(units)), last_unit, units < 0);
    return true;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

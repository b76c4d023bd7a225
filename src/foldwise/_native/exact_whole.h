// Sums of numbers that are counted in one unit, when they lie so near to each other that two words are enough for that.
#pragma once
#include <cmath>

#include "exact_grid.h"
#include "fused.h"

namespace foldwise::FOLDWISE_ISA {

#if defined(__AVX512DQ__)
// Floats become whole numbers in one instruction, which raises a flag where they are none, or too large.
constexpr bool turns_whole = true;

FW_INLINE Pack<int64_t, 8> whole(const Pack<float, 8>& x) {
  return {{(Pack<int64_t, 8>::Vector)_mm512_cvtps_epi64((__m256)x.v[0])}};
}
// a * b + c, and the flags are not told of it.
FW_INLINE Floats nearly(const Floats& a, const Floats& b, const Floats& c) {
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {{(Floats::Vector)_mm512_fmadd_round_ps((__m512)a.v[0], (__m512)b.v[0], (__m512)c.v[0], how)}};
}
#else
constexpr bool turns_whole = false;
#endif

// A float, a bfloat16, a double: how many bits it has.
template <class S> constexpr int digits_of = sizeof(S) == 8 ? 53 : sizeof(S) == 4 ? 24 : 8;

constexpr int64_t most_counted = 32768;

// Floats up to forty binades apart, a bfloat16's up to 56, are multiples of one unit, and a word of 64 bits is enough for each.
// Their sum may wrap: a sum of floats is near enough to say how often.
template <class F>
class WholeNumbers {
  using S = typename F::Source;
  static constexpr int W = native<double>, vectors = 8, at_once = vectors * W;

  float unit_;  // multiplied by it, elements count units
  Pack<int64_t, W> sums_[vectors] = {};
  Floats near_[vectors / 2] = {};

  explicit FW_INLINE WholeNumbers(int places) : unit_(std::bit_cast<float>(static_cast<std::uint32_t>(places + 127) << 23)) {}

  template <int N>
  static FW_INLINE Pack<float, N> loaded(const S* p) { return F::template summand<0>(load<float, N>(p)); }

  FW_INLINE void take(const S* p, int64_t count) {
    WholeNumbers here = *this;  // in registers
    S last[at_once] = {};
    for (int64_t i = 0; i < count; i += at_once) {
      const S* block = p + i;
      if (count - i < at_once) {
        std::copy_n(block, count - i, last);
        block = last;
      }
      repeat<vectors>([&](int v) FW_INLINED {
        const S* at = block + v * W;
        if (v * W * sizeof(S) % 64 == 0) ask_for(at, prefetch_distance);
        here.sums_[v] = here.sums_[v] + whole(loaded<W>(at) * splat<float, W>(unit_));
        if (v % 2 == 0) here.near_[v / 2] = nearly(loaded<2 * W>(at), splat<float, 2 * W>(unit_), here.near_[v / 2]);
      });
    }
    *this = here;
  }

  // In units.
  __int128 sum() const {
    Pack<int64_t, W> all = sums_[0];
    for (int v = 1; v < vectors; ++v) all = all + sums_[v];
    uint64_t wrapped = 0;
    for (int k = 0; k < W; ++k) wrapped += static_cast<uint64_t>(all[k]);
    auto near = splat<double, W>(0.0);
    for (const Floats& some : near_) near = added_floats<W>(added_floats<W>(near, lower(some)), upper(some));
    const auto rest = static_cast<int64_t>(wrapped);
    const double turns = std::nearbyint((summed(near) - static_cast<double>(rest)) * 0x1p-64);
    return (static_cast<__int128>(turns) << 64) + rest;
  }

 public:
  static constexpr bool suits = turns_whole && F::linear && (std::is_same_v<S, float> || std::is_same_v<S, bfloat>);
  static constexpr int binades = 64 - digits_of<S>;  // a word, less what one of them has

  // Adds up to `most_counted` elements, unless the flags say that they are not whole. (Each lane of `near_` gets so few that it
  // is wrong by at most 2^56 units: all 64, by a quarter of a word's turn.)
  static FW_INLINE bool add(Total& total, const S* p, int64_t count, Exponents here) {
    const int places = 63 - here.above;
    if (places < -126 || places > 127) return false;
    WholeNumbers all(places);
    clear_flags();
    all.take(p, count);
    settle(&all);
    if (lost_bits()) return false;
    const __int128 units = all.sum();
    total.add_units(units < 0 ? -units : units, -places - Total::lowest, units < 0);
    return true;
  }
};

// Each number as whole units, to the nearest, and a rest, which may have either sign: two sums of doubles. Both have bits to spare if
// the unit lies well between the largest number and the last bit of the least, and the flags tell if it does not.
template <class F>
class UnitsAndRests {
  using S = typename F::Source;
  static constexpr int W = native<double>, vectors = 4, at_once = vectors * W;
  static constexpr int bits = 53, spare_units = 6, spare_rests = 4;
  using Some = Pack<double, W>;

  // The sums of each vector's units, and then of its rests.
  static FW_INLINE void take(const S* p, int64_t count, double unit, double* sums) {
    Some units[vectors] = {}, rests[vectors] = {};
    const auto step = [&](int v, const Some& loaded) FW_INLINED {
      const auto x = F::template summand<0>(loaded).v[0], scale = unit - decltype(loaded.v[0] + 0){};
      const auto whole = whole_unnoted(x * scale);
      units[v] = {{units[v].v[0] + whole}};
      rests[v] = {{added_aside(fused(x, scale, -whole), rests[v].v[0])}};
    };
    int64_t i = 0;
    for (; i + at_once <= count; i += at_once) {
      repeat<vectors>([&](int v) FW_INLINED {
        const S* at = p + i + v * W;
        if (v * W * sizeof(S) % line_bytes == 0) ask_for(at, sequence_prefetch_distance());
        step(v, load<double, W>(at));
      });
    }
    for (; i < count; i += W) step(0, load_some<double, W>(p + i, static_cast<int>(std::min<int64_t>(W, count - i)), 0.0));
    repeat<vectors>([&](int v) FW_INLINED {
      store(sums + v * W, units[v]);
      store(sums + at_once + v * W, rests[v]);
    });
  }

 public:
  static constexpr bool suits = rounds_unnoted && F::linear && !std::is_same_v<S, half>;
  static constexpr int binades = 2 * bits - spare_units - spare_rests - digits_of<S>;

  // Adds up to `most_counted` elements, unless the flags say that units or rests have lost bits.
  static FW_INLINE bool add(Total& total, const S* p, int64_t count, Exponents here) {
    const int unused = (binades - (here.above - here.below)) / 2, places = bits - spare_units - unused - here.above;
    if (std::abs(places) > 900) return false;  // sums must not overflow, either
    double sums[2 * at_once];
    clear_flags();
    take(p, count, std::ldexp(1.0, places), sums);
    settle(sums);
    if (lost_bits()) return false;
    for (double& sum : sums) sum *= std::ldexp(1.0, -places);
    add_halved(total, sums, at_once);
    add_halved(total, sums + at_once, at_once);
    return true;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

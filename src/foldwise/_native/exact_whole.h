// Sums of numbers that are counted in one unit, when they lie so near to each other that two words are enough for that.
#pragma once
#include <cmath>

#include "exact_fours.h"
#include "exact_halves.h"

namespace foldwise::FOLDWISE_ISA {

// Floats become whole numbers in one instruction, which raises a flag where they are too large: of 32 bits everywhere, of 64 bits
// with AVX-512, where the flag says as well if they are none.
FW_INLINE Pack<std::int32_t, floats_at_once> whole_words(const Floats& x) {
#if defined(__AVX512F__)
  return {{(Pack<std::int32_t, 16>::Vector)_mm512_cvtps_epi32((__m512)x.v[0])}};
#elif defined(__AVX__)
  return {{(Pack<std::int32_t, 8>::Vector)_mm256_cvtps_epi32((__m256)x.v[0])}};
#elif defined(__x86_64__)
  return {{(Pack<std::int32_t, 4>::Vector)_mm_cvtps_epi32((__m128)x.v[0])}};
#else
  return {{(Pack<std::int32_t, 4>::Vector)vcvtnq_s32_f32((float32x4_t)x.v[0])}};
#endif
}
#if defined(__AVX512DQ__)
constexpr bool has_long_words = true;
FW_INLINE Pack<int64_t, 8> whole_long_words(const Pack<float, 8>& x) {
  return {{(Pack<int64_t, 8>::Vector)_mm512_cvtps_epi64((__m256)x.v[0])}};
}
FW_INLINE Pack<int64_t, 4> whole_long_words(const Pack<float, 4>& x) {
  return {{(Pack<int64_t, 4>::Vector)_mm256_cvtps_epi64((__m128)x.v[0])}};
}
// a + b from the units that multiply, and the flags are not told of it.
FW_INLINE Floats nearly(const Floats& a, const Floats& b) {
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {{(Floats::Vector)_mm512_fmadd_round_ps((__m512)a.v[0], _mm512_set1_ps(1), (__m512)b.v[0], how)}};
}
// All together, to the nearest, likewise.
FW_INLINE int64_t nearly_whole(const Pack<double, 8>& of) {
  constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const auto sum = (__m512d)of.v[0], two = _mm512_add_round_pd(sum, _mm512_shuffle_f64x2(sum, sum, 0x4e), how),
             one = _mm512_add_round_pd(two, _mm512_shuffle_f64x2(two, two, 0xb1), how);
  return _mm_cvt_roundsd_i64(_mm512_castpd512_pd128(_mm512_add_round_pd(one, _mm512_permute_pd(one, 0x55), how)), how);
}
#else
constexpr bool has_long_words = false;
Pack<int64_t, native<double>> whole_long_words(const Pack<float, native<double>>& x);
FW_INLINE Floats nearly(const Floats& a, const Floats& b) { return a + b; }
FW_INLINE int64_t nearly_whole(const Pack<double, native<double>>& of) { return std::llrint(summed(of)); }
#endif

FW_INLINE Pack<double, native<double>> nearly(const Pack<double, native<double>>& sum, const Pack<float, native<double>>& some) {
  return {{added_unnoted(widened<double>(some.v[0]), sum.v[0])}};
}

// How many bits a float16, bfloat16, float32 or float64 has.
template <class S>
constexpr int digits_of = std::is_same_v<S, half> ? 11 : std::is_same_v<S, bfloat> ? 8 : std::numeric_limits<S>::digits;

constexpr int64_t most_counted = 32768;

// Of float16 most often two are a float together: of so many, most often all. What tells how often their words wrap must leave the
// flags alone.
template <class F> constexpr bool starts_in_pairs = counts_halves<F> && has_long_words;
constexpr int64_t pairs_per_check = 4096;

// Floats up to forty binades apart, a bfloat16's up to 56, are multiples of one unit, and a word of 64 bits is enough for each. A
// float16 is a multiple of 2^-24, and below 128 a word of 32 bits is. Their sum may wrap: a sum of floats is near enough to say
// how often.
template <class F>
class WholeNumbers {
  using S = typename F::Source;
  static constexpr bool is_half = std::is_same_v<S, half>;
  using Word = std::conditional_t<is_half, std::int32_t, int64_t>;
  using Words = Pack<Word, native<Word>>;
  using Doubles = Pack<double, native<double>>;
  static constexpr int N = floats_at_once, vectors = 4, per_vector = N / native<Word>, bits = 8 * sizeof(Word);
  // Each lane of a sum of floats gets so many that it is wrong by at most 2^56 units, of 32 bits by 2^21: all of them together, by
  // less than a quarter of a word's turn.
  static constexpr int64_t lanes = vectors * N, turn = is_half ? 128 * lanes : most_counted;
  // None of these sums is beyond all floats where a word's turn is not.
  static constexpr int fewest_places = bits - 127 + static_cast<int>(std::bit_width(static_cast<uint64_t>(turn / lanes)));

  // A vector of a block. Where two bfloat16 share a place of a vector, one of each two comes first.
  static FW_INLINE Floats loaded(const S* block, int vector) {
    if constexpr (std::is_same_v<S, bfloat>) {
      const auto both = load_vector<std::uint32_t, N>(reinterpret_cast<const std::uint32_t*>(block + vector / 2 * 2 * N));
      return F::summed(Floats{{std::bit_cast<Floats::Vector>(vector % 2 ? both & 0xffff0000u : both << 16)}});
    } else {
      return F::summed(load<float, N>(block + vector * N));
    }
  }

  // Half of it: a float's is in memory, from where it takes less time than out of the vector.
  static FW_INLINE auto half_loaded(const S* block, int vector, int h, const Floats& x) {
    if constexpr (std::is_same_v<S, float>) return F::summed(load<float, N / 2>(block + vector * N + h * (N / 2)));
    else return h ? upper(x) : lower(x);
  }

  // The sum in units, if `wrapped` has not turned, and about as much as it is, not in units. Of `together` elements floats hold the sum.
  template <int together>
  static FW_INLINE Word take(const S* p, int64_t count, float scale, const Ahead& ahead, Doubles& near) {
    constexpr int64_t at_once = together * lanes;
    Words sums[vectors * per_vector] = {};
    Floats floats[vectors];  // only ever named by constants, or they would not stay in registers
    const auto step = [&](const S* block) FW_INLINED {
      repeat<vectors>([&](int v) FW_INLINED {
        Floats x;
        repeat<together>([&](int t) FW_INLINED {
          const int at = v * together + t;
          if (ahead.far && at * N * sizeof(S) % line_bytes == 0) ask_for_next(block + at * N, ahead);
          x = t == 0 ? loaded(block, at) : Floats{{added_aside(loaded(block, at).v[0], x.v[0])}};
        });
        if constexpr (is_half) {
          sums[v] = sums[v] + whole_words(x * splat<float, N>(scale));
        } else {
          repeat<2>([&](int h) FW_INLINED {
            auto& sum = sums[2 * v + h];
            sum = sum + whole_long_words(half_loaded(block, v, h, x) * splat<float, N / 2>(scale));
          });
        }
        floats[v] = nearly(x, floats[v]);
      });
    };
    near = splat<double, native<double>>(0.0);
    S last[at_once];
    for (int64_t left = count / at_once * at_once, rest = count - left; left || rest;) {
      if (!left) {
        std::fill(std::copy_n(p, std::exchange(rest, 0), last), last + at_once, S{});
        p = last, left = at_once;
      }
      repeat<vectors>([&](int v) FW_INLINED { floats[v] = {}; });
      const S* const end = p + std::min(left, together * turn);
      left -= end - p;
      for (; p < end; p += at_once) step(p);
      const Floats all = nearly(nearly(floats[0], floats[1]), nearly(floats[2], floats[3]));
      near = nearly(nearly(near, lower(all)), upper(all));
    }
    repeat<vectors * per_vector - 1>([&](int v) FW_INLINED { sums[0] = sums[0] + sums[v + 1]; });
    return summed(sums[0]);
  }

#if defined(__AVX512DQ__)
  // The same of what is in cache; from memory the above is faster. A lane may get two elements more.
  static FW_OUTLINE Word take_by_fours(const float* p, int64_t count, float scale, Doubles& near) {
    constexpr int at_once = vectors * N, sums_at_once = 8;
    Pack<Word, 4> sums[sums_at_once];
    Floats floats[vectors];
    repeat<sums_at_once>([&](int k) FW_INLINED { sums[k] = splat<Word, 4>(0); });
    repeat<vectors>([&](int v) FW_INLINED { floats[v] = splat<float, N>(0); });
    const auto scaled = [&](const float* block, float* to) FW_INLINED {
      repeat<vectors>([&](int v) FW_INLINED {
        const Floats x = F::summed(in_register(load<float, N>(block + v * N)));
        store(to + v * N, x * splat<float, N>(scale));
        floats[v] = nearly(x, floats[v]);
      });
    };
    const auto counted = [&](const float* some) FW_INLINED {
      repeat<at_once / 4>([&](int k) FW_INLINED {
        auto& sum = sums[k % sums_at_once];
        sum = sum + whole_long_words(load<float, 4>(some + 4 * k));
      });
    };
    made_and_taken<at_once, most_counted>(p, count, scaled, counted, [] {});
    const Floats all = nearly(nearly(floats[0], floats[1]), nearly(floats[2], floats[3]));
    near = nearly({{widened<double>(lower(all).v[0])}}, upper(all));
    repeat<sums_at_once - 1>([&](int k) FW_INLINED { sums[0] = sums[0] + sums[k + 1]; });
    return summed(sums[0]);
  }
#endif
  static FW_INLINE Word take_all(const S* p, int64_t count, float scale, const Ahead& ahead, Doubles& near) {
    if constexpr (widens_by_fours && std::is_same_v<S, float>) {
      if (zen4 && !ahead.far && count >= least_made) return take_by_fours(p, count, scale, near);
    }
    return take<1>(p, count, scale, ahead, near);
  }

 public:
  static constexpr bool suits = F::linear && has_long_words && sizeof(S) < 8;  // but for float16, which ask for themselves
  static constexpr int binades = 64 - digits_of<S>;  // a word, less what one of them has

  // The sum of up to `most_counted` float16, unless the flags say that one is too large; of pairs, that a float does not hold one.
  template <int together>
  static FW_INLINE double halves(const S* p, int64_t count, const Ahead& ahead) {
    constexpr float scale = 0x1p24f;
    Doubles near;
    const Word wrapped = take<together>(p, count, scale, ahead, near);
    const int64_t about = nearly_whole(near * splat<double, native<double>>(scale));
    const auto off = static_cast<Word>(static_cast<std::uint32_t>(wrapped) - static_cast<std::uint32_t>(about));
    return static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(about) + static_cast<uint64_t>(off))) * (1.0 / scale);
  }
  template <int together>
  static FW_INLINE bool add_halves(Tally<F>& sum, const S* p, int64_t count, const Ahead& ahead) {
    clear_flags();
    const double here = halves<together>(p, count, ahead);
    settle(&here);
    if (raised_flags(together > 1 ? flag_of_any : flag_of_invalid)) return false;
    sum.add(here);
    return true;
  }

  // Adds up to `most_counted` elements, unless the flags say that they are not whole, or too large.
  static FW_INLINE bool add(Tally<F>& sum, const S* p, int64_t count, Exponents here, const Ahead& ahead) {
    // Where a word has bits to spare, half of them are above: not all elements were seen.
    const int idle = binades - (here.above - here.below), most = 63 - idle / 2 - here.above, places = std::min(most, 127);
    if (places < fewest_places || most - places > idle - idle / 2) return false;
    const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(places + 127) << 23);
    Doubles near;
    clear_flags();
    const Word wrapped = take_all(p, count, scale, ahead, near);
    settle(&wrapped);
    if (lost_bits()) return false;
    const double turns = std::nearbyint(summed(near) * power_of_two(places - bits) - static_cast<double>(wrapped) * power_of_two(-bits));
    const __int128 units = (static_cast<__int128>(static_cast<int64_t>(turns)) << bits) + wrapped;
    sum.add_units(units < 0 ? -units : units, -places, units < 0);
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
  static FW_INLINE void take(const S* p, int64_t count, double unit, const Ahead& ahead, double* sums) {
    Some units[vectors] = {}, rests[vectors] = {};
    const auto step = [&](int v, const Some& loaded) FW_INLINED {
      const auto x = F::summed(loaded).v[0], scale = unit - typename Some::Vector{};
      const auto whole = whole_unnoted(x * scale);
      units[v] = {{units[v].v[0] + whole}};
      rests[v] = {{added_aside(fused(x, scale, -whole), rests[v].v[0])}};
    };
    int64_t i = 0;
    for (; i + at_once <= count; i += at_once) {
      repeat<vectors>([&](int v) FW_INLINED {
        const S* at = p + i + v * W;
        if (ahead.far && v * W * sizeof(S) % line_bytes == 0) ask_for_next(at, ahead);
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
  static constexpr bool suits = rounds_unnoted && !adds_unnoted && F::linear && !std::is_same_v<S, half>;
  static constexpr int binades = 2 * bits - spare_units - spare_rests - digits_of<S>;

  // Adds up to `most_counted` elements, unless the flags say that units or rests have lost bits.
  static FW_INLINE bool add(Tally<F>& sum, const S* p, int64_t count, Exponents here, const Ahead& ahead) {
    const int unused = (binades - (here.above - here.below)) / 2, places = bits - spare_units - unused - here.above;
    if (std::abs(places) > 900) return false;  // sums must not overflow, either
    double sums[2 * at_once];
    clear_flags();
    take(p, count, power_of_two(places), ahead, sums);
    settle(sums);
    if (lost_bits()) return false;
    for (double& each : sums) each *= power_of_two(-places);
    add_halved(sum, sums, at_once);
    add_halved(sum, sums + at_once, at_once);
    return true;
  }
};

}  // namespace foldwise::FOLDWISE_ISA

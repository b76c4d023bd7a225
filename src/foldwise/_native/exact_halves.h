// Sums of float16 as whole numbers: digits are multiplied by powers of two, 32 at a time, and nothing is converted.
#pragma once
#include "exact_folds.h"

namespace foldwise::FOLDWISE_ISA {

template <class F> constexpr bool counts_halves = std::is_same_v<F, ExactSum<half, double>>;
template <class F> constexpr bool may_weigh = counts_halves<F> && vector_bytes == 64;
template <class S> class WeighedHalves;  // of float16 only
constexpr int64_t most_weighed_rows = 64;  // of columns, whose words hold so many products

// Short pieces of a sequence wait in lanes until it ends, where these hold them.
template <class F>
class Waiting {
 public:
  FW_INLINE bool take(Tally<F>&, const typename F::Source*, int64_t) { return false; }
  FW_INLINE void add_to(Tally<F>&) {}
};

#if defined(__AVX512BW__)
// A float16 is some units of 2^-24: its eleven digits, times a power of two that its exponent tells. Two tables hold these powers, with
// its sign: one of small numbers, one of large ones in units 2^15 times as large, and each has nothing where the other one has something.
// So all products have at most 25 bits, and words of 32 bits hold the sums of sixty-four.
struct WeightsOfHalves {
  static constexpr int exponents = 32, group = 15;
  alignas(line_bytes) std::int16_t small[2 * exponents] = {}, large[2 * exponents] = {};
  constexpr WeightsOfHalves() {
    for (int e = 0; e < exponents - 1; ++e) {
      const int place = std::max(e, 1) - 1;  // the least numbers have the second exponent's unit
      std::int16_t* const weights = place < group ? small : large;
      weights[e] = static_cast<std::int16_t>(1 << place % group);
      weights[exponents + e] = static_cast<std::int16_t>(-weights[e]);
    }
  }
};
inline constexpr WeightsOfHalves weights_of_halves;

template <>
class WeighedHalves<half> {
 public:
  static constexpr int lanes = 8, columns = 32;

 private:
  static constexpr int N = 32, last_unit = -24, words = 2;
  static constexpr int64_t at_once = 8 * N, block = 7 * at_once;  // of less than which no word takes more than 32 vectors
  using Lanes = Pack<double, lanes>;

  struct Table {
    __m512i positive, negative;
    FW_INLINE explicit Table(const std::int16_t* of) : positive(_mm512_load_si512(of)), negative(_mm512_load_si512(of + WeightsOfHalves::exponents)) {}
    FW_INLINE __m512i operator()(__m512i exponents) const { return _mm512_permutex2var_epi16(positive, exponents, negative); }
  };
  const Table small_{weights_of_halves.small}, large_{weights_of_halves.large};
  // In registers: the compiler would make them anew for each vector.
  const __m512i size_ = all(0x7fff), behind_first_ = all(0x3ff), first_ = all(0x400);
  __m512i largest_ = _mm512_setzero_si512();

  static FW_INLINE __m512i all(std::int16_t bits) { return by_itself(_mm512_set1_epi16(bits)); }

  // The sums of neighbours' products are added. (By its name, the compiler would have it only for processors that all have it.)
  static FW_INLINE __m512i with_products(__m512i sum, __m512i a, __m512i b) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }

  struct Sums {
    __m512i small = _mm512_setzero_si512(), large = small;
  };
  FW_INLINE void take(__m512i x, Sums& sums) {
    // In this order every unit of the processor has something to do: others take up to a quarter longer.
    const __m512i behind_first = by_itself(_mm512_and_si512(x, behind_first_)), exponent = by_itself(_mm512_srli_epi16(x, 10));
    const __m512i with_first = by_itself(_mm512_or_si512(behind_first, first_)), size = by_itself(_mm512_and_si512(x, size_));
    largest_ = by_itself(_mm512_max_epu16(largest_, size));
    const __m512i digits = by_itself(_mm512_min_epu16(size, with_first));  // the least numbers have no first one
    sums.small = with_products(sums.small, digits, small_(exponent));
    sums.large = with_products(sums.large, digits, large_(exponent));
  }

  // Words of 32 bits, added by pairs.
  static FW_INLINE __m512i longer(__m512i sums) {
    return _mm512_add_epi64(_mm512_srai_epi64(_mm512_slli_epi64(sums, 32), 32), _mm512_srai_epi64(sums, 32));
  }

  FW_INLINE void take_last(const half* p, int64_t count, Sums& whole, Sums& rest) {
    for (; count >= N; count -= N, p += N) take(by_itself(_mm512_loadu_si512(p)), whole);
    if (count) take(_mm512_maskz_loadu_epi16((1u << count) - 1, p), rest);
  }

  // The sums of each lane, in units. (Memory is asked for nothing: the processor's own reading ahead is faster here.)
  FW_INLINE __m512i counted(const half* p, int64_t count) {
    __m512i small = _mm512_setzero_si512(), large = small;
    for (int64_t here; count; count -= here) {
      here = std::min(count, block);
      const half* const end = p + here / at_once * at_once;
      Sums sums[words];
      for (; p < end; p += at_once) {
        repeat<at_once / N>([&](int v) FW_INLINED { take(by_itself(_mm512_loadu_si512(p + v * N)), sums[v % words]); });
      }
      take_last(p, here % at_once, sums[0], sums[1]);
      p += here % at_once;
      repeat<words>([&](int w) FW_INLINED {
        small = _mm512_add_epi64(small, longer(sums[w].small));
        large = _mm512_add_epi64(large, longer(sums[w].large));
      });
    }
    return _mm512_add_epi64(small, _mm512_slli_epi64(large, WeightsOfHalves::group));
  }

  // Two rows of columns: every number's neighbour is then of its own column. Of each eight columns four are in the one, four in the other.
  struct Columns {
    Sums some, others;
  };
  FW_INLINE void take_rows(__m512i above, __m512i below, Columns& sums) {
    const __m512i some = by_itself(_mm512_unpacklo_epi16(above, below)), others = by_itself(_mm512_unpackhi_epi16(above, below));
    take(some, sums.some);
    take(others, sums.others);
  }
  template <int R, class InRow>
  static FW_INLINE void take_all_rows(WeighedHalves& halves, InRow&& in_row, Columns& sums) {
    repeat<R / 2>([&](int pair) FW_INLINED { halves.take_rows(in_row(2 * pair), in_row(2 * pair + 1), sums); });
    if constexpr (R % 2) halves.take_rows(in_row(R - 1), _mm512_setzero_si512(), sums);
  }
  static FW_INLINE Columns load_words(const double* at) {
    const auto word = [&](int w) FW_INLINED { return _mm512_loadu_si512(at + w * lanes); };
    return {{word(0), word(1)}, {word(2), word(3)}};
  }
  static FW_INLINE void store_words(double* at, const Columns& sums) {
    const auto word = [&](int w, __m512i sum) FW_INLINED { _mm512_storeu_si512(at + w * lanes, sum); };
    word(0, sums.some.small), word(1, sums.some.large), word(2, sums.others.small), word(3, sums.others.large);
  }
  // In their order, as doubles.
  static FW_INLINE void store_sums(double* to, const Columns& sums) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23), next = _mm512_set1_epi32(8);
    repeat<2>([&](int h) FW_INLINED {
      const __m512i order = h ? _mm512_add_epi32(first, next) : first;
      const __m512i small = _mm512_permutex2var_epi32(sums.some.small, order, sums.others.small);
      const __m512i large = _mm512_permutex2var_epi32(sums.some.large, order, sums.others.large);
      store_units(to + h * N / 2, units(_mm512_castsi512_si256(small), _mm512_castsi512_si256(large)));
      store_units(to + h * N / 2 + lanes, units(_mm512_extracti64x4_epi64(small, 1), _mm512_extracti64x4_epi64(large, 1)));
    });
  }
  static FW_INLINE __m512d units(__m256i small, __m256i large) {
    return _mm512_fmadd_pd(_mm512_cvtepi32_pd(large), _mm512_set1_pd(1 << WeightsOfHalves::group), _mm512_cvtepi32_pd(small));
  }
  static FW_INLINE __m512d in_units(__m512d units) { return _mm512_mul_pd(units, _mm512_set1_pd(power_of_two(last_unit))); }
  static FW_INLINE void store_units(double* to, __m512d units) { _mm512_storeu_pd(to, in_units(units)); }

  // Of so few elements half as many words hold the sums.
  static constexpr int64_t most_few = 16 * N;
  FW_INLINE __m512d few(const half* p, int64_t count) {
    Sums sums;
    take_last(p, count, sums, sums);
    const auto halved = [](__m512i all) FW_INLINED {
      return _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    };
    return units(halved(sums.small), halved(sums.large));
  }

 public:
  // Whether all that was taken were numbers.
  FW_INLINE bool all_finite() const { return !_mm512_cmpge_epu16_mask(largest_, _mm512_set1_epi16(0x7c00)); }

  // The sums of each lane of a row that doubles hold.
  static constexpr int64_t most_in_row = 8192;
  FW_INLINE Lanes row(const half* p, int64_t count) {
    const __m512d units = count <= most_few ? few(p, count) : _mm512_cvtepi64_pd(counted(p, count));
    return {{(Lanes::Vector)in_units(units)}};
  }

  // The sums of a line of columns, or of less, in so many rows: until the last of them, words in their place.
  template <int R>
  FW_INLINE void take_columns(const half* const (&rows)[R], int64_t first, int64_t count, double* sums, bool begins, bool ends) {
    Columns all;
    if (!begins) all = load_words(sums);
    if (count >= columns) {
      take_all_rows<R>(*this, [&](int r) FW_INLINED { return by_itself(_mm512_loadu_si512(rows[r] + first)); }, all);
    } else {
      const __mmask32 there = (1u << count) - 1;
      take_all_rows<R>(*this, [&](int r) FW_INLINED { return by_itself(_mm512_maskz_loadu_epi16(there, rows[r] + first)); }, all);
    }
    if (ends) store_sums(sums, all);
    else store_words(sums, all);
  }

  // Adds the sums of so many elements to those of each lane, if all of them are numbers.
  static FW_OUTLINE bool add(int64_t (&sums)[lanes], const half* p, int64_t count) {
    WeighedHalves halves;
    const __m512i more = halves.counted(p, count);
    if (!halves.all_finite()) return false;
    _mm512_storeu_si512(sums, _mm512_add_epi64(_mm512_loadu_si512(sums), more));
    return true;
  }
  // What lanes come to, of at most so many elements.
  static constexpr int64_t most_held = int64_t{1} << 23;  // each has less than 2^40 units
  template <class Sum>
  static FW_INLINE void add_lanes(Sum& sum, const int64_t (&sums)[lanes]) {
    const int64_t units = _mm512_reduce_add_epi64(_mm512_loadu_si512(sums));
    sum.add_units(static_cast<uint64_t>(std::abs(units)), last_unit, units < 0);
  }
  template <class Sum>
  static FW_INLINE bool add(Sum& sum, const half* p, int64_t count) {
    int64_t sums[lanes] = {};
    if (!add(sums, p, count)) return false;
    add_lanes(sum, sums);
    return true;
  }
};

template <class F>
  requires may_weigh<F>
class Waiting<F> {
  using Halves = WeighedHalves<half>;
  static constexpr int64_t longest = 1 << 16;
  int64_t sums_[Halves::lanes] = {}, held_ = 0;

 public:
  FW_INLINE bool take(Tally<F>& all, const half* p, int64_t count) {
    if (!adds_products || count > longest) return false;
    if (held_ + count > Halves::most_held) add_to(all);
    if (!Halves::add(sums_, p, count)) return false;
    held_ += count;
    return true;
  }
  FW_INLINE void add_to(Tally<F>& all) {
    if (held_) Halves::add_lanes(all, sums_);
    *this = {};
  }
};
#endif

}  // namespace foldwise::FOLDWISE_ISA

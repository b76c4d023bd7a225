// Many elements, one after the other, by their bits: sign and exponent say to which words a fraction is added, and a Total gets what
// these hold.
#include <algorithm>
#include <cstring>
#include <limits>

#include "exact.h"

namespace foldwise {

namespace {

template <class Float> struct Layout;
template <> struct Layout<bfloat> {
  using Bits = std::int16_t;
  static constexpr int fraction_bits = 7, bias = 127;
  static double value(bfloat x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
};
template <> struct Layout<float> {
  using Bits = std::int32_t;
  static constexpr int fraction_bits = 23, bias = 127;
  static double value(float x) { return x; }
};
template <> struct Layout<double> {
  using Bits = int64_t;
  static constexpr int fraction_bits = 52, bias = 1023;
  static double value(double x) { return x; }
};

// Where they lie in memory need not suit them.
template <class Float>
[[gnu::always_inline]] inline Float element(const Float* x, int64_t i) {
  Float one;
  std::memcpy(&one, reinterpret_cast<const char*>(x) + i * static_cast<int64_t>(sizeof one), sizeof one);
  return one;
}

// Elements are taken for whole ones, whose fraction has a one before it; zeros, subnormals and specials are put right in the end. Those
// of one sign and exponent share a word, which counts them as well. A double's fraction has no room for that: those whose exponents
// begin alike share two words, the rest of the exponent says how far up a fraction goes, and what is above 43 bits goes to the other.
template <class Float>
class Words {
  using Bits = typename Layout<Float>::Bits;
  static constexpr int fraction_bits = Layout<Float>::fraction_bits, bias = Layout<Float>::bias, exponents = 2 * (bias + 1);
  static constexpr bool counts = fraction_bits < 32;
  static constexpr int alike_bits = counts ? 0 : 5, alike = 1 << alike_bits, groups = exponents / alike;
  static constexpr int low_bits = 43, sum_bits = 44;
  static constexpr int64_t one = int64_t{1} << fraction_bits, specials = (exponents - 1) * one;
  static constexpr uint64_t counted = uint64_t{1} << sum_bits;

  // Neighbours go to words of their own, so that like ones do not wait for each other.
  uint64_t words_[2][2 * groups] = {}, above_[2][counts ? 1 : 2 * groups] = {};

  static uint64_t bits_of(Float x) { return static_cast<std::make_unsigned_t<Bits>>(std::bit_cast<Bits>(x)); }

  [[gnu::always_inline]] void join(int turn, Float x) {
    const uint64_t bits = bits_of(x), group = bits >> (fraction_bits + alike_bits);
    if constexpr (counts) {
      words_[turn][group] += (bits & (one - 1)) | one | counted;
    } else {
      const uint64_t fraction = (bits & (one - 1)) | one;
      const int up = static_cast<int>(bits >> fraction_bits) & (alike - 1);
      words_[turn][group] += (fraction << up) & ((uint64_t{1} << low_bits) - 1);
      above_[turn][group] += fraction >> (low_bits - up);
    }
  }
  __int128 sum(int group) const {
    if constexpr (counts) return (words_[0][group] & (counted - 1)) + (words_[1][group] & (counted - 1));
    const __int128 low = static_cast<__int128>(words_[0][group]) + words_[1][group];
    return low + (static_cast<__int128>(above_[0][group] + above_[1][group]) << low_bits);
  }
  int64_t count(int group) const { return static_cast<int64_t>((words_[0][group] >> sum_bits) + (words_[1][group] >> sum_bits)); }

  // What zeros and subnormals were taken for, less what they are: they have no one, and are worth twice as much.
  __int128 surplus(int group) const { return 2 * static_cast<__int128>(one) * count(group) - sum(group); }
  static constexpr int64_t few = 1024;
  static int64_t surplus(const Float* x, int64_t count, int64_t& largest) {
    int64_t all = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bits = std::bit_cast<Bits>(element(x, i)), sign = bits >> 63, size = bits & std::numeric_limits<Bits>::max();
      const int64_t here = std::max<int64_t>(one - size, 0);
      all += (here ^ sign) - sign;
      largest = std::max(largest, size);
    }
    return all;
  }
  // They were taken for numbers beyond the largest.
  static void note_specials(Total& total, const Float* x, int64_t size) {
    __int128 too_much = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t bits = std::bit_cast<Bits>(element(x, i));
      if ((bits & specials) != specials) continue;
      total.add(Layout<Float>::value(element(x, i)));
      const __int128 units = static_cast<__int128>((bits & (one - 1)) | one) << (alike - 1);
      too_much += bits < 0 ? -units : units;
    }
    add_units(total, -too_much, groups - 1);
  }
  static void add_units(Total& total, __int128 units, int group) {
    if (units == 0) return;
    const int place = group * alike - bias - fraction_bits - Total::lowest;
    if (const auto word = static_cast<int64_t>(units); word == units) total.add_units(word, place);
    else total.add_units(units < 0 ? -units : units, place, units < 0);
  }

 public:
  static constexpr int64_t most = int64_t{1} << (counts ? 63 - sum_bits : 64 - low_bits);

  Words(const Float* x, int64_t count) {
    int64_t i = 0;
    for (; i + 1 < count; i += 2) {
      join(0, element(x, i));
      join(1, element(x, i + 1));
    }
    if (i < count) join(0, element(x, i));
  }

  void add_to(Total& total, const Float* x, int64_t size) const {
    __int128 too_much = 0;
    int64_t largest = 0;
    if constexpr (counts) {
      too_much = surplus(0) - surplus(groups);
      if (count(groups - 1) || count(2 * groups - 1)) largest = specials;
    } else if (sum(0) || sum(groups) || sum(groups - 1) || sum(2 * groups - 1)) {
      for (int64_t i = 0; i < size; i += few) too_much += surplus(x + i, std::min(few, size - i), largest);
    }
    for (int group = 0; group < groups; ++group) add_units(total, sum(group) - sum(group + groups), group);
    add_units(total, -too_much, 0);
    if (largest >= specials) note_specials(total, x, size);
  }
};

template <class Float>
void add_by_words(Total& total, const Float* x, int64_t count) {
  constexpr int64_t worth_it = 256;
  for (int64_t some; count; x += some, count -= some) {
    some = std::min(count, Words<Float>::most);
    if (some >= worth_it) Words<Float>(x, some).add_to(total, x, some);
    else for (int64_t i = 0; i < some; ++i) total.add(Layout<Float>::value(element(x, i)));
  }
}

}  // namespace

void Total::add_all(const bfloat* x, int64_t count) { add_by_words(*this, x, count); }
void Total::add_all(const float* x, int64_t count) { add_by_words(*this, x, count); }
void Total::add_all(const double* x, int64_t count) { add_by_words(*this, x, count); }

}  // namespace foldwise

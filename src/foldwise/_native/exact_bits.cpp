// Many elements, one after the other, by their bits: sign and exponent say to which words a fraction is added, and a Total gets what
// these hold.
#include <algorithm>
#include <cstring>

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

// What the fractions of one sign and exponent add up to, and how many they are. A double's has no room for that in one number: its
// last 32 bits are added apart.
template <int low_bits> struct Word {
  uint64_t low = 0, high = 0;
};
template <> struct Word<0> {
  static constexpr uint64_t low = 0;
  uint64_t high = 0;
};

// Elements are taken for normal ones, whose fraction has a one before it; sign and exponent are the number of a word.
template <class Float>
class Words {
  using Bits = typename Layout<Float>::Bits;
  static constexpr int fraction_bits = Layout<Float>::fraction_bits, bias = Layout<Float>::bias, exponents = 2 * (bias + 1);
  static constexpr int low_bits = fraction_bits > 32 ? 32 : 0, high_bits = fraction_bits - low_bits, sum_bits = 44;
  static constexpr int special = exponents - 1;
  static constexpr uint64_t one = uint64_t{1} << high_bits, counted = uint64_t{1} << sum_bits;

  // Neighbours go to words of their own, so that like ones do not wait for each other; of longer words two of each fill the cache.
  static constexpr int turns = low_bits ? 1 : 2;
  alignas(64) Word<low_bits> words_[turns][2 * exponents];

  [[gnu::always_inline]] void join(int turn, Float x) {
    const uint64_t bits = static_cast<std::make_unsigned_t<Bits>>(std::bit_cast<Bits>(x));
    Word<low_bits>& word = words_[turn][bits >> fraction_bits];
    if constexpr (low_bits) word.low += bits & ((uint64_t{1} << low_bits) - 1);
    word.high += ((bits >> low_bits) & (one - 1)) | one | counted;
  }
  int64_t count(int word) const {
    int64_t all = 0;
    for (const auto& words : words_) all += static_cast<int64_t>(words[word].high >> sum_bits);
    return all;
  }
  // In half units of the least numbers, times two to the exponent.
  using Sum = std::conditional_t<low_bits != 0, __int128, int64_t>;
  [[gnu::always_inline]] Sum sum(int word) const {
    Sum all = 0;
    for (const auto& words : words_) all += (static_cast<Sum>(words[word].high & (counted - 1)) << low_bits) + words[word].low;
    return all;
  }
  // What zeros and subnormals were taken for, less what they are: they have no one, and are worth twice as much.
  __int128 surplus(int word) const { return (static_cast<__int128>(2 * count(word)) << fraction_bits) - sum(word); }

  static void add_units(Total& total, __int128 units, int exponent) {
    if (units) total.add_units(units < 0 ? -units : units, exponent - bias - fraction_bits - Total::lowest, units < 0);
  }

 public:
  static constexpr int64_t most = int64_t{1} << (63 - sum_bits);
  static constexpr int64_t worth_it = low_bits ? 3072 : 256;  // to be cleared, and looked at

  Words(const Float* x, int64_t count) : words_{} {
    int64_t i = 0;
    for (; i + 1 < count; i += 2) {
      join(0, element(x, i));
      join(turns - 1, element(x, i + 1));
    }
    if (i < count) join(0, element(x, i));
  }

  void add_to(Total& total, const Float* x, int64_t size) const {
    constexpr int together = 32;
    for (int first = 0; first < exponents; first += together) {
      __int128 units = 0;
      for (int exponent = std::min(first + together, special) - 1; exponent >= first; --exponent) {
        units = 2 * units + (sum(exponent) - sum(exponent + exponents));
      }
      add_units(total, units, first);
    }
    add_units(total, surplus(exponents) - surplus(0), 0);
    if (!count(special) && !count(special + exponents)) return;
    for (int64_t i = 0; i < size; ++i) {
      if (const double value = Layout<Float>::value(element(x, i)); value - value != 0) total.add(value);
    }
  }
};

template <class Float>
void add_by_words(Total& total, const Float* x, int64_t count) {
  for (int64_t some; count; x += some, count -= some) {
    some = std::min(count, Words<Float>::most);
    if (some >= Words<Float>::worth_it) Words<Float>(x, some).add_to(total, x, some);
    else for (int64_t i = 0; i < some; ++i) total.add(Layout<Float>::value(element(x, i)));
  }
}

}  // namespace

void Total::add_all(const bfloat* x, int64_t count) { add_by_words(*this, x, count); }
void Total::add_all(const float* x, int64_t count) { add_by_words(*this, x, count); }
void Total::add_all(const double* x, int64_t count) { add_by_words(*this, x, count); }

}  // namespace foldwise

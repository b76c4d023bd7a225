// An exact sum: every bit that floats, or squares of floats, can have, in fixed point. Order never matters to it.
#pragma once
#include <bit>
#include <cstring>

#include "types.h"

namespace foldwise {

// Digits of 32 bits, each in a signed word of 64, so that carries can wait. As plain memory: it is also what Python keeps.
class Total {
 public:
  static constexpr int digits = 138;
  static constexpr int lowest = -2176;  // digit 0 counts units of 2^lowest: less than the least square of a double

  Total() { clear(); }

  [[gnu::always_inline]] void add(double x) {
    const auto bits = std::bit_cast<uint64_t>(x);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    if (exponent == 0x7ff) [[unlikely]] return note_special(x);
    const int place = exponent + (exponent == 0) - 1075 - lowest;
    const uint64_t fraction = (bits & fraction_mask) | uint64_t{exponent != 0} << 52;
    const auto shifted = static_cast<unsigned __int128>(fraction) << (place & 31);
    const int64_t sign = -static_cast<int64_t>(bits >> 63);
    const int first = place >> 5;
    int64_t* at = digit_ + first;
    at[0] += (static_cast<int64_t>(shifted & digit_mask) ^ sign) - sign;
    at[1] += (static_cast<int64_t>(shifted >> 32 & digit_mask) ^ sign) - sign;
    at[2] += (static_cast<int64_t>(shifted >> 64) ^ sign) - sign;
    touch(first, first + 2);
  }
  void add_square(double x);
  void add(const Total& other, bool negated = false);
  // One more element, and all carries done: for those who look at the sum after each.
  void step(double x);

  // The sum, or what an ending makes of it, rounded once to the nearest value of a dtype.
  double rounded(const Finish& finish, Dtype dtype) const;
  // The nearest double, taken away from the sum.
  double taken();
  bool is_zero() const;
  bool is_special() const { return specials_ != 0; }

  // Digits in [0, 2^32), the last of them with the sign.
  void carry();

 private:
  static constexpr uint64_t fraction_mask = (uint64_t{1} << 52) - 1;
  static constexpr int64_t digit_mask = 0xffffffff;
  static constexpr int64_t most_waiting = int64_t{1} << 30;
  enum Special : int64_t { nan = 1, positive = 2, negative = 4 };

  [[gnu::always_inline]] void clear() {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    first_ = digits;
  }
  [[gnu::always_inline]] void touch(int first, int last) {
    first_ = first < first_ ? first : first_;
    last_ = last > last_ ? last : last_;
    if (++waiting_ >= most_waiting) [[unlikely]] carry();
  }
  void carry_from(int64_t first);
  void note_special(double x);
  double special() const;
  struct Window;
  Window window() const;

  int64_t digit_[digits];
  int64_t specials_;
  int64_t waiting_;        // additions since the last carry
  int64_t first_, last_;   // all other digits are zero
};

}  // namespace foldwise

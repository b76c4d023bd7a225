// Exact sums as memory that Python keeps, too: every bit that floats, or squares of floats, can have, in fixed point; or
// few doubles, which hold ordinary data's. Order never matters to them.
#pragma once
#include <bit>
#include <cstring>

#include "types.h"

namespace foldwise {

// The largest integer whose square is not above.
uint64_t root_of(unsigned __int128 square);

// Digits of 32 bits, each in a signed word of 64, so that carries can wait.
class Total {
 public:
  static constexpr int digits = 138;
  static constexpr int lowest = -2176;  // digit 0 counts units of 2^lowest: less than the least square of a double

  Total() { clear(); }

  [[gnu::always_inline]] void add(double x) {
    const Parts parts(x);
    if (parts.special) [[unlikely]] return note_special(x);
    add_units(static_cast<int64_t>(parts.units()), parts.place);
  }
  void add_all(const bfloat* x, int64_t count);
  void add_all(const float* x, int64_t count);
  void add_all(const double* x, int64_t count);
  void add_square(double x);
  // Units of 2^(lowest + place).
  [[gnu::always_inline]] void add_units(int64_t units, int place) {
    const int first = place >> 5, shift = place & 31;
    const int64_t above = units >> (32 - shift);
    int64_t* at = digit_ + first;
    at[0] += static_cast<int64_t>(static_cast<uint64_t>(units) << shift) & digit_mask;
    at[1] += above & digit_mask;
    at[2] += above >> 32;
    touch(first, first + 2);
  }
  void add_units(unsigned __int128 units, int place, bool negative);
  bool add(const Total& other, bool negated = false);  // there is always room
  // The sum after each of more elements, which lie elsewhere: a double that is rounded to the dtype as the sum is.
  void prefixes(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out);

  // The sum, or what an ending makes of it, rounded once to the nearest value of a dtype.
  double rounded(const Finish& finish, Dtype dtype) const;
  // The nearest double, taken away from the sum.
  double taken();
  // So often that nothing is left; false if something is.
  bool taken(double* parts, int most);
  bool is_zero() const;
  bool is_special() const { return specials_ != 0; }

  // Digits in [0, 2^32), the last of them with the sign.
  void carry();

 private:
  static constexpr int64_t digit_mask = 0xffffffff;
  static constexpr int64_t most_waiting = int64_t{1} << 30;
  enum Special : int64_t { nan = 1, positive = 2, negative = 4 };

  // A double as a whole number of units of 2^(lowest + place), and a sign: 0 or -1.
  struct Parts {
    bool special;
    int place;
    int64_t sign;
    uint64_t fraction;

    [[gnu::always_inline]] explicit Parts(double x) {
      const auto bits = std::bit_cast<uint64_t>(x);
      const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
      special = exponent == 0x7ff;
      place = exponent + (exponent == 0) - 1075 - lowest;
      sign = -static_cast<int64_t>(bits >> 63);
      fraction = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{exponent != 0} << 52;
    }
    [[gnu::always_inline]] int first() const { return place >> 5; }  // the digit in which it begins
    [[gnu::always_inline]] uint64_t units() const { return (fraction ^ sign) - sign; }
  };

  [[gnu::always_inline]] void clear() {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    first_ = digits;
  }
  [[gnu::always_inline]] void touch(int first, int last) {
    first_ = first < first_ ? first : first_;
    last_ = last > last_ ? last : last_;
    if (++waiting_ >= most_waiting) [[unlikely]] carry();
  }
  template <class Word>
  Word upper_part(int place, int64_t& lost) const;
  template <class Word>
  int64_t prefixes_in_a_word(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out);
  void prefixes_by_digits(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out);
  void step(double x);
  void carry_from(int64_t first);
  void note_special(double x);
  double special() const;
  friend struct Doubles;
  struct Window;
  Window window() const;
  static bool taken(Window from, double* parts, int most);

  int64_t digit_[digits];
  int64_t specials_;
  int64_t waiting_;        // additions since the last carry
  int64_t first_, last_;   // all other digits are zero
};

// a + b, rounded, and what was lost.
[[gnu::always_inline]] inline double two_sum(double a, double b, double& error) {
  const double sum = a + b, back = sum - a;
  error = (a - (sum - back)) + (b - back);
  return sum;
}

// An exact sum as doubles that add up to it: the nearest one, the nearest to what that leaves, and what is left then.
struct Doubles {
  static constexpr int count = 3;
  double part[count];

  Total total() const;
  // Both are false, and change nothing, where so many doubles do not hold the sum. The Total is used up.
  [[gnu::always_inline]] bool add(const Doubles& more) {
    const bool two_of_each = part[2] == 0 && more.part[2] == 0;
    double first, second, third, fourth, lost;
    first = two_sum(part[0], more.part[0], lost);
    second = two_sum(part[1], more.part[1], third);
    second = two_sum(second, lost, fourth);
    first = two_sum(first, second, second);
    if (!two_of_each || third != 0 || fourth != 0 || first - first != 0) [[unlikely]] return add_digits(more);
    part[0] = first;
    part[1] = second;
    return true;
  }
  bool add(Total& more);
  // As a Total's.
  double rounded(const Finish& finish, Dtype dtype) const;

 private:
  bool add_digits(const Doubles& more);
};

}  // namespace foldwise

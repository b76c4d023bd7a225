#include "exact.h"

#include <algorithm>
#include <limits>

namespace foldwise {

namespace {

using Wide = unsigned __int128;

int width_of(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<uint64_t>(value));
}

// The largest integer whose square is not above.
uint64_t root_of(Wide square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 63; bit; bit >>= 1) {
    const uint64_t more = root | bit;
    if (Wide(more) * more <= square) root = more;
  }
  return root;
}

// 2^power, where that is a double.
double power_of_two(int power) {
  return std::bit_cast<double>(power >= -1022 ? uint64_t(power + 1023) << 52 : uint64_t{1} << (power + 1074));
}

// What a dtype can hold: bits of a fraction, and the power of two of the least one.
struct Precision {
  int bits, least;
};
constexpr Precision precision_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return {11, -24};
    case Dtype::bfloat16: return {8, -133};
    case Dtype::float32: return {24, -149};
    default: return {53, -1074};
  }
}

// (value + something below its last place, if `more`) * 2^exponent, rounded to nearest even; of what is beyond a narrower
// dtype, a double that is as well.
double as_double(Wide value, bool more, int exponent, Precision precision) {
  constexpr int most = 971;
  const int dropped = std::max({width_of(value) - precision.bits, precision.least - exponent, 0});
  if (dropped > 128) return 0;
  if (dropped) {
    const Wide half = Wide(1) << (dropped - 1), rest = dropped == 128 ? value : value & ((Wide(1) << dropped) - 1);
    value = dropped == 128 ? 0 : value >> dropped;
    value += rest > half || (rest == half && (more || (value & 1)));
  }
  exponent += dropped;
  if (value == 0) return 0;
  if (exponent > most) return std::numeric_limits<double>::infinity();
  return static_cast<double>(static_cast<uint64_t>(value)) * power_of_two(exponent);
}

}  // namespace

// The highest bits of the magnitude, as many as fit, and whether there are more below.
struct Total::Window {
  Wide value;
  bool more, negative;
  int exponent;
};

void Total::note_special(double x) {
  specials_ |= x != x ? Special::nan : x > 0 ? Special::positive : Special::negative;
}

double Total::special() const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (specials_ == Special::positive) return infinity;
  if (specials_ == Special::negative) return -infinity;
  return std::numeric_limits<double>::quiet_NaN();
}

void Total::add_square(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff) return note_special(x * x);
  const uint64_t fraction = (bits & fraction_mask) | uint64_t{exponent != 0} << 52;
  const int place = 2 * (exponent + (exponent == 0) - 1075) - lowest;
  const Wide square = Wide(fraction) * fraction;
  const int shift = place & 31;
  int64_t* at = digit_ + (place >> 5);
  for (int i = 0; i < 5; ++i) {
    const int from = 32 * i - shift;
    at[i] += static_cast<int64_t>(from < 0 ? square << -from : from < 128 ? square >> from : 0) & digit_mask;
  }
  touch(place >> 5, (place >> 5) + 4);
}

void Total::add(const Total& other, bool negated) {
  Total carried = other;
  carried.carry();
  carry();
  for (int64_t i = carried.first_; i <= carried.last_; ++i) digit_[i] += negated ? -carried.digit_[i] : carried.digit_[i];
  first_ = std::min(first_, carried.first_);
  last_ = std::max(last_, carried.last_);
  const bool crossed = negated && (other.specials_ == Special::positive || other.specials_ == Special::negative);
  specials_ |= crossed ? other.specials_ ^ (Special::positive | Special::negative) : other.specials_;
  carry();
}

void Total::carry() { carry_from(first_); }

void Total::carry_from(int64_t first) {
  waiting_ = 0;
  if (first > last_) return;
  int64_t over = 0;
  int64_t i = first;
  const auto fits = [](int64_t whole) { return whole == static_cast<std::int32_t>(whole); };
  for (;; ++i) {
    const int64_t whole = digit_[i] + over;
    if (i == digits - 1 || (i >= last_ && fits(whole))) {
      digit_[i] = whole;
      break;
    }
    digit_[i] = whole & digit_mask;
    over = whole >> 32;
  }
  last_ = i;
  // The sign is in the last digit: nothing above, and no more of it than there must be.
  while (last_ > first_ && (digit_[last_] == 0 || digit_[last_] == -1)) {
    const int64_t below = digit_[last_ - 1] | (digit_[last_] << 32);
    if (!fits(below)) break;
    digit_[last_] = 0;
    digit_[--last_] = below;
  }
}

void Total::step(double x) {
  if (waiting_) carry();
  const auto exponent = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff);
  const int64_t top = last_;
  add(x);
  if (exponent == 0x7ff) return;
  waiting_ = 0;
  const int64_t first = (exponent + (exponent == 0) - 1075 - lowest) >> 5, touched = first + 2;
  if (touched >= top) return carry_from(std::min(first, top));
  // From where it was added to where nothing is carried any more.
  int64_t over = 0;
  for (int64_t i = first; i < top; ++i) {
    const int64_t whole = digit_[i] + over;
    digit_[i] = whole & digit_mask;
    over = whole >> 32;
    if (i >= touched && over == 0) return;
  }
  digit_[top] += over;
  carry_from(top);
}

Total::Window Total::window() const {
  const bool negative = last_ >= first_ && digit_[last_] < 0;
  const int64_t fill = negative ? digit_mask : 0;
  const auto digit = [&](int64_t i) { return static_cast<uint64_t>(i < 0 ? 0 : i > last_ ? fill : digit_[i] & digit_mask); };
  int64_t top = last_;
  while (top > 0 && digit(top) == static_cast<uint64_t>(fill)) --top;
  const int64_t last = std::max<int64_t>(top - 4, 0);
  bool more = false;
  for (int64_t i = last - 1; i >= first_ && !more; --i) more = digit_[i] != 0;
  // Five digits, of which the magnitude's highest bits are kept.
  uint64_t each[5];
  uint64_t one = negative && !more;  // what negation adds at the end
  for (int i = 0; i < 5; ++i) {
    each[i] = digit(last + i);
    if (!negative) continue;
    each[i] = (~each[i] & digit_mask) + one;
    one = each[i] >> 32;
    each[i] &= digit_mask;
  }
  Wide value = Wide(each[4]) << 96 | Wide(each[3]) << 64 | each[2] << 32 | each[1];
  uint64_t low = each[0];
  int exponent = lowest + 32 * static_cast<int>(last + 1);
  if (one) value = Wide(1) << 127, exponent += 1;  // all of them are zero, and the power of two above
  const int room = value ? 128 - width_of(value) : 128;
  if (room >= 32) value = value << 32 | low, low = 0, exponent -= 32;
  else if (room) value = value << room | low >> (32 - room), low = low << room & digit_mask, exponent -= room;
  return {value, more || low, negative, exponent};
}

double Total::rounded(const Finish& finish, Dtype dtype) const {
  if (specials_) return special();
  Window w;
  if (waiting_) {
    Total carried = *this;
    carried.carry();
    w = carried.window();
  } else {
    w = window();
  }
  if (w.value && (finish.ending == Ending::mean || finish.ending == Ending::root)) {
    // As many bits as there can be, so that what is made of them has more than a double.
    const int room = 128 - width_of(w.value);
    w.value <<= room;
    w.exponent -= room;
  }
  if (finish.ending == Ending::mean) {
    const auto count = static_cast<uint64_t>(finish.count);
    if (count == 0) return std::numeric_limits<double>::quiet_NaN();
    w.more |= w.value % count != 0;
    w.value /= count;
  } else if (finish.ending == Ending::root) {
    if (w.exponent & 1) {
      w.more |= w.value & 1;
      w.value >>= 1;
      ++w.exponent;
    }
    const uint64_t root = root_of(w.value);
    w.more |= Wide(root) * root != w.value;
    w.value = root;
    w.exponent /= 2;
  }
  const double size = as_double(w.value, w.more, w.exponent, precision_of(dtype));
  return w.negative ? -size : size;
}

double Total::taken() {
  carry();
  const double nearest = rounded({}, Dtype::float64);
  add(-nearest);
  carry();
  return nearest;
}

bool Total::is_zero() const {
  Total carried = *this;
  carried.carry();
  return carried.last_ <= carried.first_ && (carried.first_ > carried.last_ || carried.digit_[carried.last_] == 0) && specials_ == 0;
}

}  // namespace foldwise

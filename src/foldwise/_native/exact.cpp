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
inline double as_double(Wide value, bool more, int exponent, Precision precision) {
  constexpr int most = 971;
  if (value == 0) return 0;  // and then there is nothing below
  // The first 64 bits, the last of them set where anything is left out: no dtype has more than 53.
  const int width = width_of(value);
  exponent += width - 64;
  uint64_t bits;
  if (width > 64) {
    bits = static_cast<uint64_t>(value >> (width - 64));
    more |= value << (192 - width) != 0;
  } else {
    bits = static_cast<uint64_t>(value) << (64 - width);
  }
  bits |= more;
  const int dropped = std::max(64 - precision.bits, precision.least - exponent);
  if (dropped > 64) return 0;
  exponent += dropped;
  const uint64_t half = uint64_t{1} << (dropped - 1);
  uint64_t whole = 0, rest = bits;
  if (dropped < 64) whole = bits >> dropped, rest = bits & (2 * half - 1);
  whole += rest + (whole & 1) > half;
  if (exponent > most) return std::numeric_limits<double>::infinity();
  return static_cast<double>(whole) * power_of_two(exponent);
}

}  // namespace

// The highest bits of the magnitude, as many as fit, and whether there are more below.
struct Total::Window {
  Wide value;
  bool more, negative;
  int exponent;

  double rounded(const Finish& finish, Dtype dtype) const;
  // Of a double, and of one below its last place; false where so many bits do not hold them.
  bool take(double x, double beyond);
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
  const Parts parts(x);
  if (parts.special) return note_special(x * x);
  add_units(Wide(parts.fraction) * parts.fraction, 2 * (parts.place + lowest) - lowest, false);
}

void Total::add_units(Wide units, int place, bool negative) {
  const int shift = place & 31, first = place >> 5;
  for (int i = 0; i < 5; ++i) {
    const int from = 32 * i - shift;
    const auto digit = static_cast<int64_t>(from < 0 ? units << -from : from < 128 ? units >> from : 0) & digit_mask;
    digit_[first + i] += negative ? -digit : digit;
  }
  touch(first, first + 4);
}

bool Total::add(const Total& other, bool negated) {
  Total carried = other;
  carried.carry();
  carry();
  for (int64_t i = carried.first_; i <= carried.last_; ++i) digit_[i] += negated ? -carried.digit_[i] : carried.digit_[i];
  first_ = std::min(first_, carried.first_);
  last_ = std::max(last_, carried.last_);
  const bool crossed = negated && (other.specials_ == Special::positive || other.specials_ == Special::negative);
  specials_ |= crossed ? other.specials_ ^ (Special::positive | Special::negative) : other.specials_;
  carry();
  return true;
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

void Total::prefixes(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out) {
  constexpr int64_t most = 256;
  for (int64_t some; count; x += some, out += some * stride, count -= some) {
    some = std::min(count, most);
    carry();
    if (!prefixes_in_one_word(x, some, stride, dtype, out)) prefixes_by_digits(x, some, stride, dtype, out);
  }
}

void Total::prefixes_by_digits(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out) {
  const Precision precision = precision_of(dtype);
  for (int64_t i = 0; i < count; ++i) {
    step(x[i]);
    if (digit_[last_] == 0 || digit_[last_] == -1) carry_from(last_);  // digits that cancelled leave it nothing to say
    const Window w = specials_ ? Window{} : window();
    const double size = specials_ ? special() : as_double(w.value, w.more, w.exponent, precision);
    out[i * stride] = w.negative ? -size : size;
  }
}

// Of at most 256 elements that are not far apart, from each other and from the sum: in units of the least bit of all.
bool Total::prefixes_in_one_word(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out) {
  int64_t least = first_;
  while (least <= last_ && digit_[least] == 0) ++least;
  int low = static_cast<int>(32 * least), high = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Parts parts(x[i]);
    if (parts.special) return false;
    if (parts.fraction == 0) continue;
    low = std::min(low, parts.place);
    high = std::max(high, parts.place + 53);
  }
  if (specials_ || std::max<int64_t>(high, 32 * (last_ + 1)) + 9 - low > 127) return false;
  const int64_t first = low >> 5;
  const int shift = low & 31;
  __int128 held = 0;
  for (int64_t i = least; i <= last_; ++i) held += static_cast<__int128>(digit_[i]) << (32 * (i - first) - shift);
  const __int128 before = held;
  const Precision precision = precision_of(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const Parts parts(x[i]);
    const __int128 units = static_cast<__int128>(parts.fraction) << (parts.fraction ? parts.place - low : 0);
    held += (units ^ parts.sign) - parts.sign;
    const bool negative = held < 0;
    const double size = as_double(negative ? -held : held, false, lowest + low, precision);
    out[i * stride] = negative ? -size : size;
  }
  const __int128 change = held - before;
  if (change) add_units(change < 0 ? -change : change, low, change < 0);
  return true;
}

// Added to a sum that is carried, and carried on from there to where nothing is any more.
inline void Total::step(double x) {
  const Parts parts(x);
  if (parts.special) return note_special(x);
  const int64_t top = last_, first = parts.first(), touched = first + 2;
  add(x);
  waiting_ = 0;
  if (touched >= top) return carry_from(std::min(first, top));
  int64_t over = 0;
  for (int64_t i = first; i < top; ++i) {
    const int64_t whole = digit_[i] + over;
    digit_[i] = whole & digit_mask;
    over = whole >> 32;
    if (i < touched || over) continue;
    if (i == top - 1) carry_from(top);  // the digit below the last may have left nothing for that to say
    return;
  }
  digit_[top] += over;
  carry_from(top);
}

Total::Window Total::window() const {
  const auto digit = [this](int64_t i) { return i < 0 ? 0 : static_cast<uint64_t>(digit_[i]); };
  const int64_t top = last_;
  const bool negative = digit_[top] < 0;
  Wide value = Wide(digit_[top]) << 96 | Wide(digit(top - 1)) << 64 | digit(top - 2) << 32 | digit(top - 3);
  uint64_t next = digit(top - 4);
  // Sign bits that say nothing make room for the next digit's.
  const int room = std::min(127 - width_of(negative ? ~value : value), 32);
  value = value << room | next >> (32 - room);
  next = next << room & digit_mask;
  bool more = next != 0;
  for (int64_t i = top - 5; i >= first_ && !more; --i) more = digit_[i] != 0;
  if (negative) value = ~value + !more;
  return {value, more, negative, lowest + 32 * static_cast<int>(top - 3) - room};
}

double Total::rounded(const Finish& finish, Dtype dtype) const {
  if (specials_) return special();
  if (!waiting_) return window().rounded(finish, dtype);
  Total carried = *this;
  carried.carry();
  return carried.window().rounded(finish, dtype);
}

double Total::Window::rounded(const Finish& finish, Dtype dtype) const {
  Window w = *this;
  if (w.value && !w.more) {
    // As many bits as there can be, so that what an ending makes of them has more than a double.
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

bool Total::Window::take(double x, double beyond) {
  const Parts high(x), low(beyond);
  *this = {high.fraction, false, high.sign && high.fraction, lowest + high.place};
  if (high.special || low.fraction == 0) return !high.special;
  const int spare = std::countr_zero(low.fraction), below = high.place - low.place - spare;
  if (below < 0 || below > 128 - 54) return false;
  const Wide rest = low.fraction >> spare;
  value = high.sign == low.sign ? (value << below) + rest : (value << below) - rest;
  exponent -= below;
  return true;
}

double Total::taken() {
  carry();
  const double nearest = rounded({}, Dtype::float64);
  add(-nearest);
  carry();
  return nearest;
}

bool Total::taken(double* parts, int most) {
  std::fill_n(parts, most, 0.0);
  if (specials_) return parts[0] = special(), true;
  carry();
  if (first_ > last_) return true;
  const Window w = window();
  if (!w.more) return taken(w, parts, most);
  for (int i = 0; i < most && !is_zero(); ++i) parts[i] = taken();
  return is_zero();
}

// Of 128 bits: what each double leaves is less than half of its last place, of either sign.
bool Total::taken(Window from, double* parts, int most) {
  for (int i = 0; i < most && from.value != 0; ++i) {
    const double size = as_double(from.value, false, from.exponent, precision_of(Dtype::float64));
    const Parts nearest(size);
    if (nearest.special || size == 0) return false;
    parts[i] = from.negative ? -size : size;
    const int shift = nearest.place + lowest - from.exponent;
    const auto left = static_cast<__int128>(from.value - (shift < 0 ? Wide(nearest.fraction) >> -shift : Wide(nearest.fraction) << shift));
    from.negative ^= left < 0;
    from.value = left < 0 ? -left : left;
  }
  return from.value == 0;
}

Total Doubles::total() const {
  Total sum;
  for (const double each : part) {
    if (each != 0) sum.add(each);
  }
  return sum;
}

bool Doubles::add_digits(const Doubles& more) {
  Total sum = more.total();
  return add(sum);
}

bool Doubles::add(Total& more) {
  for (const double each : part) {
    if (each != 0) more.add(each);
  }
  double parts[count];
  if (!more.taken(parts, count)) return false;
  std::copy_n(parts, count, part);
  return true;
}

double Doubles::rounded(const Finish& finish, Dtype dtype) const {
  const bool two = part[2] == 0;
  if (two && finish.ending == Ending::none && dtype == Dtype::float64) return part[0] + part[1] + 0.0;
  Total::Window sum;
  return two && sum.take(part[0], part[1]) ? sum.rounded(finish, dtype) : total().rounded(finish, dtype);
}

bool Total::is_zero() const {
  Total carried = *this;
  carried.carry();
  return carried.last_ <= carried.first_ && (carried.first_ > carried.last_ || carried.digit_[carried.last_] == 0) && specials_ == 0;
}

}  // namespace foldwise

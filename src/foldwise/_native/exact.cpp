#include "exact.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foldwise {

namespace {

using Wide = unsigned __int128;

int width_of(uint64_t value) { return std::bit_width(value); }
int width_of(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high ? 64 + width_of(high) : width_of(static_cast<uint64_t>(value));
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

// A number's first 64 bits, the last of them set where anything is left out: no dtype has more than 53.
struct Leading {
  uint64_t bits;
  int exponent;  // of their last one
};
template <class Word>
inline Leading leading(Word value, int width, bool more, int exponent) {
  exponent += width - 64;
  if (sizeof value == 8 || width <= 64) return {static_cast<uint64_t>(value) << (64 - width) | more, exponent};
  return {static_cast<uint64_t>(value >> (width - 64)) | (more || value << (192 - width) != 0), exponent};
}

// How many of these a dtype has not; more than 64 where it has nothing so small.
inline int dropped_of(const Leading& number, Precision precision) {
  return std::max(64 - precision.bits, precision.least - number.exponent);
}

// Rounded to nearest even; of what is beyond a narrower dtype, a double that is as well.
inline double nearest(const Leading& number, int dropped) {
  constexpr int most = 971;
  if (dropped > 64) return 0;
  const int exponent = number.exponent + dropped;
  const uint64_t half = uint64_t{1} << (dropped - 1);
  uint64_t whole = 0, rest = number.bits;
  if (dropped < 64) whole = rest >> dropped, rest &= 2 * half - 1;
  whole += rest + (whole & 1) > half;
  if (exponent > most) return std::numeric_limits<double>::infinity();
  return static_cast<double>(static_cast<int64_t>(whole)) * power_of_two(exponent);
}

// (value + something below its last place, if `more`) * 2^exponent, rounded.
inline double as_double(Wide value, bool more, int exponent, Precision precision) {
  if (value == 0) return 0;  // and then there is nothing below
  const Leading number = leading(value, width_of(value), more, exponent);
  return nearest(number, dropped_of(number, precision));
}

// Whether a number of that width is rounded alike, be it larger or smaller by so many units, fewer than 2^9. (Below a power of two
// halves are half as large.)
inline bool is_sure(const Leading& number, int width, uint64_t unsure, int dropped) {
  if (unsure == 0) return true;
  if (dropped > 63 || width < 11) return false;
  const uint64_t half = uint64_t{1} << (dropped - 1), rest = number.bits & (2 * half - 1);
  const uint64_t reach = width <= 64 ? unsure << (64 - width) : (unsure >> (width - 64)) + 2;
  return (rest > half ? rest - half : half - rest) > 2 * reach;
}

}  // namespace

uint64_t root_of(Wide square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 63; bit; bit >>= 1) {
    const uint64_t more = root | bit;
    if (Wide(more) * more <= square) root = more;
  }
  return root;
}

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
  constexpr int64_t few = 16, most = 256;
  for (int64_t done, next = few; count; x += done, out += done * stride, count -= done) {
    carry();
    done = dtype == Dtype::float64 ? prefixes_in_a_word<__int128>(x, count, stride, dtype, out)
                                   : prefixes_in_a_word<int64_t>(x, count, stride, dtype, out);
    if (done >= few || done == count) continue;
    // Words that last so little are not worth it: the next elements go by digits, each time more of them.
    const int64_t some = std::min(count - done, next);
    carry();
    prefixes_by_digits(x + done, some, stride, dtype, out + done * stride);
    done += some;
    next = std::min(2 * next, most);
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

// Doubles that are sure to be rounded as a sum would be, of which a word holds the upper part; what it leaves out is less than 2^9 of
// its units.
struct Nearly {
  const double least;  // units; what is smaller has fewer digits than its dtype, or is not sure
  const uint64_t half, rest;

  Nearly(Precision precision, double unit)
      : least(std::max(0x1p40, power_of_two(precision.least + precision.bits) / unit)),
        half(precision.bits < 53 ? uint64_t{1} << (52 - precision.bits) : 0),
        rest(precision.bits < 53 ? 2 * half - 1 : 0) {}

  // Where the last bits are about `half`, the double is about half way between two shorter numbers.
  bool tells(int64_t held, double& units) const {
    constexpr uint64_t reach = 1 << 22;
    units = static_cast<double>(held);
    return std::fabs(units) >= least && ((std::bit_cast<uint64_t>(units) - half + reach) & rest) > 2 * reach;
  }
  bool tells(__int128 held, double& units) const {
    constexpr double reach = 0x1p12;
    const auto low = static_cast<int64_t>(held);
    const double high = static_cast<double>(static_cast<int64_t>(held >> 64) + (low < 0)) * 0x1p64;
    units = high + (static_cast<double>(low) + reach);
    return units == high + (static_cast<double>(low) - reach) && std::fabs(units) >= least;
  }
};

// A carried sum in units of 2^(lowest + place), but for less than one: `lost` has bits where that leaves something out.
template <class Word>
Word Total::upper_part(int place, int64_t& lost) const {
  Word part = 0;
  for (int64_t i = last_; i >= first_; --i) {
    const int shift = 32 * static_cast<int>(i) - place, down = std::clamp(-shift, 0, 63);
    const int64_t whole = digit_[i] >> down;
    part += static_cast<Word>(whole) << std::max(shift, 0);
    lost |= whole << down ^ digit_[i];
  }
  return part;
}

// Of as many elements as are not much larger than a carried sum or the first of them, and whose sums the word's bits round: what is
// below the word is left out, each time less than a unit. Returns how many.
template <class Word>
int64_t Total::prefixes_in_a_word(const double* x, int64_t count, int64_t stride, Dtype dtype, double* out) {
  constexpr int bits = sizeof(Word) == 8 ? 63 : 64 + 53, room = 10, growth = 4;
  constexpr int64_t most = 256;
  const Parts begin(x[0]);
  if (specials_ || begin.special) return 0;
  const int64_t top = digit_[last_];
  const int highest = std::max(32 * static_cast<int>(last_) + width_of(static_cast<uint64_t>(top < 0 ? ~top : top)), begin.place + 53) + growth;
  const int place = highest + room - bits, exponent = lowest + place;
  int64_t lost = 0;
  const Word before = upper_part<Word>(place, lost);
  Word held = before;
  const Precision precision = precision_of(dtype);
  const double unit = power_of_two(std::clamp(exponent, -1022, 1023));
  const Nearly nearly(precision, exponent >= -1022 && exponent <= 1023 ? unit : 0);
  int64_t done = 0;
  for (const int64_t some = std::min(count, most); done < some; ++done) {
    const Parts parts(x[done]);
    if (parts.special || parts.place + 53 > highest) break;
    const auto units = static_cast<int64_t>(parts.units());
    const int shift = parts.place - place, up = std::max(shift, 0), down = std::min(up - shift, 63);
    const int64_t whole = units >> down;
    held += static_cast<Word>(whole) << up;
    lost |= whole << down ^ units;
    double& rounded = out[done * stride];
    if (nearly.tells(held, rounded)) {
      rounded *= unit;
      continue;
    }
    const bool negative = held < 0;
    const std::make_unsigned_t<Word> size = negative ? -held : held;
    const int width = width_of(size | 1);
    const Leading number = leading(size, width, false, exponent);
    const int dropped = dropped_of(number, precision);
    if (!is_sure(number, width, lost ? done + 2 : 0, dropped)) break;
    rounded = size == 0 ? 0 : negative ? -nearest(number, dropped) : nearest(number, dropped);
  }
  if (lost == 0) {
    const Word change = held - before;
    if (change) add_units(change < 0 ? -change : change, place, change < 0);
  } else {
    for (int64_t i = 0; i < done; ++i) add(x[i]);
  }
  return done;
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

// Exact sums of few doubles, and what endings make of them, without digits: in two doubles, where these tell how all is rounded.
#include <cmath>

#include "exact.h"

namespace foldwise {

namespace {

// x - a * b, where a * b is all but x and what is left is a double.
double left_of(double x, double a, double b) {
  const auto upper_half = [](double y) {
    const double above = y * 0x1.0000002p27;
    return above - (above - y);
  };
  const double product = a * b, a1 = upper_half(a), a2 = a - a1, b1 = upper_half(b), b2 = b - b1;
  const double lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2;
  return (x - product) - lost;
}

// Made odd, as something lies between it and its neighbour: rounding that to a shorter float gives what rounding all would.
double made_odd(double nearest, double beyond) {
  const auto bits = std::bit_cast<int64_t>(nearest);
  if (bits & 1) return nearest;
  return std::bit_cast<double>(bits + (std::signbit(nearest) == std::signbit(beyond) ? 1 : -1));
}

}  // namespace

std::optional<double> rounded_sum_of_few(const double* numbers, int64_t row, int count, const Finish& finish, Dtype dtype) {
  constexpr int most = 5;
  constexpr double largest = 0x1p900, least = 0x1p-900, negligible = 0x1p-48;
  double part[most] = {};
  for (int i = 0; i < count; ++i) part[i] = numbers[i * row];
  for (int turn = 1; turn < count; ++turn) {  // the sum itself comes first, and less and less is left behind it
    for (int i = count - 1; i > 0; --i) part[i - 1] = two_sum(part[i - 1], part[i], part[i]);
  }
  double rest = 0, apart = 0;
  for (int i = most - 1; i > 0; --i) rest += part[i], apart += std::fabs(part[i]);
  const double first = part[0];
  if (finish.ending == Ending::mean && (finish.count == 0 || finish.count > int64_t{1} << 53)) return std::nullopt;
  if (first == 0 && apart == 0) return 0.0;
  // Neither may what follows underflow, nor what is left be more than the last places.
  if (!(std::fabs(first) < largest && std::fabs(first) > least) || apart > std::fabs(first) * negligible) return std::nullopt;
  double near = first, left = 0, slope = 1;  // of the ending's inverse
  if (finish.ending == Ending::mean) {
    slope = static_cast<double>(finish.count);
    near = first / slope;
    left = left_of(first, near, slope);
  } else if (finish.ending == Ending::root) {
    near = std::sqrt(first);
    slope = 2 * near;
    left = left_of(first, near, near);
  }
  double beyond;
  const double step = (left + rest) / slope, nearest = two_sum(near, step, beyond);
  const double doubt = (std::fabs(left) + apart) / slope * negligible;
  const bool narrower = dtype == Dtype::float16 || dtype == Dtype::bfloat16 || dtype == Dtype::float32;
  if (!narrower) {
    if (nearest + (beyond + std::copysign(doubt, beyond)) == nearest) return nearest;
  } else if (left == 0 && apart == 0) {
    return nearest;
  } else if (std::fabs(beyond) > doubt) {
    return made_odd(nearest, beyond);
  }
  return std::nullopt;
}

}  // namespace foldwise

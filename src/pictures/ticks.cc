#include "pictures/ticks.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace headproof {
namespace {

std::string power_of_ten(int exponent) {
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += digits[digit - '0'];
  return text;
}

std::string plain_number(double value, std::chars_format format, int precision) {
  // to_chars, unlike printf, does not follow the locale.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format, precision).ptr;
  std::string text(buffer, end);
  return text.starts_with('-') ? "−" + text.substr(1) : text;
}

/// 1, 2 or 5 times a power of ten, the least of them that is not below `at_least`.
double round_step(double at_least) {
  const double power = std::pow(10, std::floor(std::log10(at_least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= at_least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> ticks_at_multiples(double low, double high, double step) {
  std::vector<Tick> ticks;
  const double slack = 1e-9 * (high - low);
  for (double n = std::ceil((low - slack) / step); n * step <= high + slack; ++n) {
    // Rounding to the step's own digits turns 0.30000000000000004 into 0.3.
    const double value = step < 1 ? n / std::round(1 / step) : n * step;
    ticks.push_back({value, number_label(value)});
    if (n + 1 == n) break;  // the range is narrower than the numbers in it are apart
  }
  return ticks;
}

}  // namespace

std::string number_label(double value) {
  if (value == 0) return "0";
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "−∞" : "∞";
  const double size = std::abs(value);
  if (size >= 1e-3 && size < 1e6) {
    return plain_number(value, std::chars_format::general, 6);
  }
  const std::string text = plain_number(value, std::chars_format::scientific, 3);
  const std::size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  while (digits.ends_with('0')) digits.pop_back();
  if (digits.ends_with('.')) digits.pop_back();
  int exponent = 0;
  const std::size_t first = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + first, text.data() + text.size(), exponent);
  const std::string power = power_of_ten(exponent);
  return digits == "1" ? power : digits == "−1" ? "−" + power : digits + "·" + power;
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  return ticks_at_multiples(low, high, round_step((high - low) / most));
}

std::vector<Tick> index_ticks(long long count, int most) {
  const double last = static_cast<double>(count) - 1;
  if (last < 0) return {};
  return ticks_at_multiples(0, last, std::max(1.0, round_step(std::max(last, 1.0) / most)));
}

std::vector<Tick> log_ticks(double low, double high, int most) {
  const double base = high / low > 5000 ? 10 : 2;
  const double slack = 1e-9;
  const double first = std::ceil(std::log(low) / std::log(base) - slack);
  const double last = std::floor(std::log(high) / std::log(base) + slack);
  const double stride = std::max(1.0, std::ceil((last - first + 1) / most));
  std::vector<Tick> ticks;
  // Counted from exponent 0, so that 1 is a tick wherever it is in the range.
  for (double n = std::ceil(first / stride) * stride; n <= last; n += stride) {
    const double value = std::pow(base, n);
    ticks.push_back({value, base == 10 ? power_of_ten(static_cast<int>(n))
                            : n < 0    ? "1/" + number_label(1 / value)
                                       : number_label(value)});
  }
  // A range within one factor of two has no powers to show.
  return ticks.size() < 2 ? linear_ticks(low, high, most) : ticks;
}

}  // namespace headproof

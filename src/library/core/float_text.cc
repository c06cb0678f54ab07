#include "core/float_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace posenc {
namespace {

// Significant digits d1 d2 d3 ... and the power of ten of the first: d1.d2d3... * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

// fmt knows the shortest digits; which notation it picks is its own business, so they are read off.
Decimal shortest_digits(double magnitude) {
  const std::string text = fmt::format("{}", magnitude);
  const std::size_t e = std::min(text.find('e'), text.size());
  Decimal result;
  int before_point = 0;
  bool point = false;
  for (const char c : std::string_view(text).substr(0, e)) {
    if (c == '.') {
      point = true;
    } else {
      result.digits += c;
      if (!point) ++before_point;
    }
  }
  const int written = e < text.size() ? std::atoi(text.c_str() + e + 1) : 0;
  const std::size_t zeros = std::min(result.digits.find_first_not_of('0'), result.digits.size());
  result.digits.erase(0, zeros);
  result.exponent = before_point - 1 - static_cast<int>(zeros) + written;
  const std::size_t last = result.digits.find_last_not_of('0');
  result.digits.erase(last == std::string::npos ? 0 : last + 1);
  return result;
}

std::string scientific(const Decimal& decimal) {
  const std::string rest = decimal.digits.substr(1);
  return fmt::format("{}{}{}e{}{:02}", decimal.digits[0], rest.empty() ? "" : ".", rest,
                     decimal.exponent < 0 ? '-' : '+', std::abs(decimal.exponent));
}

std::string plain(const Decimal& decimal, double magnitude) {
  const auto count = static_cast<int>(decimal.digits.size());
  if (decimal.exponent < 0) {
    return "0." + std::string(static_cast<std::size_t>(-decimal.exponent - 1), '0') +
           decimal.digits;
  }
  // Past 2^53 a whole number is written exactly, not with zeros after its shortest digits.
  if (count <= decimal.exponent + 1) return fmt::format("{:.0f}", magnitude);
  return decimal.digits.substr(0, static_cast<std::size_t>(decimal.exponent) + 1) + "." +
         decimal.digits.substr(static_cast<std::size_t>(decimal.exponent) + 1);
}

// The part of the text that may be a number; without hexadecimal digits, which strtod would take.
std::string decimal_part(const char* first, const char* last) {
  const char* stop = std::find_if(first, last, [](char c) { return c == 'x' || c == 'X'; });
  return {first, stop};
}

}  // namespace

std::string shortest_text_by_hand(double number) {
  const std::string sign = std::signbit(number) ? "-" : "";
  const double magnitude = std::abs(number);
  if (magnitude == 0.0) return sign + "0";
  const Decimal decimal = shortest_digits(magnitude);
  const std::string short_form = scientific(decimal);
  const std::string long_form = plain(decimal, magnitude);
  return sign + (long_form.size() <= short_form.size() ? long_form : short_form);
}

std::from_chars_result read_double_by_hand(const char* first, const char* last, double& number) {
  if (first == last || *first == '+' || std::isspace(static_cast<unsigned char>(*first)) != 0) {
    return {first, std::errc::invalid_argument};
  }
  const std::string text = decimal_part(first, last);
  char* stop = nullptr;
  errno = 0;
  const double read = std::strtod(text.c_str(), &stop);
  const char* end = first + (stop - text.c_str());
  if (end == first) return {first, std::errc::invalid_argument};
  const bool lost = errno == ERANGE && (read == 0.0 || std::isinf(read));
  if (lost) return {end, std::errc::result_out_of_range};
  number = read;
  return {end, std::errc()};
}

#if defined(__cpp_lib_to_chars)

std::string shortest_text(double number) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), result.ptr};
}

std::from_chars_result read_double(const char* first, const char* last, double& number) {
  return std::from_chars(first, last, number);
}

#else

std::string shortest_text(double number) { return shortest_text_by_hand(number); }

std::from_chars_result read_double(const char* first, const char* last, double& number) {
  return read_double_by_hand(first, last, number);
}

#endif

}  // namespace posenc

#include "command/ranges.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <string>

namespace posenc::command {
namespace {

constexpr std::int64_t kMostInteger = std::numeric_limits<std::int64_t>::max();
constexpr double kMostNumber = std::numeric_limits<double>::max();

std::string refusal(const std::string& rule, const std::string& text) {
  return fmt::format("must be {} but got {}", rule, text);
}

std::string rule_of(double least, double most) {
  return most < kMostNumber ? fmt::format("in [{}, {}]", least, most) : fmt::format(">= {}", least);
}

std::string rule_of(std::int64_t least, std::int64_t most) {
  return most < kMostInteger ? fmt::format("in [{}, {}]", least, most)
                             : fmt::format(">= {}", least);
}

// Empty, as CLI11 wants it, where the text is a finite number that `allows` accepts.
template <class Allows>
std::string number_problem(const std::string& text, const std::string& rule, const Allows& allows) {
  double number = 0.0;
  if (!CLI::detail::lexical_cast(text, number)) return refusal("a number", "'" + text + "'");
  if (!std::isfinite(number)) return refusal("finite", text);
  return allows(number) ? std::string() : refusal(rule, text);
}

CLI::Validator integers(std::int64_t least, std::int64_t most) {
  const std::string rule = rule_of(least, most);
  const auto check = [rule, least, most](const std::string& text) {
    std::int64_t number = 0;
    errno = 0;
    if (!CLI::detail::lexical_cast(text, number)) {
      return refusal("an integer", "'" + text + "'");
    }
    if (errno == ERANGE) return refusal(fmt::format("in [{}, {}]", least, most), text);
    return number >= least && number <= most ? std::string() : refusal(rule, text);
  };
  return {check, ""};
}

}  // namespace

CLI::Validator integer_in(std::int64_t least, std::int64_t most) { return integers(least, most); }

CLI::Validator integer_from(std::int64_t least) { return integers(least, kMostInteger); }

CLI::Validator number_in(double least, double most) {
  const std::string rule = rule_of(least, most);
  const auto check = [rule, least, most](const std::string& text) {
    return number_problem(text, rule, [&](double n) { return n >= least && n <= most; });
  };
  return {check, ""};
}

CLI::Validator number_from(double least) { return number_in(least, kMostNumber); }

CLI::Validator number_above(double bound) {
  const std::string rule = fmt::format("> {}", bound);
  const auto check = [rule, bound](const std::string& text) {
    return number_problem(text, rule, [&](double n) { return n > bound; });
  };
  return {check, ""};
}

}  // namespace posenc::command

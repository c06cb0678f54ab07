#include "draw/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/plain_text.h"
#include "draw/formula.h"

namespace posenc::draw {
namespace {

constexpr double kAlmost = 1e-9;  // a mark at an end is inside in spite of rounding

double round_step(double span, int most) {
  const double rough = span / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - kAlmost)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> linear_ticks(Range range, int most) {
  const double step = round_step(range.high - range.low, most);
  const double slack = step * kAlmost;
  std::vector<Tick> out;
  for (double n = std::ceil((range.low - slack) / step); n * step <= range.high + slack; ++n) {
    out.push_back({n * step, tick_text(n == 0 ? 0.0 : n * step)});
  }
  return out;
}

// 1, 2, 5, 10, 20, ...
std::vector<Tick> parts_of_powers(Range range, int first, int last) {
  std::vector<Tick> out;
  for (int power = first; power <= last; ++power) {
    for (const double part : {1, 2, 5}) {
      const double at = part * std::pow(10.0, power);
      const bool inside = at >= range.low * (1 - kAlmost) && at <= range.high * (1 + kAlmost);
      if (inside) out.push_back({at, tick_text(at)});
    }
  }
  return out;
}

std::vector<Tick> log_ticks(Range range, int most, double base) {
  const auto power_of = [&](double v) { return std::log(v) / std::log(base); };
  const int first = static_cast<int>(std::ceil(power_of(range.low) - kAlmost));
  const int last = static_cast<int>(std::floor(power_of(range.high) + kAlmost));
  if (base == 10.0) {
    std::vector<Tick> marks = parts_of_powers(range, first - 1, last);
    const auto count = static_cast<int>(marks.size());
    if (count > 2 && count <= most) return marks;
  }
  // Less than two powers say nothing about what lies between.
  if (last - first < 1) return linear_ticks(range, most);
  const int every = (last - first) / most + 1;
  std::vector<Tick> out;
  for (int power = first; power <= last; power += every) {
    const double at = std::pow(base, power);
    out.push_back({at, tick_text(at)});
  }
  return out;
}

std::vector<Tick> word_ticks(const Axis& axis, Range range, int most) {
  const int first = std::max(0, static_cast<int>(std::ceil(range.low)));
  const int last =
      std::min(static_cast<int>(axis.words.size()) - 1, static_cast<int>(std::floor(range.high)));
  const int every = std::max(1, (last - first + most) / std::max(1, most));
  std::vector<Tick> out;
  for (int i = first; i <= last; i += every) {
    out.push_back({static_cast<double>(i), axis.words[i]});
  }
  return out;
}

std::string power_of_ten(double value) {
  static constexpr std::array<const char*, 10> kRaised = {"⁰", "¹", "²", "³", "⁴",
                                                          "⁵", "⁶", "⁷", "⁸", "⁹"};
  const int power = static_cast<int>(std::lround(std::log10(value)));
  std::string text = power < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(power))) {
    text += kRaised[digit - '0'];
  }
  return text;
}

}  // namespace

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size == 0 || (size >= 1e-3 && size < 1e5)) return fmt::format("{:.6g}", value);
  const double power = std::log10(size);
  if (value > 0 && std::abs(power - std::round(power)) < kAlmost) return power_of_ten(value);
  if (size >= 1e5 && size < 1e7 && size == std::floor(size)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::vector<Tick> ticks(const Axis& axis, Range range, int most) {
  most = std::max(2, most);
  if (!axis.words.empty()) return word_ticks(axis, range, most);
  if (axis.log) return log_ticks(range, most, axis.base2 ? 2.0 : 10.0);
  return linear_ticks(range, most);
}

std::string rounded_text(double value, double span) {
  if (std::abs(value) < span * 1e-6) return "0";
  const int digits = 2 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  const double unit = std::pow(10.0, digits);
  return tick_text(std::round(value * unit) / unit);
}

namespace {

double run_width(std::string_view text) {
  double width = 0.0;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(std::max<std::size_t>(1, character_length(text)));
    if (std::string_view("iljtfI.,:;'|!()[] ").find(c) != std::string_view::npos) {
      width += 0.36;
    } else {
      width += c == 'm' || c == 'w' || (c >= 'A' && c <= 'Z') ? 0.78 : 0.62;
    }
  }
  return width;
}

}  // namespace

double text_width(std::string_view text) {
  constexpr double kSmaller = 0.74;  // lowered and raised letters
  double width = 0.0;
  for (const TextRun& run : text_runs(text)) {
    width += run_width(run.text) * (run.shift == Shift::kNone ? 1.0 : kSmaller);
  }
  return width;
}

}  // namespace posenc::draw

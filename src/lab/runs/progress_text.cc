#include "runs/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/value.h"
#include "runs/numbers.h"

namespace posenc::runs {
namespace {

void append_part(std::string& line, const std::string& part) {
  if (!part.empty()) line += (line.empty() ? "" : "  ") + part;
}

std::string count_text(const ProgressState& state) {
  return state.total > 0 ? fmt::format("{}/{}", state.step, state.total)
                         : fmt::format("{}", state.step);
}

std::string left_text(const ProgressState& state) {
  return state.seconds_left ? duration_text(*state.seconds_left) + " left" : "";
}

double share_of(const ProgressState& state) {
  if (state.total <= 0) return 0;
  const double share = static_cast<double>(state.step) / static_cast<double>(state.total);
  return std::clamp(share, 0.0, 1.0);
}

std::string scaled(double number, double base, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  for (; std::abs(number) >= base && unit + 1 < units.size(); ++unit) number /= base;
  const int decimals = unit == 0 || number >= 100 ? 0 : number >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}{}", number, decimals, units[unit]);
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<std::int64_t>(std::clamp(std::round(seconds), 0.0, 1e9));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string compact_count(double number) {
  constexpr std::array<std::string_view, 4> kUnits = {"", "k", "M", "G"};
  return scaled(number, 1000, kUnits);
}

std::string byte_text(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string fields_text(const ProgressState& state) {
  std::string line;
  if (state.loss) append_part(line, fmt::format("loss {:.4g}", *state.loss));
  if (state.accuracy) append_part(line, fmt::format("acc {:.1f} %", 100 * *state.accuracy));
  for (const auto& [name, value] : state.more)
    append_part(line, fmt::format("{} {:.4g}", name, value));
  if (state.tokens_per_second)
    append_part(line, compact_count(*state.tokens_per_second) + " tok/s");
  if (state.memory_bytes) append_part(line, byte_text(*state.memory_bytes));
  return line;
}

std::string plain_line(const ProgressState& state, std::optional<double> took) {
  std::string line = state.phase + " " + count_text(state);
  append_part(line, fields_text(state));
  append_part(line, took ? "in " + duration_text(*took) : left_text(state));
  return line;
}

std::string bar_line(const ProgressState& state, int width) {
  constexpr int kShortestBar = 8;
  constexpr int kLongestBar = 40;
  const double share = share_of(state);
  std::string head = state.phase;
  if (state.total > 0) head += fmt::format(" {:3.0f} % ", std::floor(100 * share));
  std::string tail = count_text(state);
  append_part(tail, fields_text(state));
  append_part(tail, left_text(state));
  const int room = width - static_cast<int>(head.size() + tail.size()) - 3;
  if (state.total > 0 && room >= kShortestBar) {
    const int length = std::min(room, kLongestBar);
    const auto full = static_cast<std::size_t>(share * length);
    const auto rest = static_cast<std::size_t>(length) - full;
    head += "[" + std::string(full, '#') + std::string(rest, '.') + "]";
  }
  return (head + " " + tail).substr(0, static_cast<std::size_t>(std::max(width, 0)));
}

std::string json_line(const ProgressState& state) {
  Value::Map map = {{"phase", Value::of_string(state.phase)}, {"step", {Value::Data(state.step)}}};
  if (state.total > 0) map.push_back({"total", {Value::Data(state.total)}});
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) map.push_back({key, {Value::Data(*value)}});
  };
  add("loss", state.loss);
  add("accuracy", state.accuracy);
  for (const auto& [name, value] : state.more) map.push_back({name, {Value::Data(value)}});
  add("tokens_per_second", state.tokens_per_second);
  add("memory_bytes", state.memory_bytes);
  add("seconds_left", state.seconds_left);
  return to_json(without_non_finite({Value::Data(std::move(map))}));
}

}  // namespace posenc::runs

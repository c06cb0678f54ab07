#include "serve/metrics_tail.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "posenc/core/error.h"

namespace posenc::serve {
namespace {

constexpr std::size_t kTail = 1U << 16U;  // bytes that the pace is read from
constexpr std::size_t kPaceRows = 10;     // and rows

bool is_row(std::string_view line) {
  try {
    return parse_json(line, "metrics").get_if<Value::Map>() != nullptr;
  } catch (const Error&) {
    return false;
  }
}

bool begins_line(const File& file, std::uint64_t offset) {
  return offset == 0 || (offset <= file.size && file.read(offset - 1, 1) == "\n");
}

std::optional<double> number(const Value& row, std::string_view key) {
  const Value* value = row.find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = value->get_if<std::int64_t>()) return static_cast<double>(*whole);
  const auto* real = value->get_if<double>();
  return real == nullptr ? std::nullopt : std::optional(*real);
}

// The last rows of training, the latest first.
std::vector<Value> last_rows(std::string_view tail) {
  std::vector<Value> rows;
  std::size_t end = tail.rfind('\n');
  while (end != std::string_view::npos && end > 0 && rows.size() < kPaceRows) {
    const std::size_t before = tail.rfind('\n', end - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    try {
      Value row = parse_json(tail.substr(begin, end - begin), "metrics");
      const Value* kind = row.find("kind");
      const auto* word = kind == nullptr ? nullptr : kind->get_if<std::string>();
      if (word != nullptr && *word == "train" && number(row, "step"))
        rows.push_back(std::move(row));
    } catch (const Error&) {  // cut off at the front, or damaged: not a row
    }
    end = before;
  }
  return rows;
}

}  // namespace

MetricsPart metrics_since(const File& file, std::uint64_t from, std::size_t longest) {
  MetricsPart part;
  part.restarted = !begins_line(file, from);
  part.from = part.restarted ? 0 : from;
  const std::string text = file.read(part.from, longest);
  part.next = part.from;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    std::string line = text.substr(begin, end - begin);
    if (is_row(line)) {
      part.lines.push_back(std::move(line));
    } else {
      ++part.damaged;
    }
    begin = end + 1;
    part.next = part.from + begin;
  }
  part.more = text.size() == longest && part.next > part.from && part.next < file.size;
  return part;
}

std::string metrics_json(const MetricsPart& part) {
  return fmt::format(
      R"({{"from": {}, "next": {}, "restarted": {}, "more": {}, "damaged": {}, "rows": [{}]}})",
      part.from, part.next, part.restarted, part.more, part.damaged, fmt::join(part.lines, ",\n"));
}

Pace read_pace(const File& metrics) {
  const std::uint64_t from = metrics.size > kTail ? metrics.size - kTail : 0;
  const std::vector<Value> rows = last_rows(metrics.read(from, kTail));
  Pace pace;
  if (rows.empty()) return pace;
  pace.step = static_cast<std::int64_t>(*number(rows.front(), "step"));
  pace.loss = number(rows.front(), "loss");
  pace.accuracy = number(rows.front(), "accuracy");
  pace.tokens_per_s = number(rows.front(), "tokens_per_s");
  const auto steps =
      static_cast<double>(pace.step) - (rows.size() > 1 ? *number(rows.back(), "step") : 0.0);
  const auto seconds = number(rows.front(), "seconds").value_or(0.0) -
                       (rows.size() > 1 ? number(rows.back(), "seconds").value_or(0.0) : 0.0);
  if (steps > 0.0 && seconds > 0.0) pace.seconds_per_step = seconds / steps;
  return pace;
}

}  // namespace posenc::serve

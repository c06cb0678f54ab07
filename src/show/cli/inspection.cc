#include "cli/inspection.h"

#include <algorithm>
#include <charconv>

#include "core/strings.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

constexpr std::int64_t kMostPositions = 1 << 20;

Error option_error(const std::string& option, const std::string& rule, const std::string& value) {
  return {
      ErrorKind::kOutOfRange,
      {.scope = "inspect", .key = option, .rule = rule, .value = "'" + value + "'", .hint = ""}};
}

std::int64_t parse_integer(const std::string& option, std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stop != end || text.empty()) {
    throw option_error(option, "must hold integers, such as 0,1,7", std::string(text));
  }
  return number;
}

std::int64_t largest_coordinate(const std::vector<std::vector<std::int64_t>>& positions) {
  std::int64_t largest = 0;
  for (const auto& position : positions) {
    largest = std::max(largest, *std::max_element(position.begin(), position.end()));
  }
  return largest;
}

// A single number given for several axes stands on all of them, as text tokens do in M-RoPE.
std::vector<std::int64_t> coordinates(const std::vector<std::int64_t>& position,
                                      std::int64_t axes) {
  const auto wanted = static_cast<std::size_t>(axes);
  if (position.size() == wanted) return position;
  if (position.size() == 1) return std::vector<std::int64_t>(wanted, position.front());
  throw option_error("--positions", "must have 1 or " + std::to_string(axes) + " coordinates each",
                     std::to_string(position.size()) + " coordinates");
}

RotaryInspection inspect_rotary(std::string name, Rotary rotary,
                                const std::vector<std::vector<std::int64_t>>& positions) {
  RotaryInspection result{std::move(name), std::move(rotary), Rope::Angles::kPosition, {}, {}, {}};
  const auto pairs = static_cast<std::size_t>(result.rotary.pairs());
  for (std::int64_t group = 0; group < result.rotary.groups(); ++group) {
    auto& cos = result.cos.emplace_back();
    auto& sin = result.sin.emplace_back();
    for (const auto& position : positions) {
      cos.emplace_back(pairs);
      sin.emplace_back(pairs);
      rotary_row(result.rotary, Role::kQuery, group, coordinates(position, result.rotary.axes.axes),
                 cos.back(), sin.back());
    }
  }
  return result;
}

// Each encoding adds what it has to show; most have only parameters, which are listed for all.
struct Add {
  Inspection& out;
  const InspectRequest& request;

  template <class Other>
  void operator()(const Other& /*encoding*/) const {}

  void operator()(const Rope& rope) const {
    out.rotary.push_back(
        inspect_rotary("rope", make_rotary(rope, out.shape, out.lengths), out.positions));
    out.rotary.back().angles = rope.angles;
    out.rotary.back().regimes = pair_regimes(rope, out.shape, out.lengths);
  }
  void operator()(const Xpos& xpos) const {
    out.rotary.push_back(
        inspect_rotary("xpos", make_rotary(xpos, out.shape, out.lengths), out.positions));
  }
  void operator()(const Alibi& alibi) const {
    if (!out.slopes) out.slopes = alibi_slopes(alibi, out.shape.heads);
  }
  void operator()(const T5& t5) const {
    if (out.buckets) return;
    out.buckets.emplace();
    for (std::int64_t r = request.relative_first; r <= request.relative_last; ++r) {
      out.buckets->push_back(t5_bucket(t5, r));
    }
  }
};

}  // namespace

std::vector<std::vector<std::int64_t>> parse_positions(const std::string& text) {
  std::vector<std::vector<std::int64_t>> positions;
  for (const std::string_view part : split(text, ',')) {
    if (part.find(':') != std::string_view::npos) {
      const auto [first, last] = parse_range("--positions", std::string(part));
      for (std::int64_t n = first; n <= last; ++n) positions.push_back({n});
      continue;
    }
    auto& position = positions.emplace_back();
    for (const std::string_view one : split(part, '/')) {
      position.push_back(parse_integer("--positions", one));
    }
  }
  return positions;
}

std::pair<std::int64_t, std::int64_t> parse_range(const std::string& option,
                                                  const std::string& text) {
  const std::vector<std::string_view> ends = split(text, ':');
  if (ends.size() != 2) throw option_error(option, "must be a range such as -8:8", text);
  const std::int64_t first = parse_integer(option, ends[0]);
  const std::int64_t last = parse_integer(option, ends[1]);
  if (first > last || last - first >= kMostPositions) {
    throw option_error(option, "must go upwards and hold at most 1048576 numbers", text);
  }
  return {first, last};
}

Inspection inspect(const Spec& spec, const InspectRequest& request) {
  validate(spec, request.shape);
  Inspection result;
  result.spec = spec;
  result.shape = request.shape;
  result.scale = request.scale;
  result.positions = request.positions;
  const std::int64_t implied = largest_coordinate(request.positions) + 1;
  result.lengths = {request.seq_len > 0 ? request.seq_len : implied, 0};
  result.parameters = parameters(spec, request.shape);
  result.relative_first = request.relative_first;
  for (const Encoding& encoding : spec.encodings) std::visit(Add{result, request}, encoding);
  return result;
}

}  // namespace posenc::cli

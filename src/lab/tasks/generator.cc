#include "tasks/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bind.h"
#include "core/strings.h"

namespace posenc::tasks {
namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;

std::uint64_t stream_key(const std::string& task, const Condition& condition, std::uint64_t seed) {
  std::uint64_t key = mixed(mixed(seed) ^ fnv1a(task));
  key = mixed(key ^ fnv1a(condition.axis));
  key = mixed(key ^ static_cast<std::uint64_t>(condition.length));
  return mixed(key ^ static_cast<std::uint64_t>(condition.split));
}

std::size_t find_axis(const std::vector<Axis>& axes, const Condition& condition,
                      const std::string& scope) {
  std::vector<std::string_view> names;
  for (const Axis& axis : axes) names.emplace_back(axis.name);
  static constexpr FieldRule kRule{};
  return read_choice(Value::of_string(condition.axis), FieldContext{scope, "axis", kRule}, names);
}

}  // namespace

void write_answers(Row row, std::size_t at, std::int32_t separator,
                   std::span<const std::int32_t> answers, std::int32_t pad) {
  std::copy(answers.begin(), answers.end(), row.targets.begin() + static_cast<std::ptrdiff_t>(at));
  row.tokens[at] = separator;
  for (std::size_t t = at + 1; t < row.tokens.size(); ++t) {
    row.tokens[t] = t < at + answers.size() ? answers[t - at - 1] : pad;
  }
}

Error Generator::error(ErrorKind kind, ErrorParts parts) const {
  parts.scope = info_.name;
  return {kind, std::move(parts)};
}

void Generator::require_length(std::int64_t length, std::int64_t at_least,
                               const std::string& why) const {
  if (length >= at_least) return;
  throw error(ErrorKind::kOutOfRange, {.key = "length",
                                       .rule = fmt::format("must be >= {} {}", at_least, why),
                                       .value = std::to_string(length)});
}

void Generator::require_rows(const Request& request, std::int64_t rows) const {
  const auto end = request.first_row + static_cast<std::uint64_t>(request.batch->rows);
  if (end <= static_cast<std::uint64_t>(rows) && end >= request.first_row) return;
  throw error(ErrorKind::kOutOfRange,
              {.key = "rows",
               .rule = fmt::format("must be among the {} that axis {} has at length {}", rows,
                                   axis(request.axis).name, request.length),
               .value = fmt::format("{} to {}", request.first_row, end)});
}

void Generator::check_depth(const std::optional<double>& depth) const {
  if (!depth) return;
  if (!info_.has_depth) {
    throw error(ErrorKind::kUnsupported,
                {.key = "depth", .rule = "is not a property of this task", .hint = "leave it out"});
  }
  if (*depth >= 0.0 && *depth <= 1.0) return;
  throw error(ErrorKind::kOutOfRange,
              {.key = "depth", .rule = "must be in [0, 1]", .value = number_text(*depth)});
}

Request Generator::checked(const Condition& condition) const {
  Request request;
  request.axis = find_axis(axes_, condition, info_.name);
  require_length(condition.length, 1, "positions");
  if (condition.length > kMaxLength || condition.train_length > kMaxLength) {
    throw error(ErrorKind::kResource,
                {.key = "length",
                 .rule = fmt::format("must be <= {} positions", kMaxLength),
                 .value = std::to_string(std::max(condition.length, condition.train_length))});
  }
  if (condition.train_length < 0) {
    throw error(ErrorKind::kOutOfRange, {.key = "train_length",
                                         .rule = "must be >= 0",
                                         .value = std::to_string(condition.train_length)});
  }
  check_depth(condition.depth);
  request.depth = condition.depth;
  request.length = condition.length;
  request.train_length = condition.train_length > 0 ? condition.train_length : condition.length;
  request.split = condition.split;
  return request;
}

void Generator::fill(const Condition& condition, std::uint64_t seed, std::uint64_t first_row,
                     Batch& batch) const {
  Request request = checked(condition);
  if (batch.rows < 0 || batch.rows > (std::int64_t{1} << 40) / request.length) {
    throw error(ErrorKind::kOutOfRange, {.key = "rows",
                                         .rule = "must be >= 0 and fit into memory",
                                         .value = std::to_string(batch.rows)});
  }
  request.key = stream_key(info_.name, condition, seed);
  request.shared_key = stream_key(info_.name, {.axis = "", .split = condition.split}, seed);
  request.first_row = first_row;
  request.batch = &batch;
  batch.length = request.length;
  const auto size = static_cast<std::size_t>(batch.rows * batch.length);
  batch.tokens.resize(size);
  batch.targets.assign(size, kUnscored);
  fill_rows(request);
}

Error conflict(std::string_view scope, std::string key, std::string rule, std::string value,
               std::string hint) {
  return {ErrorKind::kConflict,
          {.scope = std::string(scope),
           .key = std::move(key),
           .rule = std::move(rule),
           .value = std::move(value),
           .hint = std::move(hint)}};
}

}  // namespace posenc::tasks

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/load.h"
#include "core/bind.h"
#include "sweep/plan.h"
#include "system/installed.h"

namespace posenc::sweep {
namespace {

using Point = std::vector<std::pair<std::string, Value>>;

constexpr std::size_t kMostPoints = 100'000;
constexpr std::array<std::string_view, 5> kKeys = {"base", "out", "grid", "also", "exclude"};

class Reader {
 public:
  explicit Reader(std::string path, std::string prefix = "")
      : path_(std::move(path)), prefix_(std::move(prefix)) {}

  [[nodiscard]] Error error(ErrorKind kind, const std::string& key, const std::string& rule,
                            const Value& value, const std::string& hint) const {
    return {kind,
            {.scope = path_,
             .key = prefix_ + key,
             .rule = rule + mark_text(value.mark()),
             .value = describe(value),
             .hint = hint}};
  }

  const Value::Map& map(const Value& value, const std::string& key) const {
    const auto* entries = value.get_if<Value::Map>();
    if (entries == nullptr) {
      throw error(ErrorKind::kWrongType, key, "must be a map", value, "write key: [values]");
    }
    return *entries;
  }

  [[nodiscard]] std::string text(const Value& tree, const std::string& key) const {
    const Value* value = tree.find(key);
    if (value == nullptr) {
      throw Error(
          ErrorKind::kMissingKey,
          {.scope = path_, .key = key, .rule = "is required", .value = "", .hint = "add it"});
    }
    const auto* string = value->get_if<std::string>();
    if (string == nullptr || string->empty()) {
      throw error(ErrorKind::kWrongType, key, "must be a path", *value, "write it as text");
    }
    return *string;
  }

  void check_keys(const Value& tree) const {
    for (const Member& member : map(tree, "")) {
      if (std::find(kKeys.begin(), kKeys.end(), member.key) != kKeys.end()) continue;
      throw Error(ErrorKind::kUnknownKey,
                  {.scope = path_,
                   .key = member.key,
                   .rule = "is not a known key" + mark_text(member.key_mark),
                   .value = "",
                   .hint = suggestion(member.key, kKeys)});
    }
  }

  // Every combination of the lists of a grid, the last key varying fastest.
  [[nodiscard]] std::vector<Point> combinations(const Value& grid, const std::string& key) const {
    std::vector<Point> points = {{}};
    require_apart(map(grid, key), key);
    for (const Member& member : map(grid, key)) {
      const Value::List several = values(member, key);
      if (points.size() * several.size() > kMostPoints) {
        throw error(ErrorKind::kResource, key,
                    fmt::format("must have at most {} combinations", kMostPoints), grid,
                    "split the sweep into several");
      }
      std::vector<Point> longer;
      for (const Point& point : points) {
        for (const Value& value : several) {
          longer.push_back(point);
          longer.back().emplace_back(member.key, value);
        }
      }
      points = std::move(longer);
    }
    return points;
  }

  const Value::List& list(const Value& value, const std::string& key) const {
    const auto* entries = value.get_if<Value::List>();
    if (entries == nullptr) {
      throw error(ErrorKind::kWrongType, key, "must be a list of maps", value,
                  "start each entry with -");
    }
    return *entries;
  }

 private:
  // A map under `model` would replace what `model.layers` has set.
  void require_apart(const Value::Map& settings, const std::string& key) const {
    for (const Member& part : settings) {
      for (const Member& field : settings) {
        if (!field.key.starts_with(part.key + ".")) continue;
        throw error(ErrorKind::kConflict, key + "." + part.key,
                    fmt::format("must not be set together with {}, which it contains", field.key),
                    part.value, "list its fields one by one");
      }
    }
  }

  [[nodiscard]] Value::List values(const Member& member, const std::string& key) const {
    const auto* several = member.value.get_if<Value::List>();
    if (several == nullptr) return {member.value};
    if (several->empty()) {
      throw error(ErrorKind::kWrongLength, key + "." + member.key, "must have a value",
                  member.value, "an empty list makes no jobs");
    }
    return *several;
  }

  std::string path_;
  std::string prefix_;  // before the keys in errors: "parts.main."
};

const Value* value_of(const Point& point, const std::string& key) {
  const auto found =
      std::find_if(point.begin(), point.end(), [&](const auto& pair) { return pair.first == key; });
  return found == point.end() ? nullptr : &found->second;
}

bool has_all(const Point& point, const Point& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& pair) {
    const Value* mine = value_of(point, pair.first);
    return mine != nullptr && *mine == pair.second;
  });
}

// Removes what `exclude` names; an entry that matches nothing is a mistake worth a word.
void exclude(std::vector<Point>& points, const Value& entries, const Reader& reader) {
  for (const Value& entry : reader.list(entries, "exclude")) {
    std::size_t removed = 0;
    for (const Point& wanted : reader.combinations(entry, "exclude")) {
      removed += std::erase_if(points, [&](const Point& point) { return has_all(point, wanted); });
    }
    if (removed == 0) {
      throw reader.error(ErrorKind::kConflict, "exclude", "matches no combination", entry,
                         "check its keys and values");
    }
  }
}

std::vector<Point> all_points(const Value& tree, const Reader& reader) {
  const Value* grid = tree.find("grid");
  const Value* also = tree.find("also");
  std::vector<Point> points;
  if (grid != nullptr) points = reader.combinations(*grid, "grid");
  if (also != nullptr) {
    for (const Value& entry : reader.list(*also, "also")) {
      for (Point& point : reader.combinations(entry, "also")) points.push_back(std::move(point));
    }
  }
  if (const Value* out = tree.find("exclude")) exclude(points, *out, reader);
  if (points.empty()) {
    throw reader.error(ErrorKind::kMissingKey, "grid", "has no combinations", tree,
                       "list the values to try under grid");
  }
  return points;
}

bool reads_back(const std::string& assignment, const std::string& key, const Value& value) {
  Value tree(Value::Data(Value::Map{}));
  try {
    config::apply_override(tree, assignment);
  } catch (const Error&) {
    return false;
  }
  const Value* node = &tree;
  for (std::size_t begin = 0; begin <= key.size() && node != nullptr;) {
    const std::size_t dot = std::min(key.find('.', begin), key.size());
    node = node->find(key.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return node != nullptr && to_json(*node) == to_json(value);  // 2.0 is written as 2
}

}  // namespace

std::string assignment_text(const std::string& key, const Value& value) {
  const auto* word = value.get_if<std::string>();
  const std::string json = to_json(value);
  for (const std::string& text : {word != nullptr ? *word : json, json}) {
    std::string assignment = key;
    assignment.append("=").append(text);
    if (reads_back(assignment, key, value)) return assignment;
  }
  throw Error(ErrorKind::kUnsupported, {.scope = "sweep",
                                        .key = key,
                                        .rule = "has a value that --set cannot carry",
                                        .value = describe(value),
                                        .hint = "write it into a separate base config"});
}

std::vector<std::vector<std::string>> read_points(const Value& tree, const std::string& path,
                                                  const std::string& prefix) {
  std::vector<std::vector<std::string>> points;
  for (const Point& point : all_points(tree, Reader(path, prefix))) {
    std::vector<std::string> assignments;
    for (const auto& [key, value] : point) assignments.push_back(assignment_text(key, value));
    points.push_back(std::move(assignments));
  }
  return points;
}

SweepFile parse_sweep(std::string_view yaml, const std::string& path) {
  const Value tree = parse_yaml(yaml, path);
  const Reader reader(path);
  reader.check_keys(tree);
  SweepFile file{.path = path,
                 .base = std::filesystem::path(path).parent_path() / reader.text(tree, "base"),
                 .out = reader.text(tree, "out"),
                 .points = read_points(tree, path)};
  return file;
}

SweepFile read_sweep(const std::string& path) {
  const std::string found = found_config(path);
  return parse_sweep(read_file(found), found);
}

}  // namespace posenc::sweep

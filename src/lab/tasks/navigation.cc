#include "tasks/navigation.h"

#include <algorithm>
#include <array>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kNothing, kFirstAction };
enum AxisIndex : std::size_t { kTrain, kDense, kSparse, kLonger };
constexpr int kTries = 1000;  // of a row in which nothing is scored

// What stands where. A place draws its content when it is first seen: places are independent, so
// most of a large map is never drawn.
class Map {
 public:
  Map(std::int64_t dimensions, std::int64_t side, double empty, std::int64_t objects)
      : side_(side), empty_(empty), objects_(objects) {
    contents_.resize(dimensions == 1 ? side : side * side, kUnseen);
  }

  void restart() {
    for (const std::size_t place : seen_) contents_[place] = kUnseen;
    seen_.clear();
    x_ = y_ = 0;
  }
  // Actions 0 and 1 go along the first dimension, 2 and 3 along the second.
  void move(std::int32_t action) {
    std::int64_t& along = action < 2 ? x_ : y_;
    along = (along + (action % 2 == 0 ? side_ - 1 : 1)) % side_;
  }
  [[nodiscard]] bool was_here() const { return contents_[place()] != kUnseen; }
  // An object from 0, or kEmpty.
  std::int32_t look(Draw& draw) {
    std::int32_t& content = contents_[place()];
    if (content == kUnseen) {
      seen_.push_back(place());
      content = draw.happens(empty_) ? kEmpty : draw.below(objects_);
    }
    return content;
  }

  static constexpr std::int32_t kEmpty = -1;

 private:
  static constexpr std::int32_t kUnseen = -2;
  [[nodiscard]] std::size_t place() const { return static_cast<std::size_t>(y_ * side_ + x_); }

  std::int64_t side_;
  Probability empty_;
  std::int64_t objects_;
  std::int64_t x_ = 0, y_ = 0;
  std::vector<std::int32_t> contents_;
  std::vector<std::size_t> seen_;
};

class NavigationTask final : public Generator {
 public:
  NavigationTask(const Navigation& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    static constexpr std::array<std::string_view, 4> kActions = {"<", ">", "^", "v"};
    if (token == kNothing) return ".";
    if (token >= kFirstAction && token < first_object()) {
      return std::string(kActions[token - kFirstAction]);
    }
    if (token < first_object() || token >= info().vocabulary) {
      return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
    }
    return class_name(token - first_object(), config_.objects);
  }
  [[nodiscard]] std::int64_t natural_length(std::string_view axis,
                                            std::int64_t train_length) const override {
    if (axis == "dense") return std::max(info().min_length, train_length / 4 * 2);
    return axis == "sparse" ? 2 * train_length : train_length;
  }

 private:
  [[nodiscard]] std::int32_t actions() const {
    return static_cast<std::int32_t>(2 * config_.dimensions);
  }
  [[nodiscard]] std::int32_t first_object() const { return kFirstAction + actions(); }
  [[nodiscard]] Map make_map(std::size_t axis) const;
  bool walk(Map& map, Row row, Draw& draw) const;
  void fill_rows(const Request& request) const override;

  Navigation config_;
};

Map NavigationTask::make_map(std::size_t axis) const {
  const auto map = [&](std::int64_t side, double empty) {
    return Map(config_.dimensions, side, empty, config_.objects);
  };
  if (axis == kDense) return map(config_.dense_grid, config_.dense_empty);
  if (axis == kSparse) return map(config_.sparse_grid, config_.sparse_empty);
  return map(config_.grid, config_.empty);
}

// Whether anything is scored.
bool NavigationTask::walk(Map& map, Row row, Draw& draw) const {
  map.restart();
  std::int32_t action = 0;
  std::int64_t left = 0;  // steps in this direction
  bool scored = false;
  for (std::size_t t = 0; t < row.tokens.size(); t += 2, --left) {
    if (left == 0) {
      action = draw.below(actions());
      left = 1 + draw.below(config_.max_run);
    }
    map.move(action);
    const bool again = map.was_here();
    const std::int32_t content = map.look(draw);
    const bool asked = again && content != Map::kEmpty;
    row.tokens[t] = kFirstAction + action;
    row.tokens[t + 1] = content == Map::kEmpty ? kNothing : first_object() + content;
    row.targets[t] = asked ? row.tokens[t + 1] : kUnscored;
    scored = scored || asked;
  }
  return scored;
}

void NavigationTask::fill_rows(const Request& request) const {
  require_length(request.length, info().min_length, "positions, three steps");
  if (request.length % 2 != 0) {
    throw error(ErrorKind::kOutOfRange, {.key = "length",
                                         .rule = "must be even, as actions and places are",
                                         .value = std::to_string(request.length)});
  }
  Map map = make_map(request.axis);
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    for (int tries = 0; tries < kTries && !walk(map, row, draw);) ++tries;
  });
}

}  // namespace

std::unique_ptr<Task> make(const Navigation& config) {
  TaskInfo info{.name = std::string(Navigation::kTraits.name),
                .vocabulary = kFirstAction + 2 * config.dimensions + config.objects,
                .length = 256,
                .min_length = 6};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"dense", "a smaller map with fewer empty places", false, true},
                            {"sparse", "a larger map with more empty places", false, true},
                            {"longer", "a longer walk"}};
  return std::make_unique<NavigationTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

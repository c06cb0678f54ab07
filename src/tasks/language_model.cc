#include "tasks/language_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/corpus_task.h"

namespace posenc::tasks {
namespace {

enum AxisIndex : std::size_t { kTrain, kWindows, kSliding };

class LanguageModelTask final : public CorpusTask {
 public:
  LanguageModelTask(const LanguageModel& config, TaskInfo info, std::vector<Axis> axes)
      : CorpusTask(config.files, std::move(info), std::move(axes)), stride_(config.stride) {}

  [[nodiscard]] std::optional<std::int64_t> rows(const Condition& condition) const override {
    const Request request = checked(condition);
    if (request.axis == kTrain) return std::nullopt;
    return window_list(request).size();
  }

 private:
  [[nodiscard]] WindowList window_list(const Request& request) const {
    const std::int64_t stride =
        request.axis == kSliding ? std::min(stride_, request.length) : request.length;
    return {documents(request), request.length, stride};
  }

  void fill_rows(const Request& request) const override {
    if (request.axis == kTrain) return fill_random(request);
    const WindowList windows = window_list(request);
    require_rows(request, windows.size());
    for_each_row(request, [&](Row row, Draw& /*draw*/, std::uint64_t number) {
      const Window window = windows.at(static_cast<std::int64_t>(number));
      put(window.bytes, static_cast<std::size_t>(window.scored), row);
    });
  }

  void fill_random(const Request& request) const {
    const WindowIndex windows = window_index(request, request.length + 1);
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
      put(windows.at(draw.below_large(windows.starts())), 0, row);
    });
  }

  // All bytes but the last are tokens, all but the first are answers.
  static void put(Bytes bytes, std::size_t scored, Row row) {
    const std::size_t count = bytes.size() - 1;
    std::copy_n(bytes.begin(), count, row.tokens.begin());
    std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(count), row.tokens.end(), kPadByte);
    for (std::size_t t = scored; t < count; ++t) row.targets[t] = bytes[t + 1];
  }

  std::int64_t stride_;
};

}  // namespace

std::unique_ptr<Task> make(const LanguageModel& config) {
  TaskInfo info{.name = std::string(LanguageModel::kTraits.name),
                .vocabulary = kPadByte + 1,
                .metric = "bits_per_byte",
                .length = 512};
  std::vector<Axis> axes = {
      {"train", "windows at random places", true},
      {"windows", "windows side by side"},
      {"sliding", fmt::format("windows that move on by {} bytes, scored there", config.stride)}};
  return std::make_unique<LanguageModelTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

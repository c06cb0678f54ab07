#include "tasks/masked_language_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/corpus_task.h"

namespace posenc::tasks {
namespace {

constexpr std::int32_t kMask = kPadByte + 1;
enum AxisIndex : std::size_t { kTrain, kWindows };

class MaskedLanguageModelTask final : public CorpusTask {
 public:
  MaskedLanguageModelTask(const MaskedLanguageModel& config, TaskInfo info, std::vector<Axis> axes)
      : CorpusTask(config.files, std::move(info), std::move(axes)),
        chosen_(config.mask),
        keep_(config.keep),
        random_(config.keep < 1.0 ? std::min(1.0, config.random / (1.0 - config.keep)) : 0.0) {}

  [[nodiscard]] std::optional<std::int64_t> rows(const Condition& condition) const override {
    const Request request = checked(condition);
    if (request.axis == kTrain) return std::nullopt;
    return window_list(request).size();
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return token == kMask ? "<mask>" : CorpusTask::token_text(token);
  }

 private:
  [[nodiscard]] WindowList window_list(const Request& request) const {
    return {documents(request), request.length, request.length};
  }

  void fill_rows(const Request& request) const override {
    if (request.axis == kTrain) {
      const WindowIndex windows = window_index(request, request.length);
      for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
        put(windows.at(draw.below_large(windows.starts())), draw, row);
      });
      return;
    }
    const WindowList windows = window_list(request);
    require_rows(request, windows.size());
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t number) {
      const Bytes bytes = windows.at(static_cast<std::int64_t>(number)).bytes;
      put(bytes.first(bytes.size() - 1), draw, row);
    });
  }

  void put(Bytes bytes, Draw& draw, Row row) const {
    for (std::size_t t = 0; t < bytes.size(); ++t) {
      row.tokens[t] = bytes[t];
      if (!draw.happens(chosen_)) continue;
      row.targets[t] = bytes[t];
      if (draw.happens(keep_)) continue;
      row.tokens[t] = draw.happens(random_) ? draw.below(256) : kMask;
    }
    std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(bytes.size()), row.tokens.end(),
              kPadByte);
  }

  Probability chosen_;
  Probability keep_;
  Probability random_;  // of those that are not kept
};

}  // namespace

std::unique_ptr<Task> make(const MaskedLanguageModel& config) {
  if (config.random + config.keep > 1.0) {
    throw conflict(MaskedLanguageModel::kTraits.name, "random",
                   fmt::format("and keep {} together must be <= 1", config.keep),
                   fmt::format("{}", config.random));
  }
  TaskInfo info{.name = std::string(MaskedLanguageModel::kTraits.name),
                .vocabulary = kMask + 1,
                .bidirectional = true,
                .metric = "bits_per_byte",
                .length = 512};
  std::vector<Axis> axes = {{"train", "windows at random places", true},
                            {"windows", "windows side by side"}};
  return std::make_unique<MaskedLanguageModelTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

#include "tasks/masked_language_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/corpus_task.h"

namespace posenc::tasks {
namespace {

constexpr std::int32_t kMask = kBytes;

class MaskedLanguageModelTask final : public WindowTask {
 public:
  MaskedLanguageModelTask(const MaskedLanguageModel& config, TaskInfo info)
      : WindowTask(config.files, config.scored, std::move(info)),
        chosen_(config.mask),
        keep_(config.keep),
        random_(config.keep < 1.0 ? std::min(1.0, config.random / (1.0 - config.keep)) : 0.0) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return token == kMask ? "<mask>" : CorpusTask::token_text(token);
  }

 private:
  // From the end, so that rows of two lengths treat the bytes that they share alike.
  void put(Bytes window, std::size_t first_scored, Draw& draw, Row row) const override {
    const Bytes bytes = window.subspan(1);
    for (std::size_t t = bytes.size(); t-- > 0;) {
      row.tokens[t] = bytes[t];
      if (!draw.happens(chosen_)) continue;
      if (t >= first_scored) row.targets[t] = bytes[t];
      if (draw.happens(keep_)) continue;
      row.tokens[t] = draw.happens(random_) ? draw.below(kBytes) : kMask;
    }
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
                .metric = Metric::kBitsPerByte,
                .length = 512};
  return std::make_unique<MaskedLanguageModelTask>(config, std::move(info));
}

}  // namespace posenc::tasks

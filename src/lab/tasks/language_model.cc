#include "tasks/language_model.h"

#include <algorithm>

#include "tasks/corpus_task.h"
#include "tasks/token_task.h"

namespace posenc::tasks {
namespace {

class LanguageModelTask final : public WindowTask {
 public:
  using WindowTask::WindowTask;

 private:
  // All bytes but the last are tokens, all but the first are answers.
  void put(Bytes window, std::size_t first_scored, Draw& /*draw*/, Row row) const override {
    std::copy_n(window.begin(), row.tokens.size(), row.tokens.begin());
    for (std::size_t t = first_scored; t < row.targets.size(); ++t) row.targets[t] = window[t + 1];
  }
};

}  // namespace

std::unique_ptr<Task> make(const LanguageModel& config) {
  if (!config.tokens.empty()) return make_token_task(config);
  if (config.packing != LanguageModel{}.packing) {
    throw conflict(LanguageModel::kTraits.name, "packing", "needs tokens",
                   std::string(enum_name(config.packing)), "name token files with tokens");
  }
  TaskInfo info{.name = std::string(LanguageModel::kTraits.name),
                .vocabulary = kBytes,
                .metric = Metric::kBitsPerByte,
                .length = 512};
  return std::make_unique<LanguageModelTask>(config.files, config.scored, std::move(info));
}

}  // namespace posenc::tasks

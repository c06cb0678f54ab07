#include "tasks/parity.h"

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kBos, kQuery, kZero };

class ParityTask final : public Generator {
 public:
  ParityTask(const Parity& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)), config_(config) {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    if (token == kBos) return "<bos>";
    if (token == kQuery) return "<query>";
    return number_name(token, kZero, info());
  }

 private:
  void fill_rows(const Request& request) const override {
    require_length(request.length, info().min_length, "positions");
    const bool running = config_.answer == Answer::kRunning;
    const auto end = static_cast<std::size_t>(request.length) - (running ? 0 : 1);
    const auto modulo = static_cast<std::int32_t>(config_.modulo);
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
      std::int32_t sum = 0;
      row.tokens[0] = kBos;
      for (std::size_t t = 1; t < end; ++t) {
        const std::int32_t digit = draw.below(modulo);
        sum = (sum + digit) % modulo;
        row.tokens[t] = kZero + digit;
        if (running) row.targets[t] = kZero + sum;
      }
      if (running) return;
      row.tokens[end] = kQuery;
      row.targets[end] = kZero + sum;
    });
  }

  Parity config_;
};

}  // namespace

std::unique_ptr<Task> make(const Parity& config) {
  TaskInfo info{.name = std::string(Parity::kTraits.name),
                .vocabulary = kZero + config.modulo,
                .length = 64,
                .min_length = config.answer == Answer::kRunning ? 2 : 3};
  std::vector<Axis> axes = {{"train", "as in training", true}, {"longer", "a longer row"}};
  return std::make_unique<ParityTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

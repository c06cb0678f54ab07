#include "tasks/flip_flop.h"

#include <array>

#include "tasks/generator.h"
#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum Token : std::int32_t { kWrite, kRead, kIgnore, kZero };

class FlipFlopTask final : public Generator {
 public:
  FlipFlopTask(const FlipFlop& config, TaskInfo info, std::vector<Axis> axes)
      : Generator(std::move(info), std::move(axes)),
        ignore_{config.train_ignore, config.dense_ignore, config.sparse_ignore} {}

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    static constexpr std::array<std::string_view, 3> kWords = {"w", "r", "i"};
    if (token >= 0 && token < kZero) return std::string(kWords[token]);
    return number_name(token, kZero, info());
  }

 private:
  void fill_rows(const Request& request) const override {
    require_length(request.length, 4, "positions, two pairs of instruction and bit");
    if (request.length % 2 != 0) {
      throw error(ErrorKind::kOutOfRange, {.key = "length",
                                           .rule = "must be even, as instructions and bits are",
                                           .value = std::to_string(request.length)});
    }
    const Probability ignore(ignore_[request.axis]);
    for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
      std::int32_t written = 0;
      const std::size_t last = row.tokens.size() - 2;
      for (std::size_t t = 0; t <= last; t += 2) {
        std::int32_t instruction = draw.happens(ignore) ? kIgnore : draw.below(2);
        if (t == 0) instruction = kWrite;
        if (t == last) instruction = kRead;
        const std::int32_t bit = instruction == kRead ? written : draw.below(2);
        if (instruction == kWrite) written = bit;
        if (instruction == kRead) row.targets[t] = kZero + bit;
        row.tokens[t] = instruction;
        row.tokens[t + 1] = kZero + bit;
      }
    });
  }

  std::array<double, 3> ignore_;
};

}  // namespace

std::unique_ptr<Task> make(const FlipFlop& config) {
  TaskInfo info{.name = std::string(FlipFlop::kTraits.name),
                .vocabulary = kZero + 2,
                .metric = Metric::kError,
                .length = 512,
                .min_length = 4};
  std::vector<Axis> axes = {{"train", "as in training", true},
                            {"dense", "few ignored bits between write and read", false, true},
                            {"sparse", "many ignored bits between write and read", false, true}};
  return std::make_unique<FlipFlopTask>(config, std::move(info), std::move(axes));
}

}  // namespace posenc::tasks

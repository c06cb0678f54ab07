// posenc sample: a few samples of a config's task, as a person reads them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "cli/print.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "config/load.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "tasks/task.h"

namespace posenc::cli {
namespace {

struct SampleOptions {
  std::string config;
  std::vector<std::string> settings;
  std::string axis = "train";
  std::int64_t length = 0;
  std::int64_t count = 3;
  std::int64_t first = 0;
};

void check_axis(const tasks::Task& task, const std::string& axis) {
  std::vector<std::string_view> names;
  const auto axes = task.axes();
  for (const tasks::Axis& known : axes) names.push_back(known.name);
  if (std::find(names.begin(), names.end(), axis) != names.end()) return;
  throw Error(ErrorKind::kUnknownKey, {.scope = "sample",
                                       .key = axis,
                                       .rule = "is not an axis of " + task.info().name,
                                       .value = "",
                                       .hint = suggestion(axis, names)});
}

// Samples are numbered by 64-bit integers.
void check_numbers(const SampleOptions& options) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() - options.count;
  if (options.first <= most) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = "sample",
               .key = "--first",
               .rule = fmt::format("must be at most {} with --count {}", most, options.count),
               .value = std::to_string(options.first),
               .hint = ""});
}

int run_sample(const SampleOptions& options) {
  check_numbers(options);
  const config::LabConfig config = config::load_config(options.config, options.settings).config;
  const auto task = tasks::make_task(config.task);
  check_axis(*task, options.axis);
  if (!task->warning().empty()) print_error("posenc: warning: {}", task->warning());
  const std::int64_t trained = config::train_length(config.train);
  tasks::Condition condition{.axis = options.axis,
                             .length = options.length > 0 ? options.length : trained,
                             .train_length = trained};
  if (const auto rows = task->rows(condition)) {
    if (options.first >= *rows) {
      throw Error(ErrorKind::kOutOfRange, {.scope = "sample",
                                           .key = "--first",
                                           .rule = fmt::format("must be below {} rows", *rows),
                                           .value = std::to_string(options.first),
                                           .hint = ""});
    }
  }
  print("{}, axis {}, length {}, seed {}; {} tokens known, scored by {}\n", task->info().name,
        condition.axis, condition.length, config.seed, task->info().vocabulary,
        name_of(task->info().metric));
  tasks::Batch batch;
  batch.rows = options.count;
  task->fill(condition, static_cast<std::uint64_t>(config.seed),
             static_cast<std::uint64_t>(options.first), batch);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    print("\n{}: {}\n", options.first + row, tasks::render(*task, batch, row));
  }
  return kFine;
}

}  // namespace

void add_sample(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("sample", "Print samples of a config's task");
  auto options = std::make_shared<SampleOptions>();
  verb->add_option("CONFIG", options->config, "YAML with a task")->required();
  verb->add_option("--set", options->settings, "fields of the config, such as task=parity")
      ->allow_extra_args(false);
  verb->add_option("--axis", options->axis, "how samples are made (default: train)");
  verb->add_option("--length", options->length, "positions (default: the training length)")
      ->check(command::integer_in(1, 1 << 24));
  verb->add_option("--count", options->count, "samples")->check(command::integer_in(1, 1000));
  verb->add_option("--first", options->first, "number of the first")
      ->check(command::integer_from(0));
  verb->footer("Example:\n  posenc sample configs/demo.yaml --axis sparse\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_sample(*options); }; });
}

}  // namespace posenc::cli

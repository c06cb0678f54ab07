#include <fmt/format.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>

#include "core/failure.h"
#include "core/plain_text.h"
#include "parallel/procs.h"
#include "parallel/ranks.h"
#include "posenc/core/error.h"
#include "posenc/core/version.h"
#include "runs/environment.h"
#include "system/sha256.h"
#include "train/machine.h"
#include "train/program/verbs.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

std::string out_directory(const Arguments& a, const config::Loaded& loaded) {
  if (!a.out.empty()) return a.out;
  return fmt::format("runs/{}-{}-s{}", loaded.config.name, loaded.hash.substr(0, 8),
                     loaded.config.seed);
}

// Of the exchange of a failed rank: a line on the one process that speaks.
void print_failure(const parallel::Launch& launch, const parallel::Failure& failure) {
  const bool of_parent = std::getenv("POSENC_PROCS") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const int speaker = failure.rank == 0 ? 1 : 0;
  const bool said = failure.rank == 0 && failure.own;  // rank 0 speaks for itself
  if (of_parent || said || launch.rank != speaker) return;
  fmt::print(stderr, "posenc: rank {} failed: {}\n", failure.rank, failure.text);
}

int start_ranks(const Arguments& a, std::vector<std::string> words) {
  if (parallel::read_launch().launched()) {
    throw Error(ErrorKind::kConflict,
                {.scope = "train",
                 .key = "--procs",
                 .rule = "cannot be used under another launcher",
                 .value = std::to_string(a.procs),
                 .hint = "leave it out: torchrun, srun and mpirun start the ranks"});
  }
  const config::Loaded loaded = config::load_config(a.config, a.overrides);
  parallel::Launch launch;
  launch.world = launch.local_world = a.procs;
  check_share(loaded.config, launch);
  parallel::require_backend(device_of(loaded.config.train));
  for (auto word = words.begin(); word != words.end();) {
    const bool pair = *word == "--procs";
    const bool single = word->starts_with("--procs=");
    word = pair ? words.erase(word, word + 2) : single ? words.erase(word) : word + 1;
  }
  words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  const StopRequest stop;
  const auto ending = parallel::run_procs(
      {.count = a.procs, .words = std::move(words), .timeout_s = loaded.config.train.timeout},
      stop);
  if (!ending.message.empty()) fmt::print(stderr, "posenc: {}\n", ending.message);
  return ending.code;
}

// What must not differ between ranks, apart from the data. Whether a job was started again is rank 0's to know.
void require_same_program(const Arguments& a, parallel::Ranks& ranks, const config::Loaded& loaded,
                          const TrainOptions& options) {
  ranks.require_same(
      "build",
      fmt::format("{} {} torch {}", POSENC_VERSION_STRING, runs::build_commit(), TORCH_VERSION),
      "install the same posenc on all hosts");
  ranks.require_same("config", sha256_hex(to_json(loaded.tree)).substr(0, 12),
                     "start all ranks with the same config and the same --set");
  ranks.require_same(
      "options",
      fmt::format("{}{}", a.resume ? "--resume " : "", options.evaluate ? "" : "--no-eval"),
      "start all ranks with the same options");
  if (loaded.config.train.reduction != config::Reduction::kDeterministic) return;
  ranks.require_same("threads", std::to_string(options.threads),
                     "the bits of train.reduction: deterministic follow --threads: give all ranks "
                     "the same number");
}

// The bits of products follow the number of threads, so one that does not follow the number of processes is the default
// where bits must not.
int default_threads(const config::TrainConfig& train, const parallel::Launch& launch) {
  if (train.reduction == config::Reduction::kDeterministic) return 1;
  return launch.launched() ? parallel::threads_per_rank(launch, cores(), own_cores()) : 0;
}

TrainOptions train_options(const Arguments& a, const config::Loaded& loaded,
                           const parallel::Launch& launch,
                           const std::vector<std::string>& command_line) {
  TrainOptions options;
  options.out = out_directory(a, loaded);
  options.resume = a.resume || launch.restarts > 0;
  options.evaluate = !a.no_eval;
  options.threads =
      set_threads(a.threads > 0 ? a.threads : default_threads(loaded.config.train, launch));
  options.command_line = command_line;
  return options;
}

// A scheduler that stops a job wants 0 for one that has saved.
int exit_code_of(Outcome outcome, const StopRequest& stop, const parallel::Launch& launch,
                 parallel::Ranks* ranks) {
  if (outcome == Outcome::kDiverged) return kFailure;
  if (outcome == Outcome::kFinished) return kFine;
  if (ranks != nullptr) return ranks->any(stop.exit_code() == kTimeIsUp) ? kTimeIsUp : kFine;
  if (launch.scheduled && stop.signal_number() != 0) return kFine;
  return stop.exit_code() != 0 ? stop.exit_code() : kFailure;
}

int train_here(const Arguments& a, const parallel::Launch& launch, const config::Loaded& loaded,
               const TrainOptions& options, const StopRequest& stop) {
  const bool leads = options.ranks == nullptr || options.ranks->leads();
  const auto mode = leads ? mode_of(a.progress) : runs::Progress::Mode::kQuiet;
  runs::Progress progress(mode, output_of(mode));
  set_onednn(loaded.config.train.onednn);
  const Outcome outcome = train_run(loaded, options, progress, stop);
  progress.finish();
  if (outcome == Outcome::kFinished) {
    progress.message(fmt::format("finished: {}", options.out.string()));
  }
  return exit_code_of(outcome, stop, launch, options.ranks);
}

// What a process does before it joins the others.
struct Prepared {
  config::Loaded loaded;
  TrainOptions options;
  at::Device device = at::kCPU;
};

Prepared prepare(const Arguments& a, const parallel::Launch& launch,
                 const std::vector<std::string>& command_line) {
  Prepared made{.loaded = config::load_config(a.config, a.overrides), .options = {}};
  made.options = train_options(a, made.loaded, launch, command_line);
  check_share(made.loaded.config, launch);
  if (!launch.launched()) return made;
  made.device = device_of(made.loaded.config.train);
  parallel::require_backend(made.device);
  use_device_of_rank(made.device, launch);
  return made;
}

int exit_code_of(const parallel::Failure& failure) { return failure.mistake ? kMistake : kFailure; }

// What the work throws is printed by rank 0 alone; another rank reports it to rank 0.
template <class Work>
auto before_joining(const Work& work) {
  try {
    return work();
  } catch (const std::exception& failure) {
    const int code = say(failure);
    parallel::report_early(failure_text(failure), is_mistake(failure));
    throw Said{code};
  }
}

// One of several processes. What goes wrong on rank 0 is said by it; on another rank it is reported, and rank 0 says it.
int train_as_rank(const Arguments& a, const parallel::Launch& launch, Prepared prepared,
                  const StopRequest& stop) {
  const config::Loaded& loaded = prepared.loaded;
  TrainOptions& options = prepared.options;
  parallel::Ranks ranks(
      launch, {.device = prepared.device,
               .timeout_s = loaded.config.train.timeout,
               .on_failure = [&](const parallel::Failure& f) { print_failure(launch, f); },
               .end = [](const parallel::Failure& f) { std::_Exit(exit_code_of(f)); }});
  options.ranks = &ranks;
  try {
    require_same_program(a, ranks, loaded, options);
    const int code = train_here(a, launch, loaded, options, stop);
    ranks.leave();
    return code;
  } catch (const std::exception& failure) {
    const std::string text = one_line(failure_text(failure));
    const bool speaks = ranks.take_last_word();
    const parallel::Failure first = ranks.report(text, is_mistake(failure));
    if (speaks && first.rank != launch.rank) print_failure(launch, first);
    if (speaks && first.rank == 0 && launch.leads()) fmt::print(stderr, "posenc: {}\n", text);
    std::fflush(nullptr);
    // Without destructors: those of the transport wait for ranks that will not come.
    std::_Exit(exit_code_of(first));
  }
}

}  // namespace

EnvironmentSettings quiet_transport() {
  try {
    if (!parallel::read_launch().launched()) return {};
  } catch (const Error&) {  // said later, by one rank
    return {};
  }
  return {{"GLOG_minloglevel", "3"}, {"TORCH_CPP_LOG_LEVEL", "FATAL"}};
}

int train(const Arguments& a, const std::vector<std::string>& command_line) {
  if (a.procs > 0) return start_ranks(a, command_line);
  const parallel::Launch launch = before_joining([] { return parallel::read_launch(); });
  StopRequest stop;
  if (a.minutes > 0.0) stop.end_within(a.minutes);
  Prepared prepared = before_joining([&] { return prepare(a, launch, command_line); });
  if (!launch.launched()) return train_here(a, launch, prepared.loaded, prepared.options, stop);
  try {
    return train_as_rank(a, launch, std::move(prepared), stop);
  } catch (const parallel::OtherRankFailed& other) {
    print_failure(launch, other.failure());
    return exit_code_of(other.failure());
  }
}

}  // namespace posenc::train

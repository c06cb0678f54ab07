// posenc sweep: a grid of configs, one process per job, here or on a cluster.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

#include "cli/sweep_session.h"
#include "cli/sweep_slurm.h"
#include "cli/verbs.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

struct SweepOptions {
  std::string file;
  std::string out;
  std::string shard;
  std::string on = "local";
  std::string plan;  // hash of the plan that was submitted; given to workers
  SessionOptions session;
  sweep::SlurmRequest slurm;
};

struct Shard {
  int part = 1;
  int parts = 1;
};

Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  Shard shard;
  const char* end = text.data() + text.size();
  const auto part = std::from_chars(text.data(), end, shard.part);
  if (part.ptr != end && *part.ptr == '/') {
    const auto parts = std::from_chars(part.ptr + 1, end, shard.parts);
    if (part.ec == std::errc() && parts.ec == std::errc() && parts.ptr == end) return shard;
  }
  throw Error(ErrorKind::kSyntax, {.scope = "sweep",
                                   .key = "--shard",
                                   .rule = "must be i/n",
                                   .value = "'" + text + "'",
                                   .hint = "for example 1/4"});
}

std::string summary_name(Shard shard) {
  return shard.parts == 1 ? "sweep.json"
                          : fmt::format("sweep-{}-of-{}.json", shard.part, shard.parts);
}

// A task of an array job starts hours after it was submitted: the files may say something else by then.
void require_plan(const sweep::Plan& plan, const std::string& submitted) {
  if (submitted.empty() || sweep::plan_hash(plan) == submitted) return;
  throw Error(ErrorKind::kConflict,
              {.scope = plan.file.path,
               .key = "",
               .rule = "or its base config has changed since the sweep was submitted",
               .value = "",
               .hint = "submit it again"});
}

void refuse_with_slurm(bool given, const char* option, const char* hint) {
  if (!given) return;
  throw Error(ErrorKind::kConflict, {.scope = "sweep",
                                     .key = option,
                                     .rule = "cannot be used with --on slurm",
                                     .value = "",
                                     .hint = hint});
}

// What a task of the array runs, after the name of this program.
std::vector<std::string> worker_words(const SweepOptions& options, const sweep::Plan& plan) {
  std::vector<std::string> words = {
      "sweep", options.file, "--out", plan.file.out.string(), "--plan", sweep::plan_hash(plan)};
  add_session_words(options.session, words);
  return words;
}

int submit(const SweepOptions& options, const sweep::Plan& plan) {
  refuse_with_slurm(!options.shard.empty(), "--shard", "tasks share the runs by themselves");
  refuse_with_slurm(options.session.minutes.has_value(), "--minutes", "use --time");
  sweep::SlurmRequest request = options.slurm;
  if (request.cpus == 0 && options.session.threads > 0) {
    request.cpus = options.session.threads * options.session.jobs;
  }
  return submit_sweep(plan, options.session, request, worker_words(options, plan));
}

int run_sweep(const SweepOptions& options) {
  const Shard shard = parse_shard(options.shard);
  const auto box = time_box(options.session);
  sweep::SweepFile file = sweep::read_sweep(options.file);
  if (!options.out.empty()) file.out = options.out;
  const sweep::Plan plan = plan_for(std::move(file), options.session);
  if (options.on == "slurm") return submit(options, plan);
  require_plan(plan, options.plan);
  const auto jobs = sweep::shard(plan.jobs, shard.part, shard.parts);
  SessionOptions session = options.session;
  session.worker = !options.plan.empty();
  return run_session(plan, jobs, session, box, summary_name(shard)).code;
}

}  // namespace

void add_sweep(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("sweep", "Train a grid of configs, one process per job");
  auto options = std::make_shared<SweepOptions>();
  verb->add_option("SWEEP", options->file, "YAML: base, out, grid, also, exclude");
  verb->add_option("--on", options->on, "local (default), or slurm: submit an array job")
      ->check(CLI::IsMember({"local", "slurm"}));
  add_session_options(*verb, options->session);
  verb->add_option("--shard", options->shard, "i/n: the i-th of n parts, for several machines");
  verb->add_option("--out", options->out, "folder of the runs, instead of the file's");
  verb->add_option("--plan", options->plan, "hash of a submitted plan: for tasks of an array job")
      ->group("");
  add_slurm_options(*verb, options->slurm);
  add_sweep_status(*verb, chosen);
  add_sweep_cancel(*verb, chosen);
  add_sweep_retry(*verb, chosen);
  verb->footer(
      "Finished runs are skipped and interrupted ones go on. Ctrl-C lets the jobs save\n"
      "and end. Several sweeps may work on one folder: a run is trained by one of them.\n"
      "Examples:\n"
      "  posenc sweep configs/theta.yaml --jobs 2 --dry-run\n"
      "  posenc sweep configs/theta.yaml --shard 1/4\n"
      "  posenc sweep configs/theta.yaml --device cuda --jobs 8 --minutes 30\n"
      "  posenc sweep configs/theta.yaml --on slurm --partition gpu --time 4:00:00 \\\n"
      "    --gpus 1\n"
      "  posenc sweep status runs/theta\n");
  verb->callback([&chosen, options, verb] {
    if (!verb->get_subcommands().empty()) return;
    if (options->file.empty()) throw CLI::RequiredError("SWEEP");
    chosen = [options, verb] {
      if (options->on == "local") refuse_slurm_options(*verb);
      return run_sweep(*options);
    };
  });
}

}  // namespace posenc::cli

// posenc sweep: a grid of configs, one process per job.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

#include "cli/sweep_session.h"
#include "cli/verbs.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

struct SweepOptions {
  std::string file;
  std::string out;
  std::string shard;
  SessionOptions session;
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

int run_sweep(const SweepOptions& options) {
  const Shard shard = parse_shard(options.shard);
  const auto box = time_box(options.session);
  sweep::SweepFile file = sweep::read_sweep(options.file);
  if (!options.out.empty()) file.out = options.out;
  const sweep::Plan plan = plan_for(std::move(file), options.session);
  const auto jobs = sweep::shard(plan.jobs, shard.part, shard.parts);
  return run_session(plan, jobs, options.session, box, summary_name(shard)).code;
}

}  // namespace

void add_sweep(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("sweep", "Trains a grid of configs, one process per job");
  auto options = std::make_shared<SweepOptions>();
  verb->add_option("SWEEP", options->file, "YAML: base, out, grid, also, exclude")->required();
  add_session_options(*verb, options->session);
  verb->add_option("--shard", options->shard, "i/n: the i-th of n parts, for several machines");
  verb->add_option("--out", options->out, "folder of the runs, instead of the file's");
  verb->footer(
      "A finished run is skipped, an interrupted one goes on; Ctrl-C lets the jobs save and end.\n"
      "Examples:\n"
      "  posenc sweep configs/theta.yaml --jobs 2 --dry-run\n"
      "  posenc sweep configs/theta.yaml --shard 1/4\n"
      "  posenc sweep configs/theta.yaml --device cuda --jobs 8 --minutes 30\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_sweep(*options); }; });
}

}  // namespace posenc::cli

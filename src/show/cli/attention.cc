// posenc attention: what a trained model looks at on an example. Records that are missing are computed by
// posenc-lab; pictures need the record alone.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "cli/figure_output.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "config/load.h"
#include "posenc/core/error.h"
#include "report/attention_figures.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "system/process.h"
#include "system/restart.h"
#include "system/scratch_folder.h"
#include "system/stop_request.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;
using runs::AttentionRecord;

struct AttentionOptions {
  std::string run;
  std::string against;
  std::string axis = "train";
  std::int64_t length = 0;
  std::int64_t sample = 0;
  std::string text;
  bool best = false;
  bool again = false;
  std::vector<std::int64_t> layers;
  std::vector<std::int64_t> heads;
  FigureOutput output;
};

// The step of the checkpoint that a record should be of; nothing where there is none any more.
std::optional<std::int64_t> wanted_step(const runs::RunDirectory& run, bool best) {
  std::optional<runs::CheckpointInfo> found;
  for (const auto& info : runs::CheckpointReader(run.checkpoints_path()).list()) {
    if (!info.problem.empty() || (best && !info.score)) continue;
    if (!best || !found || *info.score > *found->score) found = info;
  }
  if (!found) return std::nullopt;
  return found->step;
}

bool is_current(const fs::path& record, const runs::RunDirectory& run, bool best) {
  std::error_code ignored;
  if (!fs::exists(record, ignored)) return false;
  const auto step = wanted_step(run, best);
  return !step || runs::read_attention_example(record).step == *step;
}

// A signal that asks this process to stop ends the command, too: it would go on unseen.
Ending run_until(const StopRequest& stop, const Command& command) {
  Process process(command);
  while (!stop.requested()) {
    if (const auto ending = process.poll()) return *ending;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  process.signal(stop.signal_number());
  return process.wait();
}

// Runs posenc-lab, which needs libtorch. What it says is passed on where it fails.
int compute(const AttentionOptions& options, const std::string& run,
            const std::vector<std::string>& which) {
  const ScratchFolder scratch = temporary_scratch("posenc-attention");
  const std::string log = scratch.path() / "log";
  Command command{.words = {program_beside("posenc-lab"), "attention", run, "--progress", "quiet"},
                  .folder = "",
                  .output = log,
                  .environment = patient_threads()};
  command.words.insert(command.words.end(), which.begin(), which.end());
  if (options.best) command.words.emplace_back("--best");
  const StopRequest stop;
  const Ending ending = run_until(stop, command);
  const std::string said = last_line(log);
  if (stop.requested()) return stop.exit_code();
  if (ending.fine()) return kFine;
  print_error("{}", said.empty() ? "posenc: posenc-lab: " + ending_text(ending) : said);
  return ending.signal != 0 ? kFailure : ending.code;
}

// Of the user's own text, which is not kept in the run.
std::optional<AttentionRecord> text_record(const AttentionOptions& options, const std::string& run,
                                           int& code) {
  const ScratchFolder scratch = temporary_scratch("posenc-record");
  const std::string record = scratch.path() / "record.safetensors";
  code = compute(options, run, {"--text", options.text, "--out", record});
  if (code != kFine) return std::nullopt;
  return runs::read_attention(record);
}

// The record of a run: as it lies there, or computed now. `code` is not kFine where that failed.
std::optional<AttentionRecord> record_of(const AttentionOptions& options, const std::string& run,
                                         int& code) {
  if (!options.text.empty()) return text_record(options, run, code);
  const auto directory = runs::RunDirectory::open(run, runs::Access::kRead);
  const auto config = config::load_config(directory.config_path().string()).config;
  const std::int64_t length =
      options.length > 0 ? options.length : config::train_length(config.train);
  const fs::path path =
      runs::attention_path(run, options.axis, length, options.sample, options.best);
  if (options.again || !is_current(path, directory, options.best)) {
    code = compute(options, run,
                   {"--sample", std::to_string(options.sample), "--length", std::to_string(length),
                    "--axis", options.axis});
    if (code != kFine) return std::nullopt;
  }
  return runs::read_attention(path);
}

// "runs/demo/seed0-rope" is seed0-rope in a title.
std::string folder_name(const std::string& run) {
  const fs::path path = fs::path(run).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100.0 * *share) : "";
}

void print_heads(const AttentionRecord& record) {
  const bool asks = record.example.has_instruction();
  std::vector<std::string> header = {"layer", "head", "mean distance"};
  if (asks) header.emplace_back("% on the instruction");
  const bool has_cope = std::any_of(record.layers.begin(), record.layers.end(),
                                    [](const auto& layer) { return layer.has_cope(); });
  if (has_cope) header.insert(header.end(), {"open gates", "leak"});
  Table table(header);
  for (const auto& [layer, head] : report::chosen_heads(record, {}, {})) {
    std::vector<std::string> row = {
        std::to_string(layer), std::to_string(head),
        fmt::format("{:.2f}", runs::attended_distance(record, layer, head).mean)};
    if (asks) row.push_back(percent(runs::instruction_share(record, layer, head)));
    if (has_cope) {
      const auto gates = runs::last_gates(record, layer, head);
      row.push_back(gates ? std::to_string(gates->open) : "");
      row.push_back(gates ? fmt::format("{:.1f}", gates->leak) : "");
    }
    table.add(row);
  }
  print("\n");
  print_table(table);
  if (has_cope) print("\nof the last query: gates above 1/2, and the sum of the others\n");
}

void print_difference(const AttentionRecord& first, const AttentionRecord& second,
                      const runs::RecordNames& names) {
  Table table({"layer", "head", "total variation", "Jensen-Shannon", "mean distance", "against"});
  for (const runs::Divergence& d : runs::divergences(first, second, names)) {
    const auto mean = [&](const AttentionRecord& record) {
      return fmt::format("{:.2f}", runs::attended_distance(record, d.layer, d.head).mean);
    };
    table.add({std::to_string(d.layer), std::to_string(d.head),
               fmt::format("{:.3f}", d.total_variation), fmt::format("{:.3f}", d.jensen_shannon),
               mean(first), mean(second)});
  }
  print("\n");
  print_table(table);
}

int run_attention(const AttentionOptions& options) {
  check(options.output);
  int code = kFine;
  const auto record = record_of(options, options.run, code);
  if (!record) return code;
  const bool chosen = !options.layers.empty() || !options.heads.empty();
  const auto heads = report::chosen_heads(*record, options.layers, options.heads);
  const std::string name = folder_name(options.run);
  if (options.against.empty()) {
    print("{}: {}\n", name, report::example_text(record->example));
    print_heads(*record);
    write(chosen ? report::attention_heads(*record, name, heads)
                 : report::attention_overview(*record, name),
          options.output, "attention.svg");
    return kFine;
  }
  const auto other = record_of(options, options.against, code);
  if (!other) return code;
  const runs::RecordNames names{name, folder_name(options.against)};
  runs::require_same_example(*record, *other, names);
  print("{}: {}\n", names.first, report::example_text(record->example));
  print("{}: {}\n", names.second, report::example_text(other->example));
  print_difference(*record, *other, names);
  write(chosen ? report::difference_heads(*record, *other, names, heads)
               : report::difference_overview(*record, *other, names),
        options.output, "attention.svg");
  return kFine;
}

}  // namespace

void add_attention(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("attention", "Draw what a trained model attends to on a sample");
  auto options = std::make_shared<AttentionOptions>();
  verb->add_option("RUN", options->run, "a run directory")->required();
  auto* text = verb->add_option("--text", options->text, "a text of your own in place of a sample");
  text->check([](const std::string& words) {
    return words.empty() ? std::string("must not be empty") : std::string();
  });
  verb->add_option("--sample", options->sample, "number of the sample, as evaluations draw it")
      ->check(command::integer_from(0))
      ->excludes(text);
  verb->add_option("--length", options->length, "positions (default: the training length)")
      ->check(command::integer_in(1, 1 << 24))
      ->excludes(text);
  verb->add_option("--axis", options->axis, "how the sample is made (default: train)")
      ->excludes(text);
  verb->add_flag("--best", options->best, "the best checkpoint instead of the last");
  verb->add_flag("--again", options->again, "compute it even if the run has it already");
  verb->add_option("--against", options->against,
                   "a second run: the difference on the same sample");
  verb->add_option("--layer", options->layers, "layers to show in full (default: all, small)")
      ->check(command::integer_from(0));
  verb->add_option("--head", options->heads, "heads to show in full, of the layers or of all")
      ->check(command::integer_from(0));
  add_figure_options(*verb, options->output);
  verb->footer(
      "Examples:\n"
      "  posenc attention runs/mine --sample 0 -o attention.svg\n"
      "  posenc attention runs/text --text \"the cat sat on the mat\" -o mat.svg\n"
      "  posenc attention runs/mine --layer 1 --head 0 -o head.png\n"
      "  posenc attention runs/mine --against runs/other --axis longer --length 64\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_attention(*options); }; });
}

}  // namespace posenc::cli

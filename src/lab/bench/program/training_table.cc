#include "bench/program/training_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/baseline.h"
#include "bench/memory.h"
#include "bench/program/figures.h"
#include "command/ranges.h"
#include "posenc/core/error.h"
#include "runs/files.h"
#include "system/restart.h"

namespace posenc::bench {
namespace {

constexpr int kFailure = 1;
constexpr std::int64_t kLongest = 1 << 24;

Error mistake(const std::string& option, const std::string& rule, const std::string& value,
              const std::string& hint) {
  return {ErrorKind::kConflict,
          {.scope = "bench", .key = option, .rule = rule, .value = value, .hint = hint}};
}

TrainingPlace place_of(const TrainingArguments& arguments) {
  const bool cuda = arguments.device == "cuda";
  const auto names = enum_names(config::TrainPrecision{});
  const auto name = std::find(names.begin(), names.end(), arguments.precision);
  const auto precision = static_cast<config::TrainPrecision>(name - names.begin());
  if (precision != config::TrainPrecision::kFloat32 && !cuda) {
    throw mistake("--precision", "needs --device cuda", arguments.precision,
                  "use float32 on the CPU");
  }
  if (cuda && !cuda_found()) {
    throw mistake("--device", "is cuda, but no CUDA device was found", "", "use --device cpu");
  }
  TrainingPlace place{.device = cuda ? config::Device::kCuda : config::Device::kCpu,
                      .precision = precision};
  if (arguments.memory > 0.0) place.memory_bytes = arguments.memory * 1024.0 * 1024.0 * 1024.0;
  return place;
}

// --batch is that of the shortest length; without it the longest length has one sample.
std::vector<TrainingShape> shapes_of(const TrainingArguments& arguments) {
  if (arguments.lengths.empty()) return {arguments.shape};
  const auto [shortest, longest] =
      std::minmax_element(arguments.lengths.begin(), arguments.lengths.end());
  const bool given = arguments.batch != nullptr && arguments.batch->count() > 0;
  return shapes_for(arguments.shape, arguments.lengths,
                    given ? arguments.shape.batch * *shortest : *longest);
}

template <class Member>
Json figure(const std::optional<TrainingFigures>& figures, Member member) {
  return figures ? Json((*figures).*member) : Json(nullptr);
}

std::optional<std::int64_t> peak_of(const std::optional<TrainingFigures>& figures) {
  return figures ? figures->peak_bytes : std::nullopt;
}

std::optional<double> speed_of(const std::optional<TrainingFigures>& figures) {
  return figures ? std::optional(figures->tokens_per_s) : std::nullopt;
}

Json row_json(const TrainingRow& row, const TrainingArguments& arguments) {
  return {{"encoding", row.encoding},
          {"length", row.shape.length},
          {"batch", row.shape.batch},
          {"dim", row.shape.dim},
          {"layers", row.shape.layers},
          {"heads", row.shape.heads},
          {"device", arguments.device},
          {"precision", arguments.precision},
          {"fits", row.ours.has_value()},
          {"tokens_per_s", or_null(speed_of(row.ours))},
          {"composed_tokens_per_s", or_null(speed_of(row.composed))},
          {"composed_onednn", row.composed_onednn},
          {"speedup", or_null(row.speedup())},
          {"peak_bytes", or_null(peak_of(row.ours))},
          {"composed_peak_bytes", or_null(peak_of(row.composed))},
          {"data_share", figure(row.ours, &TrainingFigures::data_share)},
          {"gpu_idle_share", row.ours ? or_null(row.ours->idle_share) : Json(nullptr)},
          {"loss_difference", or_null(row.loss_difference())},
          {"checked", row.loss_difference() ? Json(row.checked()) : Json(nullptr)}};
}

std::string checked_text(const TrainingRow& row) {
  const auto difference = row.loss_difference();
  if (!difference) return "-";
  return row.checked() ? "yes" : fmt::format("NO: losses differ by {}", *difference);
}

void print_header(const TrainingArguments& arguments) {
  const TrainingShape& shape = arguments.shape;
  fmt::print(
      "training steps, d {}, {} layers, {} heads, {}, {}, {}\n"
      "composed: the same model with attention from libtorch's operations{};\n"
      "          - where there is none or it does not fit into memory\n"
      "MiB: {}; idle: of a step, while the GPU has nothing to do\n"
      "{:<28}{:>7}{:>7}{:>14}{:>12}{:>8}{:>10}{:>14}{:>10}{:>8}  {}\n",
      shape.dim, shape.layers, shape.heads, arguments.precision, arguments.device,
      baseline_library(),
      arguments.device == "cpu" ? ", oneDNN on or off, whichever is faster" : "",
      arguments.device == "cpu" ? "growth of the resident set over a step"
                                : "the most that tensors take in a step",
      "encoding", "T", "batch", "tokens/s", "composed", "x", "MiB", "composed MiB", "samples",
      "idle", "checked");
}

void print_row(const TrainingRow& row) {
  const auto percent = [](std::optional<double> share) {
    return share ? fmt::format("{:.1f} %", 100.0 * *share) : "-";
  };
  const auto samples = row.ours ? std::optional(row.ours->data_share) : std::nullopt;
  const auto idle = row.ours ? row.ours->idle_share : std::nullopt;
  fmt::print("{:<28}{:>7}{:>7}{:>14}{:>12}{:>8}{:>10}{:>14}{:>10}{:>8}  {}\n", row.encoding,
             row.shape.length, row.shape.batch,
             row.ours ? number(row.ours->tokens_per_s, 0) : "does not fit",
             number(speed_of(row.composed), 0), number(row.speedup(), 2),
             mebibytes(peak_of(row.ours)), mebibytes(peak_of(row.composed)), percent(samples),
             percent(idle), checked_text(row));
  std::fflush(stdout);
}

std::vector<std::string> chosen_encodings(const std::string& filter, std::int64_t length) {
  std::vector<std::string> chosen = training_encodings(length);
  if (chosen.empty()) {
    throw mistake("train", "needs libtorch, which this build has not", "",
                  "build with -DPOSENC_TORCH=ON");
  }
  std::erase_if(chosen, [&](const std::string& e) { return e.find(filter) == std::string::npos; });
  if (!chosen.empty()) return chosen;
  throw Error(ErrorKind::kUnknownKey,
              {.scope = "bench",
               .key = "--filter",
               .rule = "matches no encoding",
               .value = "'" + filter + "'",
               .hint = fmt::format("use a part of one of {}",
                                   fmt::join(training_encodings(length), ", "))});
}

// Threads take turns as in the lab; the composition gains from that too.
void prepare_process(int threads) {
  EnvironmentSettings settings = patient_threads();
  for (auto& setting : better_openblas()) settings.push_back(std::move(setting));
  restart_with(settings);
  give_freed_memory_back();
  if (threads > 0) set_baseline_threads(threads);
}

}  // namespace

void add_training_options(CLI::App& train, TrainingArguments& a) {
  train.add_option("--filter", a.filter, "only encodings whose spec contains this");
  train.add_option("--seconds", a.seconds, "time to spend on each, at least three steps")
      ->check(command::number_in(0.0, 600.0))
      ->capture_default_str();
  train.add_option("--threads", a.threads, "0: all cores")->check(command::integer_in(0, 1024));
  train.add_option("--device", a.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  train.add_option("--precision", a.precision, "float32, or on cuda tf32 or bfloat16")
      ->check(CLI::IsMember({"float32", "tf32", "bfloat16"}))
      ->capture_default_str();
  CLI::Option* length = train.add_option("--length", a.shape.length, "tokens of a sample")
                            ->check(command::integer_in(4, kLongest))
                            ->capture_default_str();
  train
      .add_option("--lengths", a.lengths,
                  "a table over lengths such as 512,1024; batches shrink so that a step keeps its "
                  "tokens")
      ->delimiter(',')
      ->check(command::integer_in(4, kLongest))
      ->excludes(length);
  train.add_option("--dim", a.shape.dim, "width")->capture_default_str();
  train.add_option("--layers", a.shape.layers, "blocks")->capture_default_str();
  train.add_option("--heads", a.shape.heads, "heads")->capture_default_str();
  a.batch = train
                .add_option("--batch", a.shape.batch,
                            "samples; with --lengths those of the shortest (else one of the "
                            "longest)")
                ->capture_default_str();
  for (const char* positive : {"--dim", "--layers", "--heads", "--batch"}) {
    train.get_option(positive)->check(command::integer_from(1));
  }
  train
      .add_option("--memory", a.memory,
                  "GiB that a step may take; what needs more is left out (0: what is left)")
      ->check(command::number_from(0.0))
      ->capture_default_str();
  train.add_flag("--json", a.json, "a list of rows, for programs");
  train.add_option("-o,--output", a.output, "also write the rows to this file, as JSON");
  train.footer(
      "Examples:\n"
      "  posenc bench train --filter rope --length 512\n"
      "  posenc bench train --device cuda --precision bfloat16 --lengths 1024,4096\n");
}

int run_training(const TrainingArguments& arguments) {
  const TrainingPlace place = place_of(arguments);
  if (!arguments.output.empty()) (void)output_target(arguments.output);
  const std::vector<TrainingShape> shapes = shapes_of(arguments);
  (void)chosen_encodings(arguments.filter, shapes.front().length);
  prepare_process(arguments.threads);
  if (!arguments.json) print_header(arguments);
  Json all = Json::array();
  bool checked = true;
  for (const TrainingShape& shape : shapes) {
    for (const std::string& encoding : chosen_encodings(arguments.filter, shape.length)) {
      const TrainingRow row = measure_training(encoding, shape, place, {arguments.seconds, 3});
      checked = checked && row.checked();
      all.push_back(row_json(row, arguments));
      if (!arguments.json) print_row(row);
    }
  }
  if (arguments.json) fmt::print("{}\n", all.dump(2));
  if (!arguments.output.empty()) write_output(arguments.output, all.dump(1) + "\n");
  return checked ? 0 : kFailure;
}

}  // namespace posenc::bench

// posenc plan: what a training takes on many GPUs, before any of them is asked for.
#include <fmt/format.h>

#include <array>
#include <memory>

#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "config/load.h"
#include "config/scale.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

using config::ScaleVariant;

struct PlanOptions {
  std::string config;
  std::vector<std::string> settings;
  std::string network = "400Gbit";
  std::string memory = "141GB";
  std::int64_t vocabulary = 0;
  double peak_tflops = 0.0;  // 0: of an H200 at the config's precision
  double latency_us = 10.0;
  double tokens_per_second = 0.0;
  config::Cluster cluster;
  bool json = false;
};

std::string scaled(double number, const char* unit, const char* ending = "") {
  constexpr std::array<const char*, 5> kSteps = {"", "k", "M", "G", "T"};
  constexpr std::array<const char*, 5> kCounts = {"", "k", "M", "B", "T"};
  const bool counts = *unit == '\0';
  std::size_t step = 0;
  for (; number >= 999.5 && step + 1 < kSteps.size(); ++step) number /= 1000.0;
  const int digits = number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}{}", number, digits, counts ? kCounts[step] : kSteps[step], unit,
                     ending);
}

std::string bytes_text(double bytes) { return scaled(bytes, "B"); }

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 120.0) return fmt::format("{:.2f} s", seconds);
  if (seconds < 7200.0) return fmt::format("{:.1f} min", seconds / 60.0);
  if (seconds < 172800.0) return fmt::format("{:.1f} h", seconds / 3600.0);
  return fmt::format("{:.1f} days", seconds / 86400.0);
}

std::string variant_name(const ScaleVariant& v) {
  if (v.sharded && v.checkpointed) return "both";
  if (v.sharded) return "shard_optimizer (ZeRO-1)";
  return v.checkpointed ? "checkpoint_blocks" : "plain";
}

// The corpus of a text may not be on this machine: its vocabulary can be given.
config::DataShape data_of(const config::LabConfig& config, std::int64_t vocabulary) {
  if (vocabulary > 0) return {.vocabulary = vocabulary, .scored_share = 1.0};
  try {
    return {.vocabulary = tasks::make_task(config.task)->info().vocabulary, .scored_share = 1.0};
  } catch (const Error& e) {
    throw Error(e.kind(), {.scope = e.scope(),
                           .key = e.key(),
                           .rule = e.rule(),
                           .value = e.value(),
                           .hint = "or give the size of the vocabulary: --vocabulary 50257"});
  }
}

// Dense products on an H200, as NVIDIA states them.
double h200_tflops(config::TrainPrecision precision) {
  switch (precision) {
    case config::TrainPrecision::kFloat32:
      return 67.0;
    case config::TrainPrecision::kTf32:
      return 494.0;
    case config::TrainPrecision::kBfloat16:
      break;
  }
  return 989.0;
}

config::Cluster cluster_of(const PlanOptions& options, const config::LabConfig& config) {
  config::Cluster cluster = options.cluster;
  cluster.network = config::parse_amount(options.network, "--network");
  cluster.memory = config::parse_bytes(options.memory, "--memory");
  const double tflops =
      options.peak_tflops > 0.0 ? options.peak_tflops : h200_tflops(config.train.precision);
  cluster.peak = tflops * 1e12;
  cluster.latency = options.latency_us * 1e-6;
  if (options.tokens_per_second > 0.0) cluster.tokens_per_second = options.tokens_per_second;
  return cluster;
}

void print_heading(const config::ScalePlan& plan, const config::Cluster& cluster) {
  print("{} parameters; {} {}, {} rows of {} positions per step, {} positions on each GPU\n",
        scaled(plan.parameters, ""), cluster.gpus, cluster.gpus == 1 ? "GPU" : "GPUs", plan.batch,
        plan.length, plan.batch / cluster.gpus * plan.length);
  if (cluster.tokens_per_second) {
    print("compute: {} tokens/s on one GPU, as given\n", scaled(*cluster.tokens_per_second, ""));
  } else {
    print("compute: {} per token at {:.0f} % of {:.0f} TFLOP/s\n",
          scaled(plan.flops_per_token, "FLOP"), cluster.share * 100.0, cluster.peak * 1e-12);
  }
  print(
      "network: {:.0f} Gbit/s per GPU and direction, of which {:.0f} % are reached; {:.0f} us per "
      "hop\n\n",
      cluster.network * 8e-9, cluster.network_share * 100.0, cluster.latency * 1e6);
}

void print_memory(const config::ScalePlan& plan) {
  Table table({"memory per GPU", "bytes", "or", "with"});
  table.add({"weights, float32", bytes_text(plan.weights), "", ""});
  if (plan.rounded_weights > 0.0) {
    table.add({"weights, bfloat16", bytes_text(plan.rounded_weights), "", ""});
  }
  table.add({"gradients, float32", bytes_text(plan.gradients), "", ""});
  table.add({"optimizer's state", bytes_text(plan.optimizer), bytes_text(plan.sharded_optimizer),
             "shard_optimizer (ZeRO-1)"});
  table.add({"activations", bytes_text(plan.activations), bytes_text(plan.checkpointed_activations),
             "checkpoint_blocks"});
  print_table(table);
  print("\n");
}

void print_variants(const config::ScalePlan& plan, const config::Cluster& cluster) {
  Table table({"variant", "memory", "sent per step", "compute", "network", "exposed", "step",
               "efficiency", "tokens/s", "whole run"});
  for (const ScaleVariant& v : plan.variants) {
    table.add({variant_name(v), bytes_text(v.memory) + (v.fits ? "" : " (too much)"),
               bytes_text(v.wire), seconds_text(v.compute), seconds_text(v.network),
               seconds_text(v.exposed), seconds_text(v.step),
               fmt::format("{:.1f} %", v.efficiency * 100.0), scaled(v.tokens_per_second, ""),
               seconds_text(v.seconds)});
  }
  print_table(table);
  const bool any = plan.variants[3].fits || plan.variants[2].fits || plan.variants[1].fits ||
                   plan.variants[0].fits;
  if (!any) {
    print("no variant fits into {}: use a smaller batch per GPU (more GPUs, or train.accumulate)\n",
          bytes_text(cluster.memory));
  }
}

int run_plan(const PlanOptions& options) {
  const config::Loaded loaded = config::load_config(options.config, options.settings);
  const config::Cluster cluster = cluster_of(options, loaded.config);
  const config::DataShape data = data_of(loaded.config, options.vocabulary);
  const config::ScalePlan plan = config::plan_scale(loaded.config, data, cluster);
  if (options.json) {
    print_json(to_json(config::scale_value(plan, cluster)));
    return kFine;
  }
  print_heading(plan, cluster);
  print_memory(plan);
  print_variants(plan, cluster);
  return kFine;
}

void add_machine_options(CLI::App& verb, PlanOptions& options) {
  verb.add_option("--gpus", options.cluster.gpus, "GPUs, one process each")
      ->check(command::integer_in(1, 1 << 20))
      ->required();
  verb.add_option("--network", options.network, "bandwidth of one GPU in each direction")
      ->capture_default_str();
  verb.add_option("--network-share", options.cluster.network_share, "of it that is reached")
      ->check(command::number_in(0.01, 1.0))
      ->capture_default_str();
  verb.add_option("--latency", options.latency_us, "of one hop, in microseconds")
      ->check(command::number_in(0.0, 1e6))
      ->capture_default_str();
  verb.add_option("--memory", options.memory, "of one GPU (default: an H200)")
      ->capture_default_str();
  CLI::Option* peak = verb.add_option("--peak", options.peak_tflops,
                                      "TFLOP/s of one GPU (default: an H200 at train.precision)")
                          ->check(command::number_in(0.001, 1e6));
  CLI::Option* share =
      verb.add_option(
              "--share", options.cluster.share,
              "of the peak that training reaches (default: measured on an H200, docs/lab.md)")
          ->check(command::number_in(0.001, 1.0))
          ->capture_default_str();
  verb.add_option("--tokens-per-s", options.tokens_per_second,
                  "measured on one GPU with posenc bench train, in place of --peak and --share")
      ->check(command::number_above(0.0))
      ->excludes(peak)
      ->excludes(share);
}

}  // namespace

void add_plan(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("plan", "Estimate memory, network and time of a training on many GPUs");
  auto options = std::make_shared<PlanOptions>();
  verb->add_option("CONFIG", options->config, "a lab config, see configs/")->required();
  verb->add_option("--set", options->settings, "set a field, such as train.batch=512")
      ->allow_extra_args(false);
  add_machine_options(*verb, *options);
  verb->add_option("--vocabulary", options->vocabulary, "tokens (default: those of the task)")
      ->check(command::integer_in(2, std::int64_t{1} << 32));
  verb->add_flag("--json", options->json, "as JSON, in bytes and seconds");
  verb->footer("Example:\n  posenc plan configs/language_model.yaml --gpus 16 --network 400Gbit\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_plan(*options); }; });
}

}  // namespace posenc::cli

#include "posenc/weights/convert.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>

#include "cli/choices.h"
#include "cli/conversion.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

using weights::FusedOrder;
using weights::HeadShape;

struct ConvertOptions {
  std::string in;
  std::string out;
  std::string layout;
  std::string from;
  std::string config;
  std::string qkv;
  weights::LayoutOptions to_layout;
  std::string positions;
  weights::PositionOptions to_positions;
  weights::Patterns keep;
  weights::OutputOptions output;
  bool json = false;
};

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

extern "C" void note_signal(int /*number*/) { interrupted = true; }

// An interrupted conversion ends like any failed one: temporaries removed, the target as it was.
void watch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(number, note_signal) == SIG_IGN) std::signal(number, SIG_IGN);  // nohup
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of write() then
}

Error option_error(const std::string& key, const std::string& rule, const std::string& value,
                   const std::string& hint) {
  return {ErrorKind::kConflict,
          {.scope = "convert", .key = key, .rule = rule, .value = value, .hint = hint}};
}

// What the config says fills what the options leave open; where both speak they must agree.
void merge(HeadShape& given, const HeadShape& model, const std::string& config) {
  const auto take = [&](const char* option, std::int64_t& mine, std::int64_t models) {
    if (mine > 0 && mine != models) {
      throw option_error(option, fmt::format("must be {} as {} says", models, config),
                         std::to_string(mine), "leave one of the two out");
    }
    mine = models;
  };
  take("--head-dim", given.head_dim, model.head_dim);
  take("--heads", given.heads, model.heads);
  take("--kv-heads", given.kv_heads, model.kv_heads);
  take("--rotary-dim", given.rotary_dim, model.rotary_dim);
  take("--dim-offset", given.dim_offset, model.dim_offset);
}

// The config that was named, or that of the folder where nothing else says how large heads are.
std::string config_path(const ConvertOptions& options) {
  if (!options.config.empty()) return options.config;
  const HeadShape& heads = options.to_layout.heads;
  const std::string beside = (std::filesystem::path(options.in) / "config.json").string();
  std::error_code ignored;
  const bool told = heads.head_dim > 0 || heads.heads > 0;
  return !told && std::filesystem::exists(beside, ignored) ? beside : "";
}

weights::ConvertReport run_layout(const ConvertOptions& options) {
  weights::LayoutOptions layout = options.to_layout;
  layout.to = value_of<PairLayout>(options.layout);
  layout.keep = options.keep;
  if (!options.from.empty()) layout.from = value_of<PairLayout>(options.from);
  if (!options.qkv.empty()) layout.order = value_of<FusedOrder>(options.qkv);
  if (const std::string config = config_path(options); !config.empty()) {
    const weights::ModelHeads model = weights::model_heads(read_hf_config(config));
    merge(layout.heads, model.heads, config);
    layout.model_from = model.layout;
  }
  return convert_layout(options.in, options.out, layout, options.output);
}

weights::ConvertReport run_positions(const ConvertOptions& options) {
  weights::PositionOptions positions = options.to_positions;
  positions.spec = options.positions;
  positions.keep = options.keep;
  return convert_positions(options.in, options.out, positions, options.output);
}

int run_convert(ConvertOptions options) {
  watch_signals();
  options.output.stop = &interrupted;
  if (options.out.empty() && options.output.dry_run && !options.output.in_place) {
    options.output.in_place = true;  // nothing will be written, so nothing needs a name
  }
  const ConvertMode mode = options.layout.empty() ? ConvertMode::kPositions : ConvertMode::kLayout;
  const weights::ConvertReport report =
      mode == ConvertMode::kLayout ? run_layout(options) : run_positions(options);
  const bool dry = options.output.dry_run;
  options.json ? print_json(conversion_json(report, mode, dry))
               : print("{}\n", conversion_text(report, mode, dry));
  return kFine;
}

// Each may be given many times, with one pattern or several between commas.
CLI::Option* add_patterns(CLI::App* verb, const std::string& name, weights::Patterns& patterns,
                          const std::string& help) {
  return verb->add_option(name, patterns, help)->allow_extra_args(false)->delimiter(',');
}

void add_layout_options(CLI::App* verb, ConvertOptions& options, CLI::Option* layout) {
  HeadShape& heads = options.to_layout.heads;
  const CLI::Validator size = command::integer_in(1, 1 << 20);
  std::vector<CLI::Option*> all = {
      verb->add_option("--from", options.from, "pairing of IN, if it is neither marked nor told")
          ->check(CLI::IsMember(names_of<PairLayout>())),
      verb->add_option(
          "--config", options.config,
          "config.json of the model: heads, window and pairing (a folder has its own)"),
      verb->add_option("--head-dim", heads.head_dim, "channels per head")->check(size),
      verb->add_option("--heads", heads.heads, "attention heads")->check(size),
      verb->add_option("--kv-heads", heads.kv_heads, "heads of k and v")->check(size),
      verb->add_option("--rotary-dim", heads.rotary_dim, "channels that rotate (default: all)")
          ->check(size),
      verb->add_option("--dim-offset", heads.dim_offset, "first channel that rotates")
          ->check(command::integer_in(0, 1 << 20)),
      add_patterns(verb, "--q-proj", options.to_layout.q, "projections of q, if not known by name"),
      add_patterns(verb, "--k-proj", options.to_layout.k, "projections of k"),
      add_patterns(verb, "--qkv-proj", options.to_layout.fused, "projections of q, k and v in one"),
      verb->add_option("--qkv", options.qkv,
                       "order of rows there: [q; k; v] or per head of k, if not known by name")
          ->check(CLI::IsMember(names_of<FusedOrder>())),
  };
  for (CLI::Option* option : all) option->needs(layout);
}

void add_position_options(CLI::App* verb, ConvertOptions& options, CLI::Option* positions) {
  std::vector<CLI::Option*> all = {
      add_patterns(verb, "--positional", options.to_positions.positional,
                   "weights of positions, if not known by name"),
      verb->add_option("--target", options.to_positions.target,
                       "what the new model has: a checkpoint, or a .json of {\"name\": [shape]}"),
      add_patterns(verb, "--freeze-except", options.to_positions.freeze_except,
                   "attention, or patterns: list what to train and what to freeze"),
  };
  for (CLI::Option* option : all) option->needs(positions);
}

void add_output_options(CLI::App* verb, ConvertOptions& options) {
  auto* out = verb->add_option("-o,--out", options.out, "file, or folder if IN is one");
  verb->add_flag("--in-place", options.output.in_place, "replace IN")->excludes(out);
  verb->add_flag("--force", options.output.force, "replace OUT where it exists");
  verb->add_flag("--dry-run", options.output.dry_run, "check and report, write nothing");
  verb->add_flag("--json", options.json, "machine-readable, with every tensor");
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "convert", "Rewrite a checkpoint for the other pairing of RoPE, or for RoPE at all");
  auto options = std::make_shared<ConvertOptions>();
  verb->add_option("IN", options->in, "safetensors file, or folder with one or with shards")
      ->required();
  auto* what = verb->add_option_group("what to do");
  auto* layout =
      what->add_option("--layout", options->layout, "pairing of channels to permute q and k to")
          ->check(CLI::IsMember(names_of<PairLayout>()));
  auto* positions = what->add_option(
      "--positions", options->positions,
      "leave learned or sinusoidal positions out, for a model with this spec, such as rope");
  what->require_option(1);
  add_output_options(verb, *options);
  add_layout_options(verb, *options, layout);
  add_position_options(verb, *options, positions);
  add_patterns(verb, "--keep", options->keep, "modules or tensors to copy as they are");
  verb->footer(
      "Examples:\n"
      "  posenc convert model.safetensors -o out.safetensors --layout interleaved \\\n"
      "    --head-dim 128\n"
      "  posenc convert llama-folder -o out-folder --layout interleaved --dry-run\n"
      "  posenc convert gpt2.safetensors -o start.safetensors --positions rope \\\n"
      "    --freeze-except attention\n"
      "A pattern is the end of a name, such as self_attn.q_proj, or has * and ?,\n"
      "such as '*.q_proj'.\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_convert(*options); }; });
}

}  // namespace posenc::cli

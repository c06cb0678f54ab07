#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/choices.h"
#include "cli/inspection.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "core/value.h"
#include "posenc/core/error.h"
#include "posenc/encodings/hf_config.h"

namespace posenc::cli {
namespace {

struct InspectOptions {
  std::string encoding;
  std::string hf;
  std::int64_t head_dim = 0;
  std::int64_t heads = 0;
  std::int64_t seq_len = 0;
  std::string positions = "0:3";
  std::string relative = "-8:8";
  std::string precision;  // empty: as the spec says
  std::string profile;
  bool json = false;
};

// A spec with the name of the layers that use it, which is empty where all layers are alike.
struct Named {
  std::string layer;
  Spec spec;
  ModelShape shape;
  std::optional<double> scale = std::nullopt;  // of scores, where it is not 1 / sqrt(head_dim)
};

InspectRequest request_from(const InspectOptions& options) {
  InspectRequest request;
  request.positions = parse_positions(options.positions);
  std::tie(request.relative_first, request.relative_last) =
      parse_range("--relative", options.relative);
  request.seq_len = options.seq_len;
  return request;
}

std::vector<Named> read_hf(const InspectOptions& options) {
  const Profile profile =
      options.profile.empty() ? Profile::kHf : value_of<Profile>(options.profile);
  const HfModel model = read_hf_config(options.hf, profile);
  std::vector<Named> specs;
  for (const HfLayer& layer : model.layers) {
    specs.push_back({layer.type, layer.spec, layer.shape, layer.scale});
  }
  return specs;
}

// "@file" names a file with the spec.
Spec read_spec(const std::string& given) {
  return parse_any_spec(given.starts_with('@') ? read_file(given.substr(1)) : given);
}

std::vector<Named> read_encoding(const InspectOptions& options) {
  if (options.head_dim == 0) {
    throw Error(ErrorKind::kMissingKey, {.scope = "inspect",
                                         .key = "--head-dim",
                                         .rule = "is required with a spec",
                                         .value = "",
                                         .hint = "add --head-dim 64"});
  }
  const ModelShape shape{.head_dim = options.head_dim, .heads = 1, .model_dim = 0};
  Spec spec = read_spec(options.encoding);
  if (!options.profile.empty()) spec = with_profile(spec, value_of<Profile>(options.profile));
  return {{"", std::move(spec), shape}};
}

void print_specs(const std::vector<Named>& specs, InspectRequest request, bool json) {
  const std::size_t terminal = command::terminal_width(STDOUT_FILENO);
  nlohmann::ordered_json layers;
  for (const Named& named : specs) {
    request.shape = named.shape;
    request.scale = named.scale;
    const Inspection inspection = inspect(named.spec, request);
    if (specs.size() == 1) {
      json ? print_json(inspection_json(inspection))
           : print("{}\n", inspection_text(inspection, terminal));
    } else if (json) {
      layers["layers"][named.layer] = nlohmann::ordered_json::parse(inspection_json(inspection));
    } else {
      print("layers    {}\n{}\n", named.layer, inspection_text(inspection, terminal));
    }
  }
  if (!layers.is_null()) print_json(layers.dump(2));
}

int run_inspect(const InspectOptions& options) {
  if (options.encoding.empty() && options.hf.empty()) {
    throw Error(ErrorKind::kMissingKey,
                {.scope = "inspect",
                 .key = "SPEC",
                 .rule = "is required",
                 .value = "",
                 .hint = "add a spec such as rope, or --hf config.json of a model"});
  }
  std::vector<Named> specs = options.hf.empty() ? read_encoding(options) : read_hf(options);
  for (Named& named : specs) {
    if (!options.precision.empty()) {
      named.spec = with_precision(named.spec, value_of<Precision>(options.precision));
    }
    if (options.heads > 0) named.shape.heads = options.heads;
  }
  print_specs(specs, request_from(options), options.json);
  return kFine;
}

}  // namespace

void add_inspect(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("inspect", "Show frequencies, tables, slopes and buckets of an encoding");
  auto options = std::make_shared<InspectOptions>();
  CLI::Option* spec =
      verb->add_option("SPEC", options->encoding,
                       "such as \"rope(theta=500000) + alibi\"; also as YAML or JSON, or @file");
  CLI::Option* encoding =
      verb->add_option("--encoding", options->encoding, "the same as an option")->excludes(spec);
  verb->add_option("--hf", options->hf, "config.json of a Hugging Face model, in place of a spec")
      ->excludes(spec)
      ->excludes(encoding);
  verb->add_option("--head-dim", options->head_dim, "channels per head (with a spec)")
      ->check(command::integer_in(1, 1 << 20));
  verb->add_option("--heads", options->heads, "attention heads (default 1, or the model's)")
      ->check(command::integer_in(1, 1 << 20));
  verb->add_option("--seq-len", options->seq_len, "current length, for schedules that follow it")
      ->check(command::integer_in(1, std::int64_t{1} << 50));
  verb->add_option("--positions", options->positions,
                   "rows to show: 0,1,7 or 0:15, or 3/4/5 with one coordinate per axis")
      ->capture_default_str();
  verb->add_option("--relative", options->relative, "T5: distances (key minus query) to show")
      ->capture_default_str();
  verb->add_option("--precision", options->precision,
                   "exact (float64) or hf (float32 as transformers); default: as the spec says")
      ->check(CLI::IsMember(names_of<Precision>()));
  verb->add_option("--profile", options->profile,
                   "take hf's, vllm's or llama.cpp's choices; default: as the spec says")
      ->check(CLI::IsMember(names_of<Profile>()));
  verb->add_flag("--json", options->json, "machine-readable");
  verb->footer(
      "Examples:\n"
      "  posenc inspect \"rope + alibi\" --head-dim 64 --heads 8\n"
      "  posenc inspect \"rope(schedule=linear(factor=4))\" --head-dim 64 \\\n"
      "    --positions 0,1,7\n"
      "  posenc inspect t5 --head-dim 64 --relative -600:600 --json\n"
      "  posenc inspect --hf config.json --seq-len 8192 --precision hf --json\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_inspect(*options); }; });
}

}  // namespace posenc::cli

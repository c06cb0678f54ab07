// train.init_from: where the initial weights come from, and the shape of the model that goes with them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "config/model_config.h"
#include "core/value.h"

namespace posenc::config {

// A run directory has config.yaml, a Hugging Face folder config.json; weights alone are a safetensors file, the
// index of a sharded one, or a folder with one of them.
enum class InitKind { kRun, kHuggingFace, kWeights };
constexpr std::array<std::string_view, 3> enum_names(InitKind /*tag*/) {
  return {"run", "hugging_face", "weights"};
}

struct InitSource {
  InitKind kind = InitKind::kWeights;
  std::string path;
  std::optional<ModelConfig> model;  // nothing where there are weights alone
};

// An Error where nothing is there, or where it describes a model that the lab does not have.
InitSource read_init_source(const std::string& path);

// Writes the model of the source into a config that does not say it itself. Fields of the shape that it does say
// must agree; the encoding, dropout and the window are the config's own. A source that is not there yet is left to
// the training, which refuses it.
void apply_init_from(Value& tree);

// An Error where a field of the shape is not that of the source: before its weights are read. A config that says all
// fields is read without its source, so apply_init_from() has not compared them.
void require_shape_of(const InitSource& source, const ModelConfig& model);

}  // namespace posenc::config

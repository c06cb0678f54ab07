#include "posenc/encodings/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/value.h"
#include "encodings/hf_family.h"
#include "encodings/hf_keys.h"
#include "encodings/hf_layers.h"
#include "encodings/hf_scores.h"

namespace posenc {
namespace {

using Positions = HfFamily::Positions;

constexpr FieldRule kDimRule{.doc = "", .min = 1, .max = 1 << 20};
constexpr FieldRule kWidthRule{.doc = "", .min = 1, .max = 1 << 30};
constexpr FieldRule kLengthRule{.doc = "", .min = 1, .max = 1e15};
constexpr std::array<std::string_view, 4> kHeadNames = {"num_attention_heads", "n_head", "n_heads",
                                                        "num_heads"};
constexpr std::array<std::string_view, 4> kWidthNames = {"hidden_size", "n_embd", "d_model",
                                                         "n_embed"};

// Any of these, be it null, says that the model rotates.
constexpr std::array<std::string_view, 9> kRotaryKeys = {
    "rope_parameters",   "rope_scaling",         "rope_theta",
    "rotary_pct",        "rotary_emb_base",      "rotary_dim",
    "global_rope_theta", "rope_local_base_freq", "partial_rotary_factor"};

// Models of several modalities keep the text model's config under one of these keys.
const Value& text_model(const Value& root) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const Value* inner = root.find(key);
    if (inner != nullptr && inner->get_if<Value::Map>() != nullptr) return text_model(*inner);
  }
  return root;
}

std::int64_t default_or_missing(const HfKeys& top, HfKeys::Names names, std::int64_t fallback) {
  if (fallback == 0) return top.require(names, kDimRule);
  return top.any<std::int64_t>(names, kDimRule).value_or(fallback);
}

// hidden_size / num_attention_heads, which must leave no remainder.
std::int64_t divided_head_dim(const HfKeys& top, std::int64_t width, std::int64_t heads) {
  if (width == 0) return top.require(kWidthNames, kWidthRule);
  if (width % heads != 0) {
    throw top.error(ErrorKind::kConflict, "hidden_size",
                    fmt::format("must be a multiple of num_attention_heads ({})", heads),
                    std::to_string(width), "or add head_dim");
  }
  if (width / heads > (1 << 20)) {
    throw top.error(ErrorKind::kOutOfRange, "hidden_size / num_attention_heads",
                    "must be " + range_text(kDimRule), std::to_string(width / heads));
  }
  return width / heads;
}

std::optional<std::int64_t> read_length(const HfKeys& top, const FieldRule& rule) {
  return top.first<std::int64_t>({"max_position_embeddings", "n_positions", "max_seq_len"}, rule);
}

std::int64_t read_width(const HfKeys& top, std::string_view model_type) {
  if (const auto width = top.any<std::int64_t>(kWidthNames, kWidthRule)) return *width;
  if (model_type == "gemma3_text") return 2304;
  return top.get<std::int64_t>("dim", kWidthRule).value_or(0);  // DistilBERT's name for it
}

ModelShape read_shape(const HfKeys& top, std::string_view model_type) {
  // Gemma 3's files leave out what equals the defaults of its config class.
  const bool gemma3 = model_type == "gemma3_text";
  ModelShape shape;
  shape.heads = default_or_missing(top, kHeadNames, gemma3 ? 8 : 0);
  shape.model_dim = read_width(top, model_type);
  const auto head_dim = top.any<std::int64_t>({"head_dim", "d_kv"}, kDimRule);
  const auto unrotated =
      top.get<std::int64_t>("qk_nope_head_dim", FieldRule{.doc = "", .min = 0, .max = 1 << 20});
  const auto rotated = top.get<std::int64_t>("qk_rope_head_dim", kDimRule);
  if (unrotated && rotated) {
    shape.head_dim = *unrotated + *rotated;
  } else if (head_dim || gemma3) {
    shape.head_dim = head_dim.value_or(256);
  } else {
    shape.head_dim = divided_head_dim(top, shape.model_dim, shape.heads);
  }
  return shape;
}

std::int64_t read_kv_heads(const HfKeys& top, std::string_view model_type, std::int64_t heads) {
  const auto given =
      top.any<std::int64_t>({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, kDimRule);
  if (model_type == "gemma3_text") return given.value_or(4);
  if (model_type == "falcon" && !top.get<bool>("new_decoder_architecture").value_or(false)) {
    return top.get<bool>("multi_query").value_or(true) ? 1 : heads;
  }
  if (const auto attention = top.child("attn_config"); attention && !given) {
    return attention->get<std::int64_t>("kv_n_heads", kDimRule).value_or(heads);
  }
  return given.value_or(heads);
}

std::vector<HfLayer> one_kind(Encoding encoding, const ModelShape& shape) {
  return {{"", Spec{{std::move(encoding)}}, shape}};
}

std::vector<HfLayer> read_learned(const HfKeys& top, const ModelShape& shape) {
  constexpr FieldRule kRowsRule{.doc = "", .min = 1, .max = 1 << 30};
  Learned learned;
  const auto rows = read_length(top, kRowsRule);
  if (!rows) {
    throw top.error(ErrorKind::kMissingKey, "max_position_embeddings", "is required", "",
                    "looked for max_position_embeddings, n_positions, max_seq_len");
  }
  learned.max_positions = *rows;
  return one_kind(learned, shape);
}

// MosaicML's models: ALiBi unless attn_config says otherwise.
std::vector<HfLayer> read_mpt(const HfKeys& top, const ModelShape& shape) {
  constexpr FieldRule kBiasRule{.doc = "", .min = 0, .max = 64, .open_min = true};
  Alibi alibi;
  alibi.slopes = Alibi::Slopes::kMpt;
  const auto attention = top.child("attn_config");
  if (!attention) return one_kind(alibi, shape);
  if (attention->get<bool>("rope").value_or(false)) {
    throw attention->error(ErrorKind::kUnsupported, "rope", "must be false", "true",
                           "write the rotation as a spec instead");
  }
  if (!attention->get<bool>("alibi").value_or(true)) return read_learned(top, shape);
  alibi.bias_max = attention->get<double>("alibi_bias_max", kBiasRule).value_or(8.0);
  return one_kind(alibi, shape);
}

std::vector<HfLayer> read_t5(const HfKeys& top, const ModelShape& shape) {
  constexpr FieldRule kBucketsRule{.doc = "", .min = 2, .max = 1 << 20, .even = true};
  constexpr FieldRule kDistanceRule{.doc = "", .min = 2, .max = 1e15};
  T5 t5;
  t5.num_buckets =
      top.get<std::int64_t>("relative_attention_num_buckets", kBucketsRule).value_or(32);
  t5.max_distance =
      top.get<std::int64_t>("relative_attention_max_distance", kDistanceRule).value_or(128);
  T5 encoder = t5;
  encoder.bidirectional = true;
  return {{"encoder", Spec{{encoder}}, shape}, {"decoder", Spec{{t5}}, shape}};
}

[[noreturn]] void throw_unknown(const HfKeys& top, std::string_view model_type) {
  if (model_type.starts_with("deberta")) {
    throw top.error(ErrorKind::kUnsupported, "model_type", "must not be DeBERTa's",
                    "'" + std::string(model_type) + "'", "its relative attention is not supported");
  }
  throw top.error(
      ErrorKind::kUnsupported, "model_type", "must be a known one where no key is about positions",
      model_type.empty() ? "none" : "'" + std::string(model_type) + "'",
      fmt::format("looked for {}, alibi, attn_config and relative_attention_num_buckets",
                  fmt::join(kRotaryKeys, ", ")));
}

// BERT's relatives name their positions outright.
Positions named_positions(const HfKeys& top, Positions otherwise) {
  const auto name = top.get<std::string>("position_embedding_type");
  if (!name) return otherwise;
  if (*name == "absolute" || *name == "learned") return Positions::kLearned;
  if (*name == "rotary" || *name == "rope") return Positions::kRotary;
  if (*name == "alibi") return Positions::kAlibi;
  throw top.error(ErrorKind::kUnsupported, "position_embedding_type",
                  "must be absolute, rotary or alibi", "'" + *name + "'");
}

// The model type knows best; then what a key says outright; then what it implies.
Positions positions_of(const HfKeys& top, const HfFamily& family) {
  if (top.get<bool>("alibi").value_or(false)) return Positions::kAlibi;
  if (family.positions == Positions::kLearned) return named_positions(top, Positions::kLearned);
  if (family.positions != Positions::kUnknown) return family.positions;
  const bool rotates = std::any_of(kRotaryKeys.begin(), kRotaryKeys.end(),
                                   [&](std::string_view key) { return top.mentions(key); });
  if (rotates) return Positions::kRotary;
  if (top.mentions("relative_attention_num_buckets") && top.mentions("d_kv")) return Positions::kT5;
  if (const auto attention = top.child("attn_config"); attention && attention->mentions("alibi")) {
    return Positions::kMpt;
  }
  return named_positions(top, Positions::kUnknown);
}

std::vector<HfLayer> read_rotary(const HfKeys& top, const HfFamily& family,
                                 const ModelShape& shape) {
  if (top.get<bool>("rotary_value").value_or(false)) {
    throw top.error(ErrorKind::kUnsupported, "rotary_value", "must be false", "true",
                    "values are not rotated here");
  }
  return read_rope_layers(top, family, shape);
}

std::vector<HfLayer> read_layers(const HfKeys& top, const HfFamily& family, const HfModel& model) {
  switch (positions_of(top, family)) {
    case Positions::kRotary:
      return read_rotary(top, family, model.shape);
    case Positions::kAlibi: {
      Alibi alibi;
      alibi.bidirectional = top.mentions("position_embedding_type");  // an encoder, such as Jina's
      return one_kind(alibi, model.shape);
    }
    case Positions::kMpt:
      return read_mpt(top, model.shape);
    case Positions::kT5:
      return read_t5(top, model.shape);
    case Positions::kLearned:
      return read_learned(top, model.shape);
    case Positions::kUnknown:
      break;
  }
  throw_unknown(top, model.model_type);
}

// What a model does to its scores besides positions, in the order in which it does it.
void add_score_terms(const HfKeys& top, const HfFamily& family, std::vector<HfLayer>& layers) {
  const std::optional<Temperature> unrotated = read_llama4_temperature(top, family);
  const std::optional<Temperature> rotated = read_mistral_temperature(top);
  const std::optional<Softcap> softcap = read_softcap(top, family);
  for (HfLayer& layer : layers) {
    std::vector<Encoding>& encodings = layer.spec.encodings;
    const auto& temperature = encodings.empty() ? unrotated : rotated;
    if (temperature) encodings.emplace_back(*temperature);
    if (softcap) encodings.emplace_back(*softcap);
    if (family.sink) encodings.emplace_back(Sink{});
    layer.scale = read_scale(top, family, layer.shape.head_dim);
  }
}

}  // namespace

HfModel parse_hf_config(std::string_view json, Profile profile) {
  const Value root = parse_json(json, "hf config");
  const HfKeys outer(root, "hf config");
  const HfKeys top(text_model(root), "hf config");
  HfModel model;
  model.model_type = top.get<std::string>("model_type")
                         .value_or(outer.get<std::string>("model_type").value_or(""));
  const HfFamily& family = hf_family(model.model_type);
  model.shape = read_shape(top, model.model_type);
  model.kv_heads = read_kv_heads(top, model.model_type, model.shape.heads);
  model.max_position_embeddings = read_length(top, kLengthRule).value_or(0);
  model.deepseek =
      top.find("qk_nope_head_dim") != nullptr && top.find("qk_rope_head_dim") != nullptr;
  model.layers = read_layers(top, family, model);
  add_score_terms(top, family, model.layers);
  for (HfLayer& layer : model.layers) {
    layer.spec = with_profile(std::move(layer.spec), profile, model.deepseek);
    validate(layer.spec, layer.shape);
  }
  return model;
}

HfModel read_hf_config(const std::string& path, Profile profile) {
  return parse_hf_config(read_file(path), profile);
}

}  // namespace posenc

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config/hf_model.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc::config {
namespace {

class HfWriter {
 public:
  HfWriter(const ModelConfig& model, const HfFacts& facts, std::string origin)
      : model_(model), facts_(facts), origin_(std::move(origin)) {}

  std::string json() {
    require(model_.norm == Norm::kPre, "norm", "must be pre");
    require(model_.attention == AttentionKind::kSoftmax, "attention", "must be softmax");
    require(model_.window < 0, "window", "must be -1");
    require(model_.score_scaling == ScoreScaling::kNone, "score_scaling", "must be none");
    const Spec spec = parse_spec(model_.encoding.front());
    for (const std::string& other : model_.encoding) {
      require(parse_spec(other) == spec, "encoding", "must be the same in every layer");
    }
    require(spec.encodings.size() == 1, "encoding", kOneEncoding);
    if (model_.norm_kind == NormKind::kRms) {
      write_llama(spec);
    } else if (std::holds_alternative<Learned>(spec.encodings.front())) {
      write_gpt2(spec);
    } else {
      write_neox(spec);
    }
    add("torch_dtype", Value::of_string("float32"));
    return to_json(Value(Value::Data(std::move(map_)))) + "\n";
  }

 private:
  static constexpr const char* kOneEncoding =
      "must be one rope, or one learned, to be a Hugging Face model";

  void require(bool holds, const std::string& field, const std::string& rule) const {
    if (holds) return;
    std::string value;
    for (const Member& member : all_fields(model_)) {
      if (member.key == field) value = describe(member.value);
    }
    throw Error(ErrorKind::kUnsupported,
                {.scope = origin_,
                 .key = "model." + field,
                 .rule = rule,
                 .value = value,
                 .hint = "llama, qwen2, qwen3, gpt_neox and gpt2 are the shapes that are written"});
  }
  void add(const std::string& key, Value value) { map_.push_back({key, std::move(value), {}}); }
  template <class Number>
  void number(const std::string& key, Number value) {
    add(key, write_field(value));
  }
  void family(const char* type, const char* architecture) {
    add("architectures", Value(Value::Data(Value::List{Value::of_string(architecture)})));
    add("model_type", Value::of_string(type));
    number("vocab_size", facts_.vocabulary);
    number("tie_word_embeddings", model_.tied);
  }

  const Rope& rope_of(const Spec& spec) const {
    const auto* rope = std::get_if<Rope>(&spec.encodings.front());
    require(rope != nullptr, "encoding", kOneEncoding);
    return *rope;
  }

  // NTK-aware scaling is another base; transformers has no name for it.
  static Rope without_ntk(Rope rope, std::int64_t channels) {
    const auto* ntk = std::get_if<NtkSchedule>(&rope.schedule);
    if (ntk == nullptr || rope.theta.size() != 1 || channels <= 2) return rope;
    const auto d = static_cast<double>(channels);
    rope.theta = {rope.theta.front() * std::pow(ntk->factor, d / (d - 2.0))};
    rope.schedule = DefaultSchedule{};
    return rope;
  }

  std::int64_t rotated(const Rope& rope) const {
    return rope.rotary_dim > 0 ? rope.rotary_dim : head_dim(model_);
  }

  // The keys of rope_scaling are the fields of the schedule.
  void add_scaling(const Rope& rope) {
    std::int64_t positions = facts_.positions;
    std::visit(
        [&](const auto& schedule) {
          using Kind = std::decay_t<decltype(schedule)>;
          if constexpr (!std::is_same_v<Kind, DefaultSchedule>) {
            Value::Map scaling = {{"rope_type", Value::of_string(std::string(Kind::kTraits.name))}};
            for (Member& member : all_fields(schedule)) {
              if (member.value.is_null() || !is_hf_key(member.key)) continue;
              scaling.push_back(std::move(member));
            }
            add("rope_scaling", Value(Value::Data(std::move(scaling))));
          }
          if constexpr (requires { schedule.max_position_embeddings; }) {
            if (schedule.max_position_embeddings > 0) {
              positions = schedule.max_position_embeddings;
            }
          }
        },
        rope.schedule);
    number("max_position_embeddings", positions);
  }
  static bool is_hf_key(std::string_view key) {
    constexpr std::array<std::string_view, 13> kKeys = {
        "factor",          "original_max_position_embeddings",
        "beta_fast",       "beta_slow",
        "truncate",        "attention_factor",
        "mscale",          "mscale_all_dim",
        "short_factor",    "long_factor",
        "low_freq_factor", "high_freq_factor",
        "attn_factor"};
    return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
  }

  void add_rope(const Spec& spec) {
    const Rope rope = without_ntk(rope_of(spec), rotated(rope_of(spec)));
    require(rope.theta.size() == 1, "encoding", "must have one theta");
    number("rope_theta", rope.theta.front());
    add_scaling(rope);
    if (rope.rotary_dim > 0) {
      number("partial_rotary_factor",
             static_cast<double>(rope.rotary_dim) / static_cast<double>(head_dim(model_)));
    }
  }

  void write_llama(const Spec& spec) {
    require(model_.mlp == Mlp::kSwiglu, "mlp", "must be swiglu with model.norm_kind: rms");
    require(!model_.parallel, "parallel", "must be false with model.norm_kind: rms");
    const bool qkv_alone = qkv_bias(model_) && !out_bias(model_);
    require(!qkv_alone || !model_.qk_norm, "qk_norm", "must be false with biases of qkv alone");
    const bool biased = mlp_bias(model_);
    require(!biased || (!qkv_alone && !model_.qk_norm), "mlp_bias", "must be none in this shape");
    if (qkv_alone) {
      family("qwen2", "Qwen2ForCausalLM");
    } else if (model_.qk_norm) {
      family("qwen3", "Qwen3ForCausalLM");
    } else {
      family("llama", "LlamaForCausalLM");
    }
    number("hidden_size", model_.dim);
    number("intermediate_size", mlp_width(model_));
    number("num_hidden_layers", model_.layers);
    number("num_attention_heads", model_.heads);
    number("num_key_value_heads", kv_heads(model_));
    number("head_dim", head_dim(model_));
    add("hidden_act", Value::of_string("silu"));
    number("rms_norm_eps", norm_eps(model_));
    if (!qkv_alone) number("attention_bias", qkv_bias(model_));
    if (!qkv_alone && !model_.qk_norm) number("mlp_bias", biased);
    add_rope(spec);
  }

  std::string activation() const {
    require(model_.mlp != Mlp::kSwiglu, "mlp", "must not be swiglu with model.norm_kind: layer");
    if (model_.mlp == Mlp::kGelu) return "gelu";
    return model_.mlp == Mlp::kRelu ? "relu" : "gelu_new";
  }
  // What both families with LayerNorm share.
  void require_plain_heads() const {
    require(kv_heads(model_) == model_.heads, "kv_heads", "must be 0 with model.norm_kind: layer");
    require(head_dim(model_) * model_.heads == model_.dim, "head_dim",
            "must be 0 with model.norm_kind: layer");
    require(!model_.qk_norm, "qk_norm", "must be false with model.norm_kind: layer");
    require(qkv_bias(model_) == out_bias(model_), "attention_bias", "must be none or all");
    require(mlp_bias(model_), "mlp_bias", "must be all with model.norm_kind: layer");
  }

  void write_neox(const Spec& spec) {
    require_plain_heads();
    family("gpt_neox", "GPTNeoXForCausalLM");
    number("hidden_size", model_.dim);
    number("intermediate_size", mlp_width(model_));
    number("num_hidden_layers", model_.layers);
    number("num_attention_heads", model_.heads);
    add("hidden_act", Value::of_string(activation()));
    number("layer_norm_eps", norm_eps(model_));
    number("attention_bias", qkv_bias(model_));
    number("use_parallel_residual", model_.parallel);
    const Rope rope = without_ntk(rope_of(spec), rotated(rope_of(spec)));
    require(rope.theta.size() == 1, "encoding", "must have one theta");
    number("rotary_emb_base", rope.theta.front());
    number("rotary_pct",
           static_cast<double>(rotated(rope)) / static_cast<double>(head_dim(model_)));
    add_scaling(rope);
  }

  void write_gpt2(const Spec& spec) {
    require_plain_heads();
    require(qkv_bias(model_), "attention_bias", "must be all with learned positions");
    require(!model_.parallel, "parallel", "must be false with learned positions");
    family("gpt2", "GPT2LMHeadModel");
    number("n_embd", model_.dim);
    number("n_inner", mlp_width(model_));
    number("n_layer", model_.layers);
    number("n_head", model_.heads);
    number("n_positions", std::get<Learned>(spec.encodings.front()).max_positions);
    add("activation_function", Value::of_string(activation()));
    number("layer_norm_epsilon", norm_eps(model_));
  }

  const ModelConfig& model_;
  const HfFacts& facts_;
  std::string origin_;
  Value::Map map_;
};

// What a reader of the file must find again.
Spec comparable(const ModelConfig& model) {
  Spec spec = parse_spec(model.encoding.front());
  for (Encoding& e : spec.encodings) {
    if (auto* learned = std::get_if<Learned>(&e)) learned->init_std = Learned{}.init_std;
    auto* rope = std::get_if<Rope>(&e);
    if (rope == nullptr) continue;
    if (rope->rotary_dim == head_dim(model)) rope->rotary_dim = 0;
    auto* longrope = std::get_if<LongRopeSchedule>(&rope->schedule);
    if (longrope != nullptr && longrope->factor) longrope->max_position_embeddings = 0;
  }
  return with_precision(spec, Precision::kExact);
}

}  // namespace

std::string hf_model_json(const ModelConfig& model, const HfFacts& facts,
                          const std::string& origin) {
  std::string json = HfWriter(model, facts, origin).json();
  const Spec written = comparable(model);
  const Spec read = comparable(parse_hf_model(json, origin));
  const auto* rope = std::get_if<Rope>(&written.encodings.front());
  const bool ntk = rope != nullptr && std::holds_alternative<NtkSchedule>(rope->schedule);
  if (ntk || read == written) return json;
  throw Error(ErrorKind::kUnsupported, {.scope = origin,
                                        .key = "model.encoding",
                                        .rule = "cannot be written as config.json says positions",
                                        .value = to_text(written),
                                        .hint = "a file would mean " + to_text(read)});
}

}  // namespace posenc::config

#include "encodings/hf_family.h"

#include <algorithm>
#include <array>

namespace posenc {
namespace {

using Positions = HfFamily::Positions;
using NoRope = HfFamily::NoRope;
using Local = HfFamily::Local;

constexpr HfFamily half(std::string_view type, double theta = 10000.0, double partial = 1.0,
                        NoRope no_rope = NoRope::kNever) {
  return {.model_type = type,
          .positions = Positions::kRotary,
          .theta = theta,
          .partial = partial,
          .no_rope = no_rope};
}

constexpr HfFamily interleaved(std::string_view type, double theta = 10000.0, double partial = 1.0,
                               NoRope no_rope = NoRope::kNever) {
  HfFamily family = half(type, theta, partial, no_rope);
  family.layout = PairLayout::kInterleaved;
  return family;
}

// Sliding-window layers rotate with another theta (0: the same).
constexpr HfFamily windowed(std::string_view type, double theta, double local_theta, Local local) {
  HfFamily family = half(type, theta);
  family.local = local;
  family.local_theta = local_theta;
  return family;
}

constexpr HfFamily trailing(HfFamily family) {
  family.trailing = true;
  return family;
}

constexpr HfFamily with_sink(HfFamily family) {
  family.sink = true;
  return family;
}

constexpr HfFamily with_temperature(HfFamily family) {
  family.temperature = true;
  return family;
}

constexpr HfFamily with_softcap(HfFamily family, double softcap) {
  family.softcap = softcap;
  return family;
}

// Gemma divides scores by the root of a config value.
constexpr HfFamily gemma_scaled(HfFamily family) {
  family.scale_key = "query_pre_attn_scalar";
  family.scale_default = 256.0;
  family.scale_power = -0.5;
  return family;
}

constexpr HfFamily granite(std::string_view type) {
  HfFamily family = half(type);
  family.scale_key = "attention_multiplier";
  return family;
}

constexpr HfFamily other(std::string_view type, Positions positions) {
  return {.model_type = type, .positions = positions};
}

// Pairing as the modelling code of transformers 5 has it; theta and the rotated share are the
// defaults of its config classes. A rotary model that is missing here is read all the same when its
// file has a key about rotation, with the defaults of Llama.
constexpr std::array kFamilies = {
    interleaved("codegen"),
    interleaved("cohere", 500000),
    interleaved("cohere2", 10000, 1, NoRope::kFullAttention),
    interleaved("cohere2_moe", 10000, 1, NoRope::kFullAttention),
    interleaved("deepseek_v2"),
    interleaved("deepseek_v3"),
    interleaved("deepseek_v32"),
    trailing(interleaved("deepseek_v4", 10000, 0.125)),
    interleaved("ernie4_5", 500000),
    interleaved("ernie4_5_moe", 500000),
    interleaved("glm", 10000, 0.5),
    interleaved("glm4", 10000, 0.5),
    interleaved("glm4v_text"),
    interleaved("glm4_moe_lite"),
    interleaved("gptj"),
    interleaved("helium", 100000),
    interleaved("kimi_k2"),
    with_temperature(interleaved("llama4", 500000, 1, NoRope::kByInterval)),
    with_temperature(interleaved("llama4_text", 500000, 1, NoRope::kByInterval)),
    interleaved("longcat_flash", 1e7),
    interleaved("mistral4"),
    interleaved("roformer"),
    interleaved("youtu"),

    half("RefinedWeb"),
    half("RefinedWebModel"),
    half("dbrx"),
    half("exaone4", 10000, 1, NoRope::kFullAttention),
    half("falcon"),
    half("gemma"),
    with_softcap(gemma_scaled(half("gemma2")), 50),
    half("glm4_moe", 10000, 0.5),
    half("gpt_neox", 10000, 0.25),
    half("gpt_neox_japanese"),
    with_sink(half("gpt_oss", 150000)),
    granite("granite"),
    granite("granite_swa"),
    granite("granitemoe"),
    granite("granitemoe_swa"),
    granite("granitemoeshared"),
    half("llama"),
    half("ministral"),
    half("ministral3", 1e6),
    half("mistral"),
    half("mixtral", 1e6),
    half("nemotron", 10000, 0.5),
    half("olmo"),
    half("olmo2"),
    half("persimmon", 10000, 0.5),
    half("phi", 10000, 0.5),
    half("phi3"),
    half("phimoe", 1e6),
    half("qwen2"),
    half("qwen2_vl", 1e6),
    half("qwen2_vl_text", 1e6),
    half("qwen2_5_vl", 1e6),
    half("qwen2_5_vl_text", 1e6),
    half("qwen3"),
    half("qwen3_moe"),
    half("qwen3_next", 10000, 0.25),
    half("qwen3_vl_text", 500000),
    half("smollm3", 2e6, 1, NoRope::kByInterval),
    half("stablelm", 10000, 0.25),
    half("starcoder2"),
    with_softcap(gemma_scaled(half("vaultgemma")), 50),

    gemma_scaled(windowed("gemma3_text", 1e6, 10000, Local::kOwnTheta)),
    windowed("gemma3n_text", 1e6, 10000, Local::kOwnTheta),
    windowed("olmo3", 500000, 0, Local::kOwnTheta),
    windowed("modernbert", 160000, 10000, Local::kOwnThetaSameSchedule),
    windowed("modernbert-decoder", 160000, 10000, Local::kOwnThetaSameSchedule),

    other("bloom", Positions::kAlibi),
    other("mpt", Positions::kMpt),

    other("t5", Positions::kT5),
    other("mt5", Positions::kT5),
    other("umt5", Positions::kT5),
    other("longt5", Positions::kT5),
    other("switch_transformers", Positions::kT5),

    other("albert", Positions::kLearned),
    other("bert", Positions::kLearned),
    other("biogpt", Positions::kLearned),
    other("camembert", Positions::kLearned),
    other("distilbert", Positions::kLearned),
    other("electra", Positions::kLearned),
    other("gpt2", Positions::kLearned),
    other("gpt_bigcode", Positions::kLearned),
    other("gpt_neo", Positions::kLearned),
    other("openai-gpt", Positions::kLearned),
    other("opt", Positions::kLearned),
    other("roberta", Positions::kLearned),
    other("xlm-roberta", Positions::kLearned),
};

}  // namespace

const HfFamily& hf_family(std::string_view model_type) {
  static constexpr HfFamily kUnknown;
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const HfFamily& family) {
    return family.model_type == model_type;
  });
  return found == kFamilies.end() ? kUnknown : *found;
}

}  // namespace posenc

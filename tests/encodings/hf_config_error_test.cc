// What a wrong config.json is answered with: the kind, the place, the key, the rule and the value.
#include <gtest/gtest.h>

#include "posenc/core/error.h"
#include "posenc/encodings/hf_config.h"
#include "support/golden.h"

namespace posenc {
namespace {

using testing::Json;

struct Wrong {
  const char* changes;  // merged into a small Llama; null removes a key
  ErrorKind kind;
  const char* message;  // the start of it
};

std::string changed(const char* changes) {
  Json config = Json::parse(R"({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8,
                                "max_position_embeddings": 8192})");
  config.merge_patch(Json::parse(changes));
  return config.dump();
}

void expect_errors(const std::vector<Wrong>& cases) {
  for (const Wrong& wrong : cases) {
    try {
      parse_hf_config(changed(wrong.changes));
      ADD_FAILURE() << "accepted " << wrong.changes;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), wrong.kind) << error.what() << "\n" << wrong.changes;
      EXPECT_EQ(std::string(error.what()).substr(0, std::string(wrong.message).size()),
                wrong.message);
    }
  }
}

TEST(HfConfigError, Schedules) {
  expect_errors({
      {R"({"rope_parameters": {"rope_type": "linear", "factor": 0.5}})", ErrorKind::kOutOfRange,
       "[rope_parameters] factor must be in [1, 1e+09] but got 0.5"},
      {R"({"rope_scaling": {"type": "linear"}})", ErrorKind::kMissingKey,
       "[rope_scaling] factor is required"},
      {R"({"rope_scaling": {"type": "linear", "factor": "2"}})", ErrorKind::kWrongType,
       "[rope_scaling] factor must be a number but got '2'"},
      {R"({"rope_scaling": {"type": "linear", "factor": true}})", ErrorKind::kWrongType,
       "[rope_scaling] factor must be a number but got true"},
      {R"({"rope_scaling": {"type": "linaer", "factor": 2}})", ErrorKind::kUnknownKey,
       "[rope_scaling] type must be a known name but got 'linaer'; did you mean 'linear'?"},
      {R"({"rope_scaling": {"type": 3}})", ErrorKind::kWrongType,
       "[rope_scaling] type must be one of default, linear"},
      {R"({"rope_parameters": {"rope_type": "yarn", "factor": 4}})", ErrorKind::kMissingKey,
       "[rope_parameters] original_max_position_embeddings is required"},
      {R"({"rope_parameters": {"rope_type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2,
           "original_max_position_embeddings": 4096}})",
       ErrorKind::kConflict,
       "[rope_parameters] beta_fast must not be below beta_slow (2) but got 1"},
      {R"({"rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
           "high_freq_factor": 1, "original_max_position_embeddings": 8192}})",
       ErrorKind::kConflict,
       "[rope_parameters] high_freq_factor must be above low_freq_factor (4)"},
      {R"({"rope_parameters": {"rope_type": "default", "factor": 8}})", ErrorKind::kConflict,
       "[rope_parameters] factor must be absent or 1 when rope_type is default but got 8"},
      {R"({"max_position_embeddings": null, "rope_scaling": {"type": "dynamic", "factor": 2}})",
       ErrorKind::kMissingKey, "[rope_scaling] max_position_embeddings is required"},
  });
}

TEST(HfConfigError, Scores) {
  expect_errors({
      {R"({"rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1}})",
       ErrorKind::kMissingKey,
       "[rope_parameters] original_max_position_embeddings is required next to "
       "llama_4_scaling_beta; add it"},
      {R"({"rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": -1,
           "original_max_position_embeddings": 8192}})",
       ErrorKind::kOutOfRange, "[rope_parameters] llama_4_scaling_beta must be in [0, 1000]"},
      {R"({"model_type": "gemma2", "attn_logit_softcapping": 0})", ErrorKind::kOutOfRange,
       "[hf config] attn_logit_softcapping must be in [0.001, 1e+06] but got 0"},
      {R"({"model_type": "gemma2", "query_pre_attn_scalar": 0})", ErrorKind::kOutOfRange,
       "[hf config] query_pre_attn_scalar must be in (0, 1e+06] but got 0"},
      {R"({"model_type": "llama4_text", "rope_theta": 500000.0, "floor_scale": 0})",
       ErrorKind::kOutOfRange, "[hf config] floor_scale must be in [1, 1e+15] but got 0"},
      {R"({"model_type": "llama4_text", "attn_temperature_tuning": "yes"})", ErrorKind::kWrongType,
       "[hf config] attn_temperature_tuning must be true or false but got 'yes'"},
      {R"({"model_type": "deberta-v2"})", ErrorKind::kUnsupported,
       "[hf config] model_type must not be DeBERTa's but got 'deberta-v2'"},
  });
}

TEST(HfConfigError, Lists) {
  expect_errors({
      {R"({"rope_parameters": {"rope_type": "longrope", "short_factor": [1, 1, 1],
           "long_factor": [1, 1, 1], "original_max_position_embeddings": 4096}})",
       ErrorKind::kWrongLength,
       "[rope_parameters] short_factor must have one entry per rotated pair (32) but got 3"},
      {R"({"rope_parameters": {"rope_type": "longrope", "short_factor": 1.0, "long_factor": [1],
           "original_max_position_embeddings": 4096}})",
       ErrorKind::kWrongType, "[rope_parameters] short_factor must be a list of numbers but got 1"},
      {R"({"rope_parameters": {"rope_type": "longrope", "short_factor": [1, "a"],
           "long_factor": [1, 1], "original_max_position_embeddings": 4096}})",
       ErrorKind::kWrongType, "[rope_parameters] short_factor[1] must be a number but got 'a'"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}})",
       ErrorKind::kWrongLength,
       "[rope_scaling] mrope_section must add up to the rotated pairs (32) but got a sum of 64"},
      {R"({"rope_scaling": {"type": "mrope"}})", ErrorKind::kMissingKey,
       "[rope_scaling] mrope_section is required"},
      {R"({"rope_scaling": {"type": "mrope", "mrope_section": 32}})", ErrorKind::kWrongType,
       "[rope_scaling] mrope_section must be a list but got 32"},
  });
}

TEST(HfConfigError, UnknownKeys) {
  expect_errors({
      {R"({"rope_parameters": {"rope_type": "linear", "factr": 2, "factor": 2}})",
       ErrorKind::kUnknownKey,
       "[rope_parameters] factr is not a known key; did you mean 'factor'?"},
      {R"({"rope_parameters": {"rope_type": "linear", "factor": 2, "beta_fast": 32}})",
       ErrorKind::kUnknownKey, "[rope_parameters] beta_fast is not a key of rope_type linear"},
      {R"({"layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {
           "full_attention": {}, "sliding_attention": {}, "slidng_attention": {}}})",
       ErrorKind::kUnknownKey,
       "[rope_parameters] slidng_attention is not a layer type; did you mean 'sliding_attention'?"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 0}}})",
       ErrorKind::kOutOfRange, "[rope_parameters.full_attention] factor must be"},
      {R"({"rope_parameters": {"full_attention": {}, "rope_theta": 10000}})", ErrorKind::kWrongType,
       "[rope_parameters] rope_theta must be a map or null next to layer types but got 10000"},
      {R"({"layer_types": ["full_attention", "sliding_attention"],
           "rope_parameters": {"full_attention": {}}})",
       ErrorKind::kMissingKey, "[rope_parameters] sliding_attention is required"},
  });
}

TEST(HfConfigError, Contradictions) {
  expect_errors({
      {R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}})",
       ErrorKind::kConflict, "[rope_scaling] type must agree with rope_type ('yarn')"},
      {R"({"rope_parameters": {"rope_type": "linear", "factor": 2},
           "rope_scaling": {"type": "linear", "factor": 4}})",
       ErrorKind::kConflict, "[hf config] rope_scaling must agree with rope_parameters"},
      {R"({"rope_theta": 10000, "rope_parameters": {"rope_theta": 500000}})", ErrorKind::kConflict,
       "[rope_parameters] rope_theta must agree with the top level (10000) but got 500000"},
      {R"({"n_head": 4})", ErrorKind::kConflict,
       "[hf config] n_head must agree with num_attention_heads (8) but got 4"},
      {R"({"rotary_dim": 32, "partial_rotary_factor": 0.25})", ErrorKind::kConflict,
       "[hf config] partial_rotary_factor must give rotary_dim (32) but got 16"},
      {R"({"hidden_size": 500})", ErrorKind::kConflict,
       "[hf config] hidden_size must be a multiple of num_attention_heads (8) but got 500"},
  });
}

TEST(HfConfigError, Shapes) {
  expect_errors({
      {R"({"num_attention_heads": null})", ErrorKind::kMissingKey,
       "[hf config] num_attention_heads is required; looked for num_attention_heads, n_head"},
      {R"({"hidden_size": null})", ErrorKind::kMissingKey, "[hf config] hidden_size is required"},
      {R"({"num_attention_heads": 0})", ErrorKind::kOutOfRange,
       "[hf config] num_attention_heads must be"},
      {R"({"hidden_size": "512"})", ErrorKind::kWrongType,
       "[hf config] hidden_size must be an integer but got '512'"},
      {R"({"head_dim": 63})", ErrorKind::kOutOfRange,
       "[hf config] head_dim must be even and at least 2 but got 63"},
      {R"({"partial_rotary_factor": 0.33})", ErrorKind::kOutOfRange,
       "[hf config] partial_rotary_factor * head_dim must be even and at least 2 but got 21"},
      {R"({"partial_rotary_factor": 0.0})", ErrorKind::kOutOfRange,
       "[hf config] partial_rotary_factor must be in (0, 1] but got 0"},
      {R"({"partial_rotary_factor": 0.01})", ErrorKind::kOutOfRange,
       "[hf config] partial_rotary_factor * head_dim must be even and at least 2 but got 0"},
      {R"({"rotary_dim": 7})", ErrorKind::kOutOfRange, "[hf config] rotary_dim must be even"},
      {R"({"rope_theta": -1})", ErrorKind::kOutOfRange, "[hf config] rope_theta must be"},
      {R"({"rope_scaling": [1]})", ErrorKind::kWrongType,
       "[rope_scaling] must be a map but got a list of 1"},
  });
}

TEST(HfConfigError, UnknownModels) {
  expect_errors({
      {R"({"model_type": "mamba"})", ErrorKind::kUnsupported,
       "[hf config] model_type must be a known one where no key is about positions but got "
       "'mamba'; looked for rope_parameters"},
      {R"({"model_type": "bert", "position_embedding_type": "relative_key"})",
       ErrorKind::kUnsupported, "[hf config] position_embedding_type must be absolute"},
      {R"({"model_type": "mpt", "attn_config": {"rope": true}})", ErrorKind::kUnsupported,
       "[attn_config] rope must be false but got true"},
      {R"({"model_type": 7})", ErrorKind::kWrongType, "[hf config] model_type must be a word"},
  });
}

TEST(HfConfigError, TextThatIsNoConfig) {
  const auto kind_of = [](const char* text) {
    try {
      parse_hf_config(text);
    } catch (const Error& error) {
      return std::make_pair(error.kind(), error.key());
    }
    return std::make_pair(ErrorKind::kIo, std::string("accepted"));
  };
  EXPECT_EQ(kind_of("").first, ErrorKind::kSyntax);
  EXPECT_EQ(kind_of("{").first, ErrorKind::kSyntax);
  EXPECT_EQ(kind_of("[]").first, ErrorKind::kWrongType);
  EXPECT_EQ(kind_of(R"({"a": 1, "a": 2})").first, ErrorKind::kConflict);
  const std::pair<ErrorKind, std::string> theta{ErrorKind::kNotFinite, "rope_theta"};
  EXPECT_EQ(kind_of(R"({"rope_theta": NaN})"), theta);
  EXPECT_EQ(kind_of(R"({"rope_theta": Infinity})"), theta);
  EXPECT_EQ(kind_of(R"({"rope_theta": 1e999})"), theta);
  EXPECT_EQ(kind_of(R"({"rope_scaling": {"factor": -Infinity}})").second, "rope_scaling.factor");
}

}  // namespace
}  // namespace posenc

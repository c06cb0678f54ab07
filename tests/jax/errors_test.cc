// What the handlers refuse, what a spec holds, and the version that XLA asks for.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "jax/attention_frame.h"

namespace posenc::testing {
namespace {

using cases::Case;

Case small(std::string spec) {
  Case c;
  c.spec = std::move(spec);
  c.queries = c.keys = 5;
  return c;
}

void expect_error(const FfiResult& result, XLA_FFI_Error_Code code, const std::string& message) {
  EXPECT_EQ(result.code, code) << result.message;
  EXPECT_EQ(result.message, message);
}

TEST(JaxErrors, BadSpecsHaveTheLibrarysMessage) {
  AttentionFrames frames(small("rope"));
  FfiFrame frame = frames.forward();
  frame.attributes["spec"] = std::string("rope(theta=-1)");
  const FfiResult result = frame.run(posenc_jax_attention_cpu);
  EXPECT_EQ(result.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(result.message.find("[rope] theta must be in"), std::string::npos) << result.message;
}

TEST(JaxErrors, ShapesTypesAndCountsAreChecked) {
  AttentionFrames frames(small("t5"));
  const FfiFrame good = frames.forward();
  FfiFrame few = good;
  few.attributes["parameters"] = std::int64_t{0};
  expect_error(few.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] params must be those of t5 (t5.weight) but got 0 arrays");
  FfiFrame mask = good;
  mask.attributes["given"] = std::int64_t{1};
  expect_error(mask.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] key_mask is missing");
  FfiFrame more = good;
  more.operand(frames.problem.data.q);
  expect_error(more.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] arrays must be 4 for these options but got 5");
  FfiFrame empty;
  empty.attributes = good.attributes;
  expect_error(empty.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] q is missing");
}

TEST(JaxErrors, TypesThatKernelsDoNotStoreAreRefused) {
  std::vector<double> q(2 * 5 * 16);
  FfiFrame frame;
  frame.operand(XLA_FFI_DataType_F64, q.data(), {1, 2, 5, 16});
  frame.attributes = AttentionFrames(small("none")).forward().attributes;
  expect_error(frame.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] q must be float32, bfloat16 or float16 but got F64");
  FfiFrame flat;
  flat.operand(XLA_FFI_DataType_F32, q.data(), {5, 16});
  flat.attributes = frame.attributes;
  expect_error(flat.run(posenc_jax_attention_cpu), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "[attention] q must be [batch, heads, tokens, channels] but got [5, 16]");
}

TEST(JaxErrors, KernelsMessagesPassThrough) {
  AttentionFrames frames(small("none"));
  FfiFrame frame = frames.forward();
  frame.attributes["dropout"] = 1.5;
  const FfiResult result = frame.run(posenc_jax_attention_cpu);
  EXPECT_NE(result.code, XLA_FFI_Error_Code_OK);
  EXPECT_EQ(result.message.rfind("[attention] dropout", 0), 0U) << result.message;
}

TEST(JaxDescription, ListsParametersAndInputs) {
  const auto found = nlohmann::json::parse(posenc_jax_describe("alibi + t5 + fox", 16, 4));
  const auto& parameters = found.at("parameters");
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].at("name"), "alibi.slopes");
  EXPECT_EQ(parameters[0].at("trainable"), false);
  EXPECT_EQ(parameters[1].at("trainable"), true);
  EXPECT_EQ(found.at("inputs")[0].at("name"), "fox.log_f");
  const auto values = nlohmann::json::parse(posenc_jax_initial_parameters("alibi", 16, 4, 0));
  EXPECT_EQ(values.at("values")[0].size(), 4U);
  const auto wrong = nlohmann::json::parse(posenc_jax_describe("ropee", 16, 4));
  EXPECT_NE(wrong.at("error").get<std::string>().find("ropee"), std::string::npos);
}

TEST(JaxHandlers, TellTheVersionOfTheirHeaders) {
  for (XLA_FFI_Handler* handler : {posenc_jax_attention_cpu, posenc_jax_attention_backward_cpu,
                                   posenc_jax_rope_cpu, posenc_jax_rope_frequencies_cpu}) {
    EXPECT_EQ(version_of(handler).major_version, XLA_FFI_API_MAJOR);
    EXPECT_EQ(version_of(handler).minor_version, XLA_FFI_API_MINOR);
  }
}

TEST(JaxErrors, CallsWithoutAFusedPathAreSlow) {
  const std::array<std::int64_t, 7> sizes = {1, 4, 2, 100, 100, 16, 16};
  const auto explained = [&](const char* spec) {
    return nlohmann::json::parse(posenc_jax_explain(spec, sizes.data(), false));
  };
  EXPECT_EQ(explained("rope + cope").at("slow"), false);
  const nlohmann::json twice = explained("cope + cope");
  EXPECT_EQ(twice.at("slow"), true);
  EXPECT_NE(twice.at("path").get<std::string>().find("more than one cope"), std::string::npos);
  EXPECT_NE(explained("rope(").value("error", "").find("rope("), std::string::npos);
}

}  // namespace
}  // namespace posenc::testing

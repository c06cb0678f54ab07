// What the case table cannot say of site 1: mistakes.
#include <gtest/gtest.h>

#include "cases/embedding_problem.h"

namespace posenc {
namespace {

using cases::Case;
using cases::EmbeddingProblem;

Case small(const char* spec) {
  return {
      .op = cases::Operation::kEmbedding, .spec = spec, .batch = 2, .queries = 9, .head_dim = 12};
}

TEST(EmbeddingKernel, APositionPastTheTableIsAnErrorAndNothingIsWritten) {
  EmbeddingProblem f(small("sinusoidal + learned(max_positions=8)"));
  const auto before = f.x.bytes();
  EmbeddingCall call = f.call();
  call.y = f.x.view();
  const Status status = add_embeddings(call);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(std::string(status.message()).find("position must be in [0, 7] but got 14"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(f.x.bytes(), before);
}

TEST(EmbeddingKernel, MistakesNameTheArgument) {
  EmbeddingProblem f(small("learned(max_positions=16)"));
  const auto message = [&](auto change) {
    EmbeddingCall call = f.call();
    change(call);
    const Status status = add_embeddings(call);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_NE(message([](EmbeddingCall& c) { c.spec = nullptr; }).find("spec"), std::string::npos);
  EXPECT_NE(message([](EmbeddingCall& c) { c.parameters = nullptr; }).find("parameters"),
            std::string::npos);
  EXPECT_NE(message([](EmbeddingCall& c) { c.y.data = nullptr; }).find("y must not be null"),
            std::string::npos);
  EXPECT_NE(message([](EmbeddingCall& c) { c.x.shape[1] = c.y.shape[1] = 2; }).find("heads"),
            std::string::npos);
  const std::vector<Parameters> short_table = {{{1.0, 2.0}}};
  EXPECT_NE(message([&](EmbeddingCall& c) { c.parameters = &short_table; }).find("192 entries"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc

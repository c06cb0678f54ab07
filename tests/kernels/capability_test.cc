// What capability() says of a call is what runs, for every row of the case table; and nothing slow runs unasked.
#include "posenc/kernels/capability.h"

#include <gtest/gtest.h>

#include <set>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "kernels/path_trace.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;

TEST(CapabilityTest, IsWhatRunsForEveryRowOfTheTable) {
  std::set<AttentionPath> seen;
  for (const Case& c : cases::checked_cases(cases::Operation::kAttention)) {
    if (c.queries == 0) continue;  // nothing runs
    AttentionProblem problem(cases::small_twin(c));
    const Capability said = capability(problem.call());
    problem.forward();
    EXPECT_EQ(path_trace().forward, said.forward.path) << cases::name_of(c);
    problem.backward();
    EXPECT_EQ(path_trace().backward, said.backward.path) << cases::name_of(c);
    EXPECT_EQ(said.is_slow(), said.forward.path == AttentionPath::kReference) << cases::name_of(c);
    seen.insert(said.forward.path);
  }
  EXPECT_EQ(seen.size(), 3U) << "the table has fused rows, decoding and the reference";
}

TEST(CapabilityTest, TheReferenceRunsOnlyWhereTheCallAllowsIt) {
  AttentionProblem problem(Case{.spec = "cope + cope"});
  problem.forward();
  AttentionBackwardCall backward = problem.backward_call();
  backward.forward.allow_reference = false;
  for (const Status& status : {attention(backward.forward), attention_backward(backward)}) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    const std::string message(status.message());
    EXPECT_NE(message.find("more than one cope; set allow_reference"), std::string::npos)
        << message;
  }
}

// Memory is linear in the length, with and without packed rows.
TEST(CapabilityTest, BytesGrowWithTheLength) {
  for (const char* spec : {"none", "rope", "alibi", "fox", "rope + cope(gate_source=separate)"}) {
    const auto at = [&](std::int64_t tokens) {
      return capability(parse_spec(spec),
                        {.heads = 4, .kv_heads = 2, .queries = tokens, .keys = tokens});
    };
    const Capability half = at(4096);
    const Capability whole = at(8192);
    EXPECT_NEAR(static_cast<double>(whole.forward.bytes),
                2.0 * static_cast<double>(half.forward.bytes), 4096.0)
        << spec;
    EXPECT_NEAR(static_cast<double>(whole.backward.bytes),
                2.0 * static_cast<double>(half.backward.bytes), 65536.0)
        << spec;
    EXPECT_GT(whole.backward.bytes, whole.forward.bytes) << spec;
  }
  // Two tensors of rows of 64 floats, of two key heads.
  EXPECT_EQ(capability(parse_spec("none"), {.queries = 512, .keys = 512}).forward.bytes, 0);
  const std::int64_t rows = 2 * 512 * 64 * 4;
  EXPECT_EQ(capability(parse_spec("rope"), {.heads = 2, .kv_heads = 2, .queries = 512, .keys = 512})
                .forward.bytes,
            rows);
}

TEST(CapabilityTest, ExplicitPositionsAreKnownBeforeThereAreTensors) {
  AttentionShapes shapes{.queries = 8, .keys = 8};
  EXPECT_FALSE(capability(parse_spec("alibi"), shapes).is_slow());
  shapes.explicit_positions = true;
  EXPECT_EQ(capability(parse_spec("alibi"), shapes).forward.why, "biases with explicit positions");
  EXPECT_FALSE(capability(parse_spec("rope"), shapes).is_slow());
}

}  // namespace
}  // namespace posenc

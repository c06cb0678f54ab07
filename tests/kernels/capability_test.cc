// What capability() says of a call is what runs, for every row of the case table; and nothing slow runs unasked.
#include "posenc/kernels/capability.h"

#include <gtest/gtest.h>

#include <set>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "kernels/path_trace.h"
#include "support/allocations.h"
#include "support/sanitizers.h"

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
    if (cases::has_backward(c)) {
      problem.backward();
      EXPECT_EQ(path_trace().backward, said.backward.path) << cases::name_of(c);
    }
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
  // A list of 8 blocks of queries for each head.
  const std::int64_t list = 8 * 24;
  EXPECT_EQ(capability(parse_spec("none"), {.queries = 512, .keys = 512}).forward.bytes, list);
  // Rows of 64 floats of two key heads, and the positions of both sides.
  const std::int64_t rows = 2 * 512 * 64 * 4 + 2 * 512 * 8;
  EXPECT_EQ(capability(parse_spec("rope"), {.heads = 2, .kv_heads = 2, .queries = 512, .keys = 512})
                .forward.bytes,
            rows + 2 * list);
}

// What a call holds at two lengths; the difference leaves out tiles and parameters, whose size does not change.
struct Held {
  explicit Held(const Case& c) : problem(c), said(capability(problem.call())) {
    const auto peak = [](const auto& body) {
      return static_cast<std::int64_t>(testing::peak_bytes_of(body));
    };
    forward = peak([&] { problem.forward(); });
    if (c.op == cases::Operation::kAttention) backward = peak([&] { problem.backward(); });
  }
  AttentionProblem problem;
  Capability said;
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

Case with_length(const Case& from, std::int64_t tokens) {
  Case c = from;
  if (c.queries == c.keys) c.queries = tokens;
  c.keys = tokens;
  c.policy.mode = CachePolicy::Mode::kOnDemand;  // the plan's tables are not the call's
  return c;
}

void expect_bound(std::int64_t grown, std::int64_t said, const std::string& what) {
  constexpr std::int64_t kLists = 256;  // of tasks and threads, which depend on when these start
  EXPECT_LE(grown, said + kLists) << what;
  EXPECT_LE(said, 2 * grown) << what;
}

// One row of each spec, with keys of fewer heads, and the decode rows.
std::vector<Case> measured_cases() {
  std::vector<Case> rows;
  for (const cases::Operation op : {cases::Operation::kAttention, cases::Operation::kDecode}) {
    std::set<std::string> seen;
    for (const Case& c : cases::checked_cases(op)) {
      if (c.dtype != DType::kFloat32 || c.heads == c.kv_heads ||
          !seen.insert(c.spec + (c.page > 0 ? " in pages" : "") +
                       (c.value_dim != 0 ? " and widths" : ""))
               .second) {
        continue;
      }
      rows.push_back(c);
      if (op == cases::Operation::kAttention) rows.back().queries = rows.back().keys;
    }
  }
  return rows;
}

TEST(CapabilityTest, BytesAreAnUpperBoundOfWhatACallHolds) {
  if (testing::kSanitized) GTEST_SKIP() << "takes half an hour, and counts what sanitizers add";
  for (const Case& c : measured_cases()) {
    const std::int64_t tokens = c.op == cases::Operation::kDecode ? 1024 : 256;
    const Held half(with_length(c, tokens));
    if (half.said.forward.path == AttentionPath::kReference) continue;
    const Held whole(with_length(c, 2 * tokens));
    const std::string name = cases::name_of(c);
    expect_bound(whole.forward - half.forward, whole.said.forward.bytes - half.said.forward.bytes,
                 name);
    if (half.backward == 0) continue;
    expect_bound(whole.backward - half.backward,
                 whole.said.backward.bytes - half.said.backward.bytes, name + " backward");
  }
}

TEST(CapabilityTest, BytesFollowTheWidthOfValues) {
  const auto with = [](std::int64_t queries, std::int64_t value_dim) {
    return capability(parse_spec("none"),
                      {.queries = queries, .keys = 512, .value_dim = value_dim});
  };
  EXPECT_EQ(with(512, 64).backward.bytes, with(512, 0).backward.bytes);
  EXPECT_LT(with(512, 32).backward.bytes, with(512, 0).backward.bytes);
  EXPECT_GT(with(512, 96).backward.bytes, with(512, 0).backward.bytes);
  EXPECT_LT(with(1, 32).forward.bytes, with(1, 0).forward.bytes);
  EXPECT_EQ(with(1, 32).forward.path, AttentionPath::kDecode);
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

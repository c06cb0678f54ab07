// Masks: what is hidden might as well not be there.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ref/mask.h"
#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::largest_difference;
using testing::many_specs;
using testing::random_case;

ref::AttentionShape shape_of(std::int64_t H, std::int64_t Hkv, std::int64_t Tq, std::int64_t Tk) {
  return {.batch = 1, .heads = H, .kv_heads = Hkv, .queries = Tq, .keys = Tk, .head_dim = 4};
}

ref::AttentionOptions masked(bool causal) {
  ref::AttentionOptions options;
  options.masking.causal = causal;
  // Frequencies that follow the length would follow what is hidden too.
  options.lengths.sequence = 8;
  return options;
}

// Tokens [first, last) of a tensor [1, heads, tokens, channels]; nothing of one that is not given.
std::vector<double> tokens(const std::vector<double>& tensor, std::int64_t heads,
                           std::int64_t first, std::int64_t last, std::int64_t channels = 4) {
  std::vector<double> part;
  if (tensor.empty()) return part;
  const auto count = static_cast<std::int64_t>(tensor.size()) / heads / channels;
  for (std::int64_t h = 0; h < heads; ++h) {
    part.insert(part.end(), tensor.begin() + (h * count + first) * channels,
                tensor.begin() + (h * count + last) * channels);
  }
  return part;
}

struct Piece {
  std::int64_t first_query, last_query, first_key, last_key;
};

// The problem cut down to some of its tokens.
AttentionCase piece_of(const AttentionCase& whole, const Piece& cut) {
  AttentionCase part = whole;
  part.options.masking.cu_queries.clear();
  part.options.masking.cu_keys.clear();
  part.options.masking.key_mask.clear();
  part.shape.queries = cut.last_query - cut.first_query;
  part.shape.keys = cut.last_key - cut.first_key;
  part.q = tokens(whole.q, whole.shape.heads, cut.first_query, cut.last_query);
  part.grad_out = tokens(whole.grad_out, whole.shape.heads, cut.first_query, cut.last_query);
  part.k = tokens(whole.k, whole.shape.kv_heads, cut.first_key, cut.last_key);
  part.v = tokens(whole.v, whole.shape.kv_heads, cut.first_key, cut.last_key);
  for (std::size_t i = 0; i < part.of_encodings.size(); ++i) {
    const InputInfo info = whole.token_inputs()[i].info;
    part.of_encodings[i] =
        tokens(whole.of_encodings[i], info.head_count(whole.shape.heads, whole.shape.kv_heads),
               cut.first_key, cut.last_key, info.channels);
  }
  return part;
}

void add_to(ref::SpecParameters& sum, const ref::SpecParameters& terms) {
  for (std::size_t e = 0; e < sum.size(); ++e) {
    for (std::size_t p = 0; p < sum[e].size(); ++p) {
      for (std::size_t n = 0; n < sum[e][p].size(); ++n) sum[e][p][n] += terms[e][p][n];
    }
  }
}

void expect_near(const ref::SpecParameters& a, const ref::SpecParameters& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t e = 0; e < a.size(); ++e) {
    for (std::size_t p = 0; p < a[e].size(); ++p) {
      EXPECT_LE(largest_difference(a[e][p], b[e][p]), 1e-11);
    }
  }
}

TEST(AttentionMask, TableOfWhoSeesWhom) {
  ref::Masking masking;
  masking.causal = true;
  masking.window_left = 1;
  masking.key_mask = {1, 1, 0, 1, 1};
  const ref::Mask mask("test", shape_of(1, 1, 3, 5), masking);
  const std::vector<std::vector<bool>> expected = {{false, true, false, false, false},
                                                   {false, false, false, true, false},
                                                   {false, false, false, true, true}};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(mask.row(0, i), expected[static_cast<std::size_t>(i)]) << i;
  }
}

TEST(AttentionMask, PaddedKeysMightAsWellNotBeThere) {
  for (const bool causal : {true, false}) {
    for (const std::string& spec : many_specs()) {
      SCOPED_TRACE(spec);
      AttentionCase padded = random_case(spec, shape_of(2, 2, 6, 6), masked(causal), 3);
      padded.options.masking.key_mask = {1, 1, 1, 1, 0, 0};
      AttentionCase real = piece_of(padded, {0, 4, 0, 4});
      const auto part = tokens(padded.forward().out, 2, 0, 4);
      EXPECT_LE(largest_difference(part, real.forward().out), 1e-13);
      const auto gradients = padded.backward();
      for (const double x : tokens(gradients.k, 2, 4, 6)) EXPECT_EQ(x, 0.0);
      for (const double x : tokens(gradients.v, 2, 4, 6)) EXPECT_EQ(x, 0.0);
      for (std::size_t i = 0; i < gradients.of_encodings.size(); ++i) {
        const SpecInput input = padded.token_inputs()[i];
        const Encoding& encoding = padded.spec.encodings[input.encoding];
        const bool of_query = std::holds_alternative<RelativeQuery>(encoding) ||
                              std::holds_alternative<Rope>(encoding) ||
                              std::holds_alternative<GrapeAp>(encoding);
        if (of_query) continue;  // its row belongs to the token as a query, which is not hidden
        for (const double x : tokens(gradients.of_encodings[i], 2, 4, 6, input.info.channels)) {
          EXPECT_EQ(x, 0.0);
        }
      }
    }
  }
}

TEST(AttentionMask, PackedSequencesAreRunsApart) {
  const std::vector<Piece> pieces = {{0, 2, 0, 3}, {2, 6, 3, 7}, {6, 7, 7, 8}};
  for (const bool causal : {true, false}) {
    for (const std::string& spec : many_specs()) {
      SCOPED_TRACE(spec);
      AttentionCase packed = random_case(spec, shape_of(2, 1, 7, 8), masked(causal), 4);
      packed.options.masking.cu_queries = {0, 2, 6, 7};
      packed.options.masking.cu_keys = {0, 3, 7, 8};
      const auto output = packed.forward();
      const auto gradients = packed.backward();
      auto sum = gradients.parameters;
      for (auto& encoding : sum) {
        for (auto& values : encoding) values.assign(values.size(), 0.0);
      }
      for (const Piece& cut : pieces) {
        const AttentionCase part = piece_of(packed, cut);
        const auto part_gradients = part.backward();
        EXPECT_LE(largest_difference(tokens(output.out, 2, cut.first_query, cut.last_query),
                                     part.forward().out),
                  1e-13);
        EXPECT_LE(largest_difference(tokens(gradients.k, 1, cut.first_key, cut.last_key),
                                     part_gradients.k),
                  1e-12);
        add_to(sum, part_gradients.parameters);
      }
      expect_near(gradients.parameters, sum);
    }
  }
}

TEST(AttentionMask, GroupedQueriesAreRepeatedHeads) {
  for (const std::string& spec : many_specs()) {
    SCOPED_TRACE(spec);
    const AttentionCase grouped = random_case(spec, shape_of(4, 2, 5, 5), masked(true), 6);
    AttentionCase repeated = grouped;
    repeated.shape.kv_heads = 4;
    const auto repeat = [](const std::vector<double>& x) {
      std::vector<double> all;
      const std::int64_t head = std::ssize(x) / 2;
      for (const std::int64_t kv : {0, 0, 1, 1}) {
        all.insert(all.end(), x.begin() + kv * head, x.begin() + (kv + 1) * head);
      }
      return all;
    };
    repeated.k = repeat(grouped.k);
    repeated.v = repeat(grouped.v);
    for (std::size_t i = 0; i < repeated.of_encodings.size(); ++i) {
      const bool by_key = grouped.token_inputs()[i].info.heads == InputInfo::Heads::kKey;
      if (by_key) repeated.of_encodings[i] = repeat(grouped.of_encodings[i]);
    }
    EXPECT_EQ(grouped.forward().out, repeated.forward().out);
    const auto a = grouped.backward();
    const auto b = repeated.backward();
    EXPECT_EQ(a.q, b.q);
    const std::size_t head = 5 * 4;
    for (std::size_t n = 0; n < head; ++n) {
      EXPECT_NEAR(a.k[n], b.k[n] + b.k[n + head], 1e-13);
      EXPECT_NEAR(a.v[n + head], b.v[n + 2 * head] + b.v[n + 3 * head], 1e-13);
    }
  }
}

TEST(AttentionMask, FewQueriesAreTheLastRows) {
  for (const bool causal : {true, false}) {
    for (const std::string& spec : many_specs()) {
      const AttentionCase all = random_case(spec, shape_of(2, 2, 6, 6), masked(causal), 7);
      const AttentionCase last = piece_of(all, {4, 6, 0, 6});
      EXPECT_EQ(last.forward().out, tokens(all.forward().out, 2, 4, 6)) << spec;
    }
  }
}

TEST(AttentionMask, QueriesWithoutKeysGiveZeros) {
  for (const std::string& spec : many_specs()) {
    SCOPED_TRACE(spec);
    AttentionCase problem = random_case(spec, shape_of(2, 2, 5, 3), masked(true), 8);
    problem.options.masking.key_mask = {0, 1,
                                        1};  // queries 0 and 1 precede the keys, 2 sees padding
    const auto output = problem.forward();
    const auto gradients = problem.backward();
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(output.lse[static_cast<std::size_t>(5 * h + i)], -HUGE_VAL);
      }
    }
    for (const double x : tokens(output.out, 2, 0, 3)) EXPECT_EQ(x, 0.0);
    for (const double x : tokens(gradients.q, 2, 0, 3)) EXPECT_EQ(x, 0.0);
    for (const double x : gradients.k) EXPECT_TRUE(std::isfinite(x));
    for (const auto& encoding : gradients.parameters) {
      for (const auto& values : encoding) {
        for (const double x : values) EXPECT_TRUE(std::isfinite(x));
      }
    }
  }
}

TEST(AttentionMask, EmptyShapes) {
  for (const auto& [B, Tq, Tk] :
       std::vector<std::array<std::int64_t, 3>>{{0, 3, 3}, {1, 0, 3}, {1, 3, 0}}) {
    const ref::AttentionShape shape{
        .batch = B, .heads = 2, .kv_heads = 1, .queries = Tq, .keys = Tk, .head_dim = 4};
    const AttentionCase problem =
        random_case("rope + alibi + cope(gate_source=separate)", shape, masked(true), 9);
    const auto output = problem.forward();
    EXPECT_EQ(output.out, std::vector<double>(problem.q.size(), 0.0));
    EXPECT_EQ(problem.backward().k, std::vector<double>(problem.k.size(), 0.0));
  }
}

}  // namespace
}  // namespace posenc

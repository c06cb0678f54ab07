// What must hold of attention whatever the numbers are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::many_specs;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 2, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

// Replaces the tokens from `first` on by others; tokens have `channels` numbers.
void change_tokens(std::vector<double>& tensor, std::int64_t first, Rng& rng,
                   std::int64_t channels = kShape.head_dim) {
  for (std::size_t n = 0; n < tensor.size(); ++n) {
    const auto token = static_cast<std::int64_t>(n) / channels % kShape.keys;
    if (token >= first) tensor[n] = 3.0 * rng.normal();
  }
}

TEST(AttentionProperty, ALaterTokenNeverChangesAnEarlierOutput) {
  for (const std::string& spec : many_specs()) {
    SCOPED_TRACE(spec);
    const AttentionCase before = random_case(spec, kShape, causal(), 11);
    const auto expected = before.forward();
    Rng rng(12);
    for (const std::int64_t first : {1, 4, 8}) {
      AttentionCase after = before;
      for (auto* tensor : {&after.q, &after.k, &after.v}) change_tokens(*tensor, first, rng);
      for (std::size_t i = 0; i < after.of_encodings.size(); ++i) {
        change_tokens(after.of_encodings[i], first, rng, after.token_inputs()[i].info.channels);
        if (!is_gate(after.token_inputs()[i].info)) continue;
        for (double& x : after.of_encodings[i]) x = -std::abs(x);  // gates are at most 1
      }
      const auto output = after.forward();
      for (std::size_t n = 0; n < output.out.size(); ++n) {
        const auto token = static_cast<std::int64_t>(n) / kShape.head_dim % kShape.queries;
        if (token >= first) continue;
        ASSERT_EQ(output.out[n], expected.out[n]) << n;
      }
    }
  }
}

TEST(AttentionProperty, RelativeEncodingsSeeDistancesAlone) {
  for (const std::string& spec : many_specs()) {
    AttentionCase problem = random_case(spec, kShape, causal(), 21);
    bool relative = spec != "rope(precision=hf)";  // rounded angles are relative to float32 only
    int transforms = 0;
    for (const Encoding& encoding : problem.spec.encodings) {
      const Traits& about = traits(encoding);
      relative = relative && (about.relative || about.site == Site::kInput);
      transforms += about.site == Site::kQueryKey ? 1 : 0;
    }
    if (!relative || transforms > 1) continue;  // turns of different pairs do not commute
    SCOPED_TRACE(spec);
    problem.options.lengths.sequence = 40;  // frequencies may follow the length: hold it
    const auto expected = problem.forward();
    for (const std::int64_t shift : {1, 31, -7}) {
      const std::vector<std::int64_t> starts = {shift, shift};
      problem.options.positions.query = ref::offset_positions(starts, kShape.queries);
      problem.options.positions.key = problem.options.positions.query;
      EXPECT_LE(largest_difference(problem.forward().out, expected.out), 1e-11) << shift;
    }
  }
}

TEST(AttentionProperty, FireAndOneSidedShiftsDoChangeScores) {
  for (const char* spec : {"fire(width=3, init_threshold=2.7)", "rope", "alibi"}) {
    AttentionCase problem = random_case(spec, kShape, causal(), 22);
    const auto expected = problem.forward();
    const std::vector<std::int64_t> starts = {5, 5};
    problem.options.positions.query = ref::offset_positions(starts, kShape.queries);
    if (std::string(spec).starts_with("fire")) {
      problem.options.positions.key = problem.options.positions.query;
    }
    // ALiBi's penalty is linear, so moving the queries alone adds the same to a whole row.
    const bool same = largest_difference(problem.forward().out, expected.out) < 1e-11;
    EXPECT_EQ(same, std::string(spec) == "alibi") << spec;
  }
}

TEST(AttentionProperty, NoneIsNeutral) {
  for (const std::string& spec : many_specs()) {
    AttentionCase problem = random_case(spec, kShape, causal(), 31);
    const auto expected = problem.forward();
    problem.spec.encodings.insert(problem.spec.encodings.begin(), None{});
    problem.parameters.insert(problem.parameters.begin(), Parameters{});
    EXPECT_EQ(problem.forward().out, expected.out) << spec;
  }
}

TEST(AttentionProperty, NoPositionsIsPlainSoftmaxAttention) {
  const ref::AttentionShape shape{
      .batch = 1, .heads = 1, .kv_heads = 1, .queries = 4, .keys = 5, .head_dim = 3};
  const AttentionCase problem = random_case("none", shape, {}, 41);
  const auto output = problem.forward();
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0.0;
    std::vector<double> expected(3, 0.0);
    for (std::size_t j = 0; j < 5; ++j) {
      double score = 0.0;
      for (std::size_t c = 0; c < 3; ++c) score += problem.q[3 * i + c] * problem.k[3 * j + c];
      const double weight = std::exp(score / std::sqrt(3.0));
      sum += weight;
      for (std::size_t c = 0; c < 3; ++c) expected[c] += weight * problem.v[3 * j + c];
    }
    EXPECT_NEAR(output.lse[i], std::log(sum), 1e-13);
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(output.out[3 * i + c], expected[c] / sum, 1e-13);
    }
  }
}

// With queries of zero the score is the sum of the biases, and they come out as log weights.
TEST(AttentionProperty, BiasesAdd) {
  AttentionCase problem = random_case(
      "alibi(bidirectional=true) + t5(num_buckets=6, max_distance=5) + kerple", kShape, {}, 51);
  problem.q.assign(problem.q.size(), 0.0);
  problem.options.keep_weights = true;
  const auto output = problem.forward();
  const auto& encodings = problem.spec.encodings;
  for (std::int64_t h = 0; h < kShape.heads; ++h) {
    for (std::int64_t i = 0; i < kShape.queries; ++i) {
      for (std::int64_t j = 0; j < kShape.keys; ++j) {
        const double expected =
            bias(std::get<Alibi>(encodings[0]), problem.parameters[0], h, i, j) +
            bias(std::get<T5>(encodings[1]), problem.parameters[1], h, i, j) +
            bias(std::get<Kerple>(encodings[2]), problem.parameters[2], h, i, j);
        const auto row = static_cast<std::size_t>(h * kShape.queries + i);
        const double weight = output.weights[row * 9 + static_cast<std::size_t>(j)];
        EXPECT_NEAR(std::log(weight) + output.lse[row], expected, 1e-12);
      }
    }
  }
}

// The weight that the sinks of a head take from a row.
double sink_weight(const AttentionCase& problem, std::size_t head, double lse) {
  double weight = 0.0;
  for (std::size_t e = 0; e < problem.spec.encodings.size(); ++e) {
    if (!std::holds_alternative<Sink>(problem.spec.encodings[e])) continue;
    weight += std::exp(problem.parameters[e][0][head] - lse);
  }
  return weight;
}

bool breaks_sticks(const std::string& spec) {
  return spec.find("stick_breaking") != std::string::npos;
}

// The score of a seen key is their sum, unless an encoding of site 5 bounds it.
TEST(AttentionProperty, PartsAddUpToTheScores) {
  for (const std::string& spec : many_specs()) {
    AttentionCase problem = random_case(spec, kShape, causal(), 62);
    problem.options.keep_weights = problem.options.keep_parts = true;
    const auto output = problem.forward();
    ASSERT_EQ(output.raw.size(), output.weights.size());
    if (spec.find("softcap") != std::string::npos || breaks_sticks(spec)) continue;
    for (std::size_t n = 0; n < output.weights.size(); ++n) {
      const double sum = output.raw[n] + output.bias[n] + output.content[n];
      const bool seen = n % 9 <= n / 9 % 9;
      const double expected = seen ? std::log(output.weights[n]) + output.lse[n / 9] : 0.0;
      EXPECT_NEAR(sum, expected, 1e-12 * (1.0 + std::abs(expected))) << spec << " " << n;
    }
  }
}

// With what sinks take, or with what is left of a stick.
TEST(AttentionProperty, WeightsOfARowSumToOne) {
  for (const std::string& spec : many_specs()) {
    AttentionCase problem = random_case(spec, kShape, causal(), 61);
    problem.options.keep_weights = true;
    const auto output = problem.forward();
    ASSERT_EQ(output.weights.size(), 2u * 2 * 9 * 9);
    for (std::size_t row = 0; row < 2 * 2 * 9; ++row) {
      const bool stick = breaks_sticks(spec);
      if (stick && row % 9 == 0) continue;  // it sees no key
      double sum =
          stick ? std::exp(output.lse[row]) : sink_weight(problem, row / 9 % 2, output.lse[row]);
      for (std::size_t j = 0; j < 9; ++j) {
        const double weight = output.weights[9 * row + j];
        EXPECT_EQ(weight > 0.0, j < row % 9 || (!stick && j == row % 9));
        sum += weight;
      }
      EXPECT_NEAR(sum, 1.0, 1e-14) << spec;
    }
  }
}

// The encodings with parameters that are the identity at zero: those parameters become 0 in the first case, and the
// second is without the encodings. Returns how many there are.
std::size_t remove_identities(AttentionCase& zeroed, AttentionCase& without) {
  std::set<std::size_t> removed;
  for (const SpecParameter& parameter :
       parameters(zeroed.spec, {.head_dim = kShape.head_dim, .heads = kShape.heads})) {
    if (!parameter.info.identity_at_zero) continue;
    removed.insert(parameter.encoding);
    for (double& x : zeroed.parameters[parameter.encoding][parameter.index]) x = 0.0;
  }
  without.spec.encodings.clear();
  without.parameters.clear();
  without.of_encodings.clear();
  for (std::size_t e = 0; e < zeroed.spec.encodings.size(); ++e) {
    if (removed.count(e) == 1) continue;
    without.spec.encodings.push_back(zeroed.spec.encodings[e]);
    without.parameters.push_back(zeroed.parameters[e]);
  }
  const std::vector<SpecInput> inputs = zeroed.token_inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (removed.count(inputs[i].encoding) == 1) continue;
    without.of_encodings.push_back(zeroed.of_encodings[i]);
  }
  return removed.size();
}

TEST(AttentionProperty, EncodingsThatSaySoAreTheIdentityAtZeroAndLeaveIt) {
  std::size_t identities = 0;
  for (const std::string& spec : many_specs()) {
    SCOPED_TRACE(spec);
    AttentionCase zeroed = random_case(spec, kShape, causal(), 41);
    AttentionCase without = zeroed;
    const std::size_t removed = remove_identities(zeroed, without);
    if (removed == 0) continue;
    identities += removed;
    EXPECT_LT(largest_difference(zeroed.forward().out, without.forward().out), 1e-12);
    const ref::AttentionGradients gradients = zeroed.backward();
    std::set<std::size_t> moving;
    for (const SpecParameter& parameter :
         parameters(zeroed.spec, {.head_dim = kShape.head_dim, .heads = kShape.heads})) {
      if (!parameter.info.identity_at_zero) continue;
      const auto& gradient = gradients.parameters[parameter.encoding][parameter.index];
      const bool moves = std::any_of(gradient.begin(), gradient.end(),
                                     [](double g) { return std::abs(g) > 1e-9; });
      if (moves) moving.insert(parameter.encoding);
    }
    EXPECT_EQ(moving.size(), removed);
  }
  EXPECT_GT(identities, 20U);
}

}  // namespace
}  // namespace posenc

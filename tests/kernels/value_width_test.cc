// Values with more or fewer channels than queries. The case table (cases/width_cases.cc) compares the kernels with the
// reference; here are the reference itself, the bits of the kernels, and what is refused.
#include <gtest/gtest.h>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "support/attention_case.h"
#include "support/message_of.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Operation;
using cases::Result;
using cases::ties_widths;
using testing::AttentionCase;
using testing::message_of;
using testing::random_case;

ref::AttentionShape shape_of(std::int64_t value_dim) {
  return {.batch = 1,
          .heads = 4,
          .kv_heads = 2,
          .queries = 4,
          .keys = 5,
          .head_dim = 4,
          .value_dim = value_dim};
}

ref::AttentionOptions masked() {
  ref::AttentionOptions options = testing::causal();
  options.masking.window_left = 3;
  options.masking.key_mask = {1, 1, 0, 1, 1};
  options.dropout = {.rate = 0.2, .seed = 5};
  return options;
}

TEST(ValueWidth, GradientsOfTheReferenceAgreeWithDifferences) {
  for (const std::string& spec : testing::many_specs()) {
    if (ties_widths(spec)) continue;
    SCOPED_TRACE(spec);
    for (const std::int64_t value_dim : {3, 6}) {
      AttentionCase problem = random_case(spec, shape_of(value_dim), masked(), 7);
      EXPECT_TRUE(testing::gradients_agree(testing::compare_all_gradients(problem)));
    }
  }
}

// Rows of `from` channels with zeros behind them.
std::vector<double> padded(const std::vector<double>& rows, std::size_t from, std::size_t to) {
  std::vector<double> wide(rows.size() / from * to, 0.0);
  for (std::size_t n = 0; n < rows.size(); ++n) wide[n / from * to + n % from] = rows[n];
  return wide;
}

TEST(ValueWidth, TheReferencePaddedWithZerosIsTheSame) {
  const AttentionCase narrow = random_case("rope + cope(npos_max=3)", shape_of(3), masked(), 8);
  AttentionCase wide = narrow;
  wide.shape.value_dim = 4;
  wide.v = padded(narrow.v, 3, 4);
  wide.grad_out = padded(narrow.grad_out, 3, 4);
  EXPECT_EQ(wide.forward().out, padded(narrow.forward().out, 3, 4));
  EXPECT_EQ(wide.backward().q, narrow.backward().q);
  EXPECT_EQ(wide.backward().v, padded(narrow.backward().v, 3, 4));
}

// The results of a problem whose values end with `zeros` channels of zeros, which are left out.
std::vector<Result> results_with(const Case& c, std::int64_t zeros) {
  AttentionProblem narrow(c);
  Case more = c;
  more.value_dim = c.value_dim + zeros;
  AttentionProblem wide(more);
  const auto from = static_cast<std::size_t>(c.value_dim);
  const auto to = static_cast<std::size_t>(more.value_dim);
  cases::AttentionData& data = wide.data;
  data.q.assign(narrow.data.q.values());
  data.k.assign(narrow.data.k.values());
  data.v.assign(padded(narrow.data.v.values(), from, to));
  data.grad_out.assign(padded(narrow.data.grad_out.values(), from, to));
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    data.inputs[i].assign(narrow.data.inputs[i].values());
  }
  data.parameters = narrow.data.parameters;
  data.key_mask = narrow.data.key_mask;
  wide.forward();
  wide.backward();
  return wide.results(true);
}

// A sum over keys is the same for a channel whatever stands beside it, and zeros add nothing to a sum over channels.
TEST(ValueWidth, ChannelsOfZerosChangeNoBits) {
  for (const char* spec :
       {"none", "rope + alibi(trainable=true) + cope(npos_max=8) + sink", "path"}) {
    for (const Operation op : {Operation::kAttention, Operation::kDecode}) {
      Case c{.op = op, .spec = spec, .heads = 4, .head_dim = 32, .value_dim = 20, .padding = true};
      if (op == Operation::kDecode) c.queries = 2;
      SCOPED_TRACE(cases::name_of(c));
      const auto narrow = results_with(c, 0);
      const auto wide = results_with(c, 12);
      for (std::size_t i = 0; i < narrow.size(); ++i) {
        const bool of_values = narrow[i].name == "out" || narrow[i].name == "dv";
        EXPECT_EQ(wide[i].values, of_values ? padded(narrow[i].values, 20, 32) : narrow[i].values)
            << narrow[i].name;
      }
    }
  }
}

void expect_words(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(ValueWidth, EncodingsThatReadValuesAsQueriesRefuseOtherWidths) {
  EXPECT_FALSE(ties_widths("rope + cope(gate_source=separate)"));
  for (const char* tie : {"rope(values=true)", "cope(gate_source=value)"}) {
    EXPECT_TRUE(ties_widths(tie));
    const std::string words =
        std::string("v must have 16 channels as q has with ") + tie + " but got 24";
    AttentionProblem problem(Case{.spec = std::string("alibi + ") + tie, .value_dim = 24});
    expect_words(attention(problem.call()).message(), words);
    expect_words(attention_backward(problem.backward_call()).message(), words);
    expect_words(message_of([&] { static_cast<void>(problem.expected(true)); }), words);
  }
}

TEST(ValueWidth, ShapesOfOtherTensorsAreNamed) {
  AttentionProblem problem(Case{.value_dim = 24});
  problem.forward();
  AttentionBackwardCall call = problem.backward_call();
  const auto refused = [&](const std::string& words) {
    expect_words(attention_backward(call).message(), words);
    call = problem.backward_call();
  };
  call.forward.out = problem.data.dq.view();
  refused(
      "out must have the shape of q, with the channels of v, [1, 2, 70, 24] but got [1, 2, 70, "
      "16]");
  call.grad_out = problem.data.q.view();
  refused("grad_out must have the shape of out [1, 2, 70, 24] but got [1, 2, 70, 16]");
  call.dv = problem.data.dk.view();
  refused("dv must have the shape of v [1, 2, 70, 24] but got [1, 2, 70, 16]");
  call.forward.k = problem.data.v.view();
  refused("k must have 16 channels but got 24");
  call.forward.v.shape[3] = 0;
  refused("v must have at least 1 channel but got 0");
}

TEST(ValueWidth, LinearAttentionHasOne) {
  cases::LinearAttentionProblem problem(
      Case{.op = Operation::kLinearAttention, .spec = "rope", .value_dim = 24});
  expect_words(linear_attention(problem.call()).message(),
               "[linear_attention] v must have 16 channels but got 24");
  expect_words(linear_attention_backward(problem.backward_call()).message(),
               "[linear_attention] v must have 16 channels but got 24");
}

TEST(ValueWidth, TheReferenceNamesWrongSizes) {
  AttentionCase problem = random_case("none", shape_of(3), {}, 9);
  const auto refused = [&](const std::string& words) {
    expect_words(message_of([&] { static_cast<void>(problem.forward()); }), words);
  };
  problem.shape.value_dim = 4;
  refused("v must have 40 values ([B, Hkv, Tk, Dv]) but got 30");
  problem.shape.value_dim = -1;
  refused("value_dim must be >= 0 but got -1");
  problem.shape.value_dim = 3;
  expect_words(message_of([&] {
                 static_cast<void>(ref::linear_attention(problem.spec, problem.parameters,
                                                         problem.shape, problem.inputs(), {}));
               }),
               "value_dim must be head_dim (4) but got 3");
}

}  // namespace
}  // namespace posenc

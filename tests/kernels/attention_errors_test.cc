// Arguments that do not fit: an error that names the argument.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::random_case;

AttentionCase good() {
  const ref::AttentionShape shape{
      .batch = 2, .heads = 4, .kv_heads = 2, .queries = 3, .keys = 5, .head_dim = 4};
  return random_case("rope(axes=axial(axes=2)) + alibi + cope(gate_source=separate)", shape, {}, 1);
}

struct Mistake {
  std::string key;  // what the error must name
  std::function<void(AttentionCase&)> make;
};

std::vector<Mistake> mistakes() {
  using Case = AttentionCase;
  return {
      {"q", [](Case& c) { c.q.pop_back(); }},
      {"k", [](Case& c) { c.k.push_back(0.0); }},
      {"v", [](Case& c) { c.v.clear(); }},
      {"inputs", [](Case& c) { c.of_encodings.clear(); }},
      {"inputs", [](Case& c) { c.of_encodings.push_back(c.k); }},
      {"cope.gate_k", [](Case& c) { c.of_encodings[0].pop_back(); }},
      {"batch", [](Case& c) { c.shape.batch = -1; }},
      {"heads", [](Case& c) { c.shape.heads = 0; }},
      {"kv_heads", [](Case& c) { c.shape.kv_heads = 3; }},
      {"kv_heads", [](Case& c) { c.shape.kv_heads = 0; }},
      {"head_dim", [](Case& c) { c.shape.head_dim = 0; }},
      {"parameters", [](Case& c) { c.parameters.pop_back(); }},
      {"parameters of alibi", [](Case& c) { c.parameters[1].clear(); }},
      {"alibi.slopes", [](Case& c) { c.parameters[1][0].pop_back(); }},
      {"cope.pos_emb", [](Case& c) { c.parameters[2][0].push_back(0.0); }},
      {"dropout.rate", [](Case& c) { c.options.dropout.rate = 1.0; }},
      {"dropout.rate", [](Case& c) { c.options.dropout.rate = -0.1; }},
      {"window_left", [](Case& c) { c.options.masking.window_left = -2; }},
      {"window_right", [](Case& c) { c.options.masking.window_right = -7; }},
      {"key_mask",
       [](Case& c) {
         c.options.masking.key_mask = {1, 0, 1};
       }},
      {"cu_queries",
       [](Case& c) {
         c.options.masking.cu_queries = {0, 4, 3};
       }},
      {"cu_keys",
       [](Case& c) {
         c.options.masking.cu_queries = {0, 1, 3};
       }},
      {"cu_keys",
       [](Case& c) {
         c.options.masking.cu_queries = {0, 1, 3};
         c.options.masking.cu_keys = {0, 5};
       }},
      {"cu_keys",
       [](Case& c) {
         c.options.masking.cu_queries = {0, 3};
         c.options.masking.cu_keys = {1, 5};
       }},
      {"positions.axes", [](Case& c) { c.options.positions.axes = 0; }},
      {"positions.query",
       [](Case& c) {
         c.options.positions.query = {0, 1, 2};
       }},
      {"positions.key", [](Case& c) { c.options.positions.key = {0}; }},
      {"positions.axes",
       [](Case& c) {
         c.options.positions.axes = 3;
         c.options.positions.key.assign(30, 0);
       }},
  };
}

TEST(AttentionErrors, NameTheArgument) {
  EXPECT_NO_THROW(static_cast<void>(good().forward()));
  for (const Mistake& mistake : mistakes()) {
    AttentionCase problem = good();
    mistake.make(problem);
    for (const bool backward : {false, true}) {
      try {
        if (backward) {
          static_cast<void>(problem.backward());
        } else {
          static_cast<void>(problem.forward());
        }
        ADD_FAILURE() << "no error for " << mistake.key;
      } catch (const Error& error) {
        EXPECT_EQ(error.scope(), "attention") << error.what();
        EXPECT_EQ(error.key(), mistake.key) << error.what();
      }
    }
  }
}

TEST(AttentionErrors, ReadAsOneLine) {
  AttentionCase problem = good();
  problem.q.pop_back();
  try {
    static_cast<void>(problem.forward());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[attention] q must have 96 values ([B, H, Tq, D]) but got 95");
  }
}

TEST(AttentionErrors, GradientsOfTheWrongSize) {
  AttentionCase problem = good();
  problem.grad_out.pop_back();
  try {
    static_cast<void>(problem.backward());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "grad_out");
  }
}

TEST(AttentionErrors, OfTheOtherOperations) {
  const Rotary rotary = make_rotary(Rope{.theta = {10.0, 100.0}},
                                    {.head_dim = 4, .heads = 2, .model_dim = 0}, {4, 0});
  const std::vector<double> x(8, 1.0);
  const std::vector<std::int64_t> one = {0};
  const std::vector<std::int64_t> three = {0, 1, 2};
  const ref::RopeShape fits{.batch = 1, .heads = 2, .tokens = 1, .head_dim = 4};
  const ref::RopeShape odd_heads{.batch = 1, .heads = 1, .tokens = 2, .head_dim = 4};
  const ref::RopeShape other_dim{.batch = 1, .heads = 2, .tokens = 2, .head_dim = 2};
  EXPECT_NO_THROW(ref::rope(rotary, Role::kQuery, fits, x, one));
  EXPECT_THROW(ref::rope(rotary, Role::kQuery, fits, x, three), Error);
  EXPECT_THROW(ref::rope(rotary, Role::kQuery, odd_heads, x, std::span(three).first(2)), Error);
  EXPECT_THROW(ref::rope(rotary, Role::kQuery, other_dim, x, std::span(three).first(2)), Error);
  EXPECT_THROW(ref::rope_backward(rotary, Role::kQuery, fits, x, one, std::span(x).first(7)),
               Error);
  EXPECT_THROW(ref::alpha_gradient(rotary, x), Error);
  EXPECT_THROW(ref::packed_positions(std::span(three).last(2)), Error);
  EXPECT_THROW(ref::packed_positions({}), Error);
  EXPECT_THROW(ref::add_embeddings({}, {}, {.batch = 1, .tokens = 2, .model_dim = 3}, x), Error);
}

}  // namespace
}  // namespace posenc

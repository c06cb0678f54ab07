#include <gtest/gtest.h>

#include <cmath>

#include "posenc/kernels/embedding.h"
#include "posenc/kernels/reference.h"
#include "support/tensor.h"

namespace posenc {
namespace {

using testing::Order;
using testing::Tensor;

struct Fixture {
  Fixture(const char* text, std::int64_t dim, DType dtype, Order order)
      : spec(parse_spec(text)), x({2, 1, 9, dim}, dtype, order), y(x) {
    Rng rng(4);
    values = x.fill_random(rng);
    for (const Encoding& e : spec.encodings) {
      const ModelShape shape{.head_dim = dim, .heads = 1, .model_dim = dim};
      parameters.push_back(initial_parameters(posenc::parameters(e, shape), rng));
    }
    for (std::int64_t i = 0; i < 18; ++i) ids.push_back((i * 7) % 16);
    y.fill(NAN);
  }
  EmbeddingCall call() {
    EmbeddingCall c;
    c.spec = &spec;
    c.parameters = &parameters;
    c.x = x.view();
    c.y = y.view();
    c.positions.ids = ids.data();
    c.positions.batch_stride = 9;
    return c;
  }
  Spec spec;
  Tensor x;
  Tensor y;
  std::vector<double> values;
  std::vector<Parameters> parameters;
  std::vector<std::int64_t> ids;
};

TEST(EmbeddingKernel, MatchesTheReference) {
  for (const char* spec : {"sinusoidal", "learned(max_positions=16)", "none",
                           "sinusoidal(layout=concat) + learned(max_positions=16) + rope"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      for (const Order order : {Order::kDense, Order::kPadded}) {
        Fixture f(spec, 12, dtype, order);
        const Status status = add_embeddings(f.call());
        ASSERT_TRUE(status.ok()) << status.message();
        const auto want = ref::add_embeddings(f.spec, f.parameters, {2, 9, 12}, f.values, f.ids);
        const auto got = f.y.values();
        for (std::size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], testing::rounding(dtype, want[i]) + 1e-6)
              << spec << " at " << i;
        }
      }
    }
  }
}

TEST(EmbeddingKernel, GradientOfTheTableMatchesTheReference) {
  Fixture f("learned(max_positions=16)", 12, DType::kFloat32, Order::kDense);
  std::vector<Parameters> gradients;
  const Status status =
      add_embeddings_gradient({&f.spec, &f.parameters, f.x.view(), f.call().positions, &gradients});
  ASSERT_TRUE(status.ok()) << status.message();
  const auto want = ref::add_embeddings_backward(f.spec, f.parameters, {2, 9, 12}, f.values, f.ids);
  for (std::size_t i = 0; i < want.parameters[0][0].size(); ++i) {
    ASSERT_NEAR(gradients[0][0][i], want.parameters[0][0][i], 1e-12);
  }
}

TEST(EmbeddingKernel, APositionPastTheTableIsAnErrorAndNothingIsWritten) {
  Fixture f("sinusoidal + learned(max_positions=8)", 12, DType::kFloat32, Order::kDense);
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
  Fixture f("learned(max_positions=16)", 12, DType::kFloat32, Order::kDense);
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

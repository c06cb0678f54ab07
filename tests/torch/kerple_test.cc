// KERPLE's clamps in the bias that is composed from tensors, against the scalar formula: parameters below
// 0.01 and powers above 2 are read as the bound, and have no gradient there.
#include "posenc/encodings/kerple.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "torch/composed/biases.h"

namespace posenc {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kBefore = 5;
constexpr std::int64_t kSpan = 12;

// Per head: both inside, p too small, a too small, p too large for a power.
const Parameters kParameters = {{1.5, -0.3, 0.7, 2.6}, {0.4, 0.5, 0.001, 0.8}};

std::vector<at::Tensor> tensors_of(const Parameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& one : parameters) tensors.push_back(at::tensor(one, at::kDouble));
  return tensors;
}

class KerpleOnTensors : public ::testing::TestWithParam<Kerple::Kernel> {
 protected:
  Kerple config_{.kernel = GetParam()};
  const at::Tensor distance_ = at::arange(-kBefore, kSpan - kBefore, at::kLong);
};

TEST_P(KerpleOnTensors, ClampsAsTheFormulaDoes) {
  const at::Tensor got = ops::toeplitz_bias(config_, tensors_of(kParameters), distance_);
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t d = 0; d < kSpan; ++d) {
      const double want = bias(config_, kParameters, h, d, kBefore);
      EXPECT_NEAR(got[h][d].item<double>(), want, 1e-12) << h << " " << d - kBefore;
    }
  }
}

TEST_P(KerpleOnTensors, HasNoGradientWhereItClamps) {
  torch::manual_seed(3);
  const std::string spec =
      config_.kernel == Kerple::Kernel::kPower ? "kerple(kernel=power)" : "kerple";
  const auto prepared = ops::prepare(spec, {.head_dim = 8, .heads = kHeads}, 2, 40);
  const at::Tensor dtable = at::randn({kHeads, kSpan}, at::kDouble);
  Parameters want = {std::vector<double>(kHeads), std::vector<double>(kHeads)};
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t d = 0; d < kSpan; ++d) {
      add_bias_gradient(config_, kParameters, h, d, kBefore, dtable[h][d].item<double>(), want);
    }
  }
  EXPECT_EQ(want[0][1], 0.0);
  EXPECT_EQ(want[1][2], 0.0);
  EXPECT_EQ(want[0][3] == 0.0, config_.kernel == Kerple::Kernel::kPower);
  const auto got =
      ops::bias_table_gradient(*prepared, {tensors_of(kParameters)}, {kBefore, kSpan}, dtable);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(got[0][i].allclose(at::tensor(want[i], at::kDouble), 1e-9, 1e-12)) << got[0][i];
  }
}

// A parameter that a clamp holds has no gradient, whatever the other one is.
TEST_P(KerpleOnTensors, AHeldParameterStaysSoNextToANaN) {
  const Parameters values = {{0.001, 0.5}, {NAN, NAN}};
  const std::string spec =
      config_.kernel == Kerple::Kernel::kPower ? "kerple(kernel=power)" : "kerple";
  const auto prepared = ops::prepare(spec, {.head_dim = 8, .heads = 2}, 2, 40);
  const at::Tensor dtable = at::ones({2, kSpan}, at::kDouble);
  Parameters want = {{0.0, 0.0}, {0.0, 0.0}};
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t d = 0; d < kSpan; ++d) {
      add_bias_gradient(config_, values, h, d, kBefore, 1.0, want);
    }
  }
  EXPECT_EQ(want[0][0], 0.0);
  EXPECT_TRUE(std::isnan(want[0][1]));
  const auto got =
      ops::bias_table_gradient(*prepared, {tensors_of(values)}, {kBefore, kSpan}, dtable);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(got[0][i].allclose(at::tensor(want[i], at::kDouble), 1e-9, 1e-12, true))
        << got[0][i];
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KerpleOnTensors,
                         ::testing::Values(Kerple::Kernel::kLog, Kerple::Kernel::kPower));

}  // namespace
}  // namespace posenc

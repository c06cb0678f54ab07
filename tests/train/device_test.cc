// The demo on a GPU and on the CPU: the same seed, the same batches, and so the same loss curve but for
// rounding.
//
// Rounding grows along a training. In float32 the devices sum in another order, about 1e-7 of a loss at
// the first step; bfloat16 rounds the operands of every product to 8 bits. Rows of the log are means over
// 25 steps and are compared in units of the first. A wrong gradient, mask or position shows as tenths of
// it: the loss falls by half in the first 50 steps and by a third more where counting is learned.
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cmath>

#include "core/value.h"
#include "runs/metrics.h"
#include "support/paths.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

constexpr int kSteps = 600;
constexpr int kLogEvery = 25;
constexpr double kFloat32 = 0.03;  // of the first row's loss
constexpr double kBfloat16 = 0.06;

double number_in(const Value& row, const std::string& name) {
  const Value* member = row.find(name);
  const double* x = member == nullptr ? nullptr : member->get_if<double>();
  return x == nullptr ? std::nan("") : *x;
}

using Curve = std::vector<double>;

class OnGpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
  }

  [[nodiscard]] Curve train(const std::string& name, int steps, const std::string& settings) const {
    const std::string config = std::string(kTestData) + "/../configs/selective_counting.yaml";
    const LabResult result = run_lab("train " + config + " --out " + (folder_ / name) +
                                     " --set 'model.encoding=" + GetParam() +
                                     "' --set train.steps=" + std::to_string(steps) +
                                     " --set train.log_every=" + std::to_string(kLogEvery) +
                                     settings + " --no-eval --progress quiet --threads 4");
    EXPECT_EQ(result.code, 0) << result.out;
    Curve losses;
    for (const Value& row :
         runs::read_metrics(std::filesystem::path(folder_ / name) / "metrics.jsonl")) {
      losses.push_back(number_in(row, "loss"));
    }
    return losses;
  }

  // The largest distance between two curves, in units of where they start.
  static double apart(const Curve& a, const Curve& b) {
    if (a.size() != b.size() || a.empty()) return HUGE_VAL;
    double most = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double distance = std::abs(a[i] - b[i]) / a.front();
      if (!(distance <= most)) most = distance;
    }
    return most;
  }

 private:
  Folder folder_;
};

TEST_P(OnGpu, LossCurveIsTheCpus) {
  const Curve near = train("near", kSteps, " --set train.device=cpu");
  ASSERT_EQ(near.size(), kSteps / kLogEvery);
  ASSERT_LT(near.back(), 0.6 * near.front()) << "nothing was learned, so nothing is compared";
  const Curve far = train("far", kSteps, " --set train.device=cuda");
  const Curve mixed =
      train("mixed", kSteps, " --set train.device=cuda --set train.precision=bfloat16");
  std::cout << "[ CURVES   ] " << GetParam() << ": loss " << near.front() << " to " << near.back()
            << " on the CPU; float32 within " << apart(near, far) << ", bfloat16 within "
            << apart(near, mixed) << " of the first\n";
  EXPECT_LT(apart(near, far), kFloat32);
  EXPECT_LT(apart(near, mixed), kBfloat16);
}

TEST_P(OnGpu, TwoRunsAreTheSame) {
  constexpr int kFew = 100;
  const std::string settings = " --set train.device=cuda --set train.precision=bfloat16";
  const Curve once = train("once", kFew, settings);
  EXPECT_EQ(once, train("twice", kFew, settings));
  EXPECT_EQ(once.size(), kFew / kLogEvery);
}

INSTANTIATE_TEST_SUITE_P(Encodings, OnGpu,
                         ::testing::Values("rope", "alibi(trainable=true)", "cope(npos_max=32)"));

}  // namespace
}  // namespace posenc::testing

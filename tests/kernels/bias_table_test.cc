// What a thread of CUDA's table filler computes, on the host: the value of every distance bias from its parameters
// in float32 and the entries that the host found, against the scalar formula.
#include "kernels/cuda/bias_table.h"

#include <gtest/gtest.h>

#include "cases/table.h"
#include "posenc/encodings/spec.h"

namespace posenc::cuda {
namespace {

constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kBefore = 40;
constexpr std::int64_t kSpan = 300;

template <DistanceBias E>
void expect_formula(const E& config, const std::string& name) {
  Rng rng(7);
  Parameters values = initial_parameters(parameters(config, {.heads = kHeads}), rng);
  std::vector<std::vector<float>> stored;
  BiasReads reads;
  for (std::vector<double>& all : values) {
    for (double& x : all) x = static_cast<float>(x + rng.uniform());
    stored.emplace_back(all.begin(), all.end());
    reads.parameters.at(stored.size() - 1) = stored.back().data();
  }
  std::vector<std::int64_t> entries;
  if constexpr (ReadsEntries<E>) {
    for (std::int64_t n = 0; n < kSpan; ++n) entries.push_back(config.entry(n - kBefore));
    reads.entries = entries.data();
  }
  const DistanceTable table{.values = nullptr, .heads = kHeads, .before = kBefore, .span = kSpan};
  const ParameterStrides strides = parameter_strides(config, kHeads);
  for (int head = 0; head < kHeads; ++head) {
    for (std::int64_t n = 0; n < kSpan; ++n) {
      const auto want = static_cast<float>(bias(config, values, head, n, kBefore));
      ASSERT_EQ(value_at(config, strides, reads, table, head, n), want)
          << name << " head " << head << " distance " << n - kBefore;
    }
  }
}

TEST(CudaBiasTable, HasTheValuesOfTheFormula) {
  const auto specs = cases::with_every_distance_bias(
      {"none", "alibi(bidirectional=true)", "alibi", "t5(bidirectional=true)", "t5(num_buckets=8)",
       "kerple(kernel=power)", "kerple", "relative(bidirectional=true, max_distance=9)",
       "relative(max_distance=50)"});
  int checked = 0;
  for (const std::string& text : specs) {
    for (const Encoding& encoding : parse_spec(text).encodings) {
      std::visit(
          [&]<class E>(const E& config) {
            if constexpr (DistanceBias<E>) {
              expect_formula(config, text);
              ++checked;
            }
          },
          encoding);
    }
  }
  EXPECT_GE(checked, 8);
}

}  // namespace
}  // namespace posenc::cuda

// A case of attention on the GPU against the float64 reference: poisoned outputs and workspace, two runs.
#pragma once

#include <array>
#include <cstdio>
#include <map>

#include "cases/table.h"
#include "cases/tensor.h"
#include "kernels/cuda/attention_device.h"

namespace posenc::cuda::testing {

using cases::AttentionProblem;
using cases::Case;
using cases::Result;
using cases::ResultKind;

inline double norm(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double v : x) sum += std::isfinite(v) ? v * v : 0.0;
  return std::sqrt(sum);
}

// |got - want| / |want|; infinite where one is finite and the other is not.
inline double relative_error(const Result& got, const Result& want, double least = 0.0) {
  double sum = 0.0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (got.values[i] == want.values[i]) continue;
    const double difference = got.values[i] - want.values[i];
    if (!std::isfinite(difference)) return HUGE_VAL;
    sum += difference * difference;
  }
  return std::sqrt(sum) / std::max(norm(want.values), std::max(least, 1e-30));
}

// The largest error of a row, over the largest number of the row or, where that is more, the root mean square
// of the tensor (and of `least` in its place): one wrong row among thousands moves a norm by little.
inline double row_error(const Result& got, const Result& want, std::size_t width,
                        double least = 0.0) {
  const double size = static_cast<double>(std::max<std::size_t>(want.values.size(), 1));
  const double typical =
      std::max({norm(want.values) / std::sqrt(size), least / std::sqrt(size), 1e-30});
  double worst = 0.0;
  for (std::size_t first = 0; first + width <= want.values.size(); first += width) {
    double apart = 0.0;
    double largest = typical;
    for (std::size_t i = first; i < first + width; ++i) {
      if (got.values[i] == want.values[i]) continue;
      apart = std::max(apart, std::abs(got.values[i] - want.values[i]));
      largest = std::max(largest, std::abs(want.values[i]));
    }
    worst = std::max(worst, apart / largest);
  }
  return worst;
}

// What rows were off by at most, as a share of what is allowed; printed when the program ends.
class WorstRows {
 public:
  static WorstRows& instance() {
    static WorstRows rows;
    return rows;
  }
  void note(const std::string& what, double error, double allowed) {
    auto& worst = worst_[what];
    worst = std::max(worst, std::pair(error / allowed, error));
  }
  WorstRows() = default;
  WorstRows(const WorstRows&) = delete;
  WorstRows& operator=(const WorstRows&) = delete;
  ~WorstRows() {
    for (const auto& [what, worst] : worst_) {
      std::printf("largest row error, %s: %.2e (%.2f of the limit)\n", what.c_str(), worst.second,
                  worst.first);
    }
  }

 private:
  std::map<std::string, std::pair<double, double>> worst_;
};

// Weights and score gradients are rounded to the element type before their products, so errors are a
// few roundings of it; float32 in two parts keeps 16 bits of a factor, and in three what its sums keep.
// Sums that cancel (slopes) are judged by the size of their terms.
struct Judge {
  const Case& c;
  int float_parts;

  [[nodiscard]] double unit() const {
    if (c.dtype != DType::kFloat32) return cases::rounding(c.dtype, 1.0);
    return float_parts == 2 || has_long_table() ? 0x1.0p-16 : 0x1.0p-18;
  }
  // Positions past 448 have fewer bits behind the point.
  [[nodiscard]] bool has_long_table() const {
    return c.spec.find("npos_max=1000") != std::string::npos;
  }
  // CoPE's gradient jumps where a position passes a whole number: at 16 bits some take the other side.
  [[nodiscard]] double jump() const {
    if (has_long_table()) return c.dtype == DType::kFloat32 ? 5e-3 : 2e-2;
    const bool rounds = c.dtype == DType::kFloat32 && float_parts == 2;
    return rounds && c.spec.find("cope") != std::string::npos ? 5e-3 : 0.0;
  }
  // The hardware's tanh is within 2^-11 of the result, and the tests' scores are of the order of one: so is a weight.
  [[nodiscard]] double tanh_error() const {
    const bool has = c.spec.find("softcap") != std::string::npos;
    return has && c.dtype != DType::kFloat32 ? 0x1.0p-11 : 0.0;
  }
  // The tuned kernels round the gates' sums as float32 parts relative to their tile: up to some 128 in the tests, twice.
  [[nodiscard]] double gate_error() const {
    const bool has = c.spec.find("fox") != std::string::npos;
    return has && c.dtype != DType::kFloat32 ? 2.0 * 128.0 * 0x1.0p-24 : 0.0;
  }
  [[nodiscard]] double allowed(const Result& want) const {
    if (want.kind == ResultKind::kRowSum) return 1e-5 + tanh_error() + gate_error();
    if (want.kind == ResultKind::kValue) return 1.6 * unit() + tanh_error();
    if (is_token(want)) return 16.0 * unit() + tanh_error();
    const bool parameter = want.kind == ResultKind::kParameterGradient;
    const double roundings = (is_fire(want) ? 16.0 : parameter ? 8.0 : 1.6) * unit();
    return std::max(jump(), roundings + 2.0 * tanh_error());
  }
  // Of the largest error of a row. A norm averages the roundings of a row's terms; the largest of D channels
  // is some four of them, and a row of few keys has nothing to average: 16 roundings were seen among 140,000
  // rows. CoPE's positions round, too, and a row's gradient may jump, by up to its own size.
  [[nodiscard]] double allowed_row(const Result& want) const {
    if (want.kind == ResultKind::kRowSum) return 1e-4 + 4.0 * tanh_error();
    const bool cope = c.spec.find("cope") != std::string::npos;
    if (want.kind == ResultKind::kValue) return (cope ? 10.0 : 6.0) * unit() + 4.0 * tanh_error();
    return std::max(50.0 * jump(), (cope ? 64.0 : 24.0) * unit() + 16.0 * tanh_error());
  }
  // What an error is measured against at least: a single key has gradient 0, a difference of two products
  // over the channels, and the sum of all rows' gradients, which FIRE's last layer reads, is 0 but for the
  // rounding of every row.
  [[nodiscard]] double least(const Result& want) const {
    if (want.kind != ResultKind::kParameterGradient) {
      return c.dtype == DType::kFloat32 ? std::sqrt(static_cast<double>(c.head_dim)) : 1e-2;
    }
    const double rows = static_cast<double>(c.batch * c.queries);
    return is_fire(want) ? std::max(want.terms, 0.4 * std::sqrt(rows)) : want.terms;
  }
  // The input of a term per token: a sum over pairs, in which the rounding of the outputs does not cancel.
  [[nodiscard]] static bool is_token(const Result& want) {
    return want.name == "dfox.log_f" || want.name == "dkey_bias.value";
  }
  [[nodiscard]] static bool is_fire(const Result& want) {
    return want.name.find("fire") != std::string::npos;
  }
};

inline void check_rows(const Result& got, const Result& want, const Judge& judge) {
  const bool sums = want.kind == ResultKind::kRowSum;
  const auto width = sums ? std::size_t{1} : static_cast<std::size_t>(judge.c.head_dim);
  const double error = row_error(got, want, width, judge.least(want));
  const double allowed = judge.allowed_row(want);
  const bool cope = judge.c.spec.find("cope") != std::string::npos;
  WorstRows::instance().note(want.name + (cope ? ", cope, " : ", ") +
                                 std::string(dtype_name(judge.c.dtype)) + " in parts of " +
                                 std::to_string(judge.float_parts),
                             error, allowed);
  EXPECT_LE(error, allowed) << cases::name_of(judge.c) << ": rows of " << want.name;
}

// Forward and backward; the problem then holds the results.
inline void run_both(DeviceAttention& device, std::int64_t chunk_bytes, int float_parts) {
  device.params.chunk_bytes = chunk_bytes;
  device.params.forward.float_parts = float_parts;
  device.forward();
  device.backward();
  device.bring_back();
}

// A stick of which less than 2^-126 is left has no exact logarithm on the device.
inline std::vector<Result> forget_spent(std::vector<Result> results) {
  for (Result& result : results) {
    if (result.kind != ResultKind::kRowSum) continue;
    for (double& x : result.values) {
      if (std::isfinite(x)) x = std::max(x, -87.0);
    }
  }
  return results;
}

inline void check_case(const Case& c, std::int64_t chunk_bytes = std::int64_t{512} << 20,
                       int float_parts = 3) {
  AttentionProblem problem(c);
  const bool sticks = c.spec.find("stick_breaking") != std::string::npos;
  std::vector<Result> want = problem.expected(true);
  if (sticks) want = forget_spent(std::move(want));
  DeviceAttention device(problem);
  run_both(device, chunk_bytes, float_parts);
  std::vector<Result> got = problem.results(true);
  if (sticks) got = forget_spent(std::move(got));
  ASSERT_EQ(got.size(), want.size());
  const Judge judge{c, float_parts};
  for (std::size_t n = 0; n < want.size(); ++n) {
    EXPECT_LE(relative_error(got[n], want[n], judge.least(want[n])), judge.allowed(want[n]))
        << cases::name_of(c) << ", " << float_parts << " parts: " << want[n].name;
    if (want[n].kind != ResultKind::kParameterGradient) check_rows(got[n], want[n], judge);
  }
  const auto gradients = [&] {
    return std::array{problem.data.dq.bytes(), problem.data.dk.bytes(), problem.data.dv.bytes()};
  };
  const auto first = gradients();
  const auto dparameters = problem.data.dparameters;
  device.backward();
  device.bring_back();
  EXPECT_EQ(first, gradients()) << cases::name_of(c) << ": two runs differ";
  EXPECT_EQ(dparameters, problem.data.dparameters) << cases::name_of(c) << ": two runs differ";
}

inline Case small(const std::string& spec, std::int64_t tokens, std::int64_t dim = 64) {
  return {.spec = spec,
          .batch = 2,
          .queries = tokens,
          .keys = tokens,
          .head_dim = dim,
          .dtype = DType::kBfloat16};
}

inline void check_masks(const std::string& spec) {
  Case c = small(spec, 150);
  c.causal = false;
  check_case(c);
  c.window_left = 40;
  c.window_right = 10;
  check_case(c);
  c = small(spec, 150);
  c.window_left = 70;
  check_case(c);
  c = small(spec, 150);
  c.padding = true;
  check_case(c);
  c = small(spec, 150);
  c.cumulative = {0, 60, 63, 150};
  check_case(c);
  c = small(spec, 150);
  c.dropout = 0.25;
  check_case(c);
  c.cumulative = {0, 61, 150};  // draws of the dropout begin inside a group of four
  check_case(c);
}

// Few enough tiles for compute-sanitizer's race checker, which is told to run these.
inline void check_small_shapes(const std::string& spec) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small(spec, 130, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
    c.dtype = DType::kFloat32;
    check_case(c);
  }
}

// Exact float32 has kernels up to 128 channels.
inline void check_types(const std::string& spec, std::initializer_list<std::int64_t> dims) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
    for (const std::int64_t dim : dims) {
      Case c = small(spec, 201, dim);
      c.dtype = dtype;
      check_case(c, std::int64_t{512} << 20, dim > 128 ? 2 : 3);
    }
  }
}

// Of 16 bits and of 32.
inline void check_both_sizes(Case c) {
  for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
    c.dtype = dtype;
    check_case(c);
  }
}

inline void check_odd_shapes(const std::string& spec) {
  for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                      {65, 65},
                                      {5, 300},
                                      {300, 5},
                                      {129, 70},
                                      {1, 200},
                                      {70, 200},
                                      {300, 200}}) {
    Case c = small(spec, queries);
    c.keys = keys;
    check_case(c);
  }
  Case c = small(spec, 201);
  c.heads = 6;
  c.kv_heads = 2;
  c.order = cases::Order::kTokensFirst;
  check_case(c);
}

inline void check_long_rows(const std::string& spec) {
  for (const std::int64_t dim : {64, 128}) {
    Case c = small(spec, 1500, dim);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check_case(c);
  }
}

}  // namespace posenc::cuda::testing

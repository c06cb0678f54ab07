// NaN and infinity on the GPU: they reach exactly the rows that see them, forward and backward, and what is
// hidden reaches none, not even by a product with a weight of 0.
#include <algorithm>
#include <functional>

#include "kernels/cuda/attention_checks.h"

namespace posenc::cuda {
namespace {

using cases::AttentionData;
using cases::AttentionProblem;
using cases::Case;
using testing::DeviceAttention;
using testing::small;

class CudaNan : public testing::Test {};

// Which keys the rows of a case see, one after the other.
class Visibility {
 public:
  explicit Visibility(const AttentionData& d) : c_(d.c), mask_(d.key_mask) {}

  [[nodiscard]] bool operator()(std::int64_t batch, std::int64_t query, std::int64_t key) const {
    std::int64_t place = query + c_.keys - c_.queries;
    if (!c_.cumulative.empty()) {
      if (sequence_of(query) != sequence_of(key)) return false;
      place = query;
    }
    const std::int64_t left = place - key;
    if (c_.causal && left < 0) return false;
    if (c_.spec.find("stick_breaking") != std::string::npos && left <= 0) return false;
    if (c_.window_left >= 0 && left > c_.window_left) return false;
    if (c_.window_right >= 0 && -left > c_.window_right) return false;
    return !c_.padding || mask_[static_cast<std::size_t>(batch * c_.keys + key)] != 0;
  }
  [[nodiscard]] bool any(std::int64_t batch, std::int64_t query) const {
    for (std::int64_t key = 0; key < c_.keys; ++key) {
      if ((*this)(batch, query, key)) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] std::size_t sequence_of(std::int64_t token) const {
    std::size_t s = 0;
    while (c_.cumulative[s + 1] <= token) ++s;
    return s;
  }
  Case c_;
  std::vector<std::uint8_t> mask_;
};

enum class Where { kQuery, kKey, kValue, kGate, kGradient };
constexpr const char* kNames[] = {"q", "k", "v", "gate_k", "grad_out"};

struct Poison {
  Where where;
  std::int64_t token;
  double value;
};

// The first head of the last batch entry; one channel is enough.
void put(AttentionData& d, const Poison& poison) {
  cases::Tensor* const tensors[] = {&d.q, &d.k, &d.v, d.inputs.empty() ? nullptr : &d.inputs[0],
                                    &d.grad_out};
  cases::Tensor& tensor = *tensors[static_cast<int>(poison.where)];
  const bool of_queries = poison.where == Where::kQuery || poison.where == Where::kGradient;
  const std::int64_t heads = of_queries ? d.c.heads : d.c.kv_heads;
  const std::int64_t tokens = of_queries ? d.c.queries : d.c.keys;
  std::vector<double> values = tensor.values();
  const std::int64_t row = (d.c.batch - 1) * heads * tokens + poison.token;
  values[static_cast<std::size_t>(row * d.c.head_dim + 3)] = poison.value;
  tensor.assign(values);
}

struct Patterns {
  std::vector<bool> out, lse, dq, dk, dv;  // by rows
};

// What the rule asks for. A row is lost to the backward if its weights, its output or its gradient is.
Patterns predicted(const AttentionData& d, const Poison& poison) {
  const Visibility sees(d);
  const Case& c = d.c;
  const std::int64_t group = c.heads / c.kv_heads;
  const std::int64_t batch = c.batch - 1;
  Patterns p;
  p.out.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), false);
  p.lse = p.dq = p.out;
  p.dk.assign(static_cast<std::size_t>(c.batch * c.kv_heads * c.keys), false);
  p.dv = p.dk;
  const bool of_queries = poison.where == Where::kQuery || poison.where == Where::kGradient;
  const bool gates = c.spec.find("gate_source=value") != std::string::npos;
  const bool weights = poison.where == Where::kValue ? gates : poison.where != Where::kGradient;
  for (std::int64_t h = 0; h < (of_queries ? 1 : group); ++h) {
    for (std::int64_t i = 0; i < c.queries; ++i) {
      const bool lost =
          of_queries ? i == poison.token && sees.any(batch, i) : sees(batch, i, poison.token);
      if (!lost) continue;
      const auto row = static_cast<std::size_t>((batch * c.heads + h) * c.queries + i);
      p.lse[row] = weights;
      p.out[row] = poison.where != Where::kGradient;
      p.dq[row] = true;
      for (std::int64_t j = 0; j < c.keys; ++j) {
        if (!sees(batch, i, j)) continue;
        const auto key = static_cast<std::size_t>(batch * c.kv_heads * c.keys + j);
        p.dk[key] = true;
        if (weights || poison.where == Where::kGradient) p.dv[key] = true;
      }
    }
  }
  return p;
}

// What a run leaves, on the host.
struct Outcome {
  std::vector<double> out, lse, dq, dk, dv;
  std::vector<Parameters> dparameters;
};

Outcome outcome_of(AttentionProblem& problem, std::int64_t chunk_bytes, int float_parts) {
  DeviceAttention device(problem);
  run_both(device, chunk_bytes, float_parts);
  const AttentionData& d = problem.data;
  return {d.out.values(), {d.row_sums.begin(), d.row_sums.end()},
          d.dq.values(),  d.dk.values(),
          d.dv.values(),  d.dparameters};
}

// Rows are NaN as predicted; the others are those of a run without poison, within `most` of the largest
// number of the row and the tensor's mean.
void expect_rows(const char* name, const std::vector<bool>& pattern, const std::vector<double>& got,
                 const std::vector<double>& clean, double most) {
  const std::size_t width = got.size() / pattern.size();
  const double typical = testing::norm(clean) / std::sqrt(static_cast<double>(clean.size()));
  std::size_t wrong = 0;
  std::size_t first = 0;
  double worst = 0.0;
  for (std::size_t row = 0; row < pattern.size(); ++row) {
    bool lost = false;
    double apart = 0.0;
    double largest = typical;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      lost |= std::isnan(got[i]);
      if (std::isfinite(clean[i])) largest = std::max(largest, std::abs(clean[i]));
      if (got[i] != clean[i]) apart = std::max(apart, std::abs(got[i] - clean[i]));
    }
    if (lost != pattern[row] && wrong++ == 0) first = row;
    if (!lost) worst = std::max(worst, apart / largest);
  }
  EXPECT_EQ(wrong, 0u) << name << ": rows with the wrong NaN, first " << first << " of "
                       << pattern.size() << ", which should "
                       << (pattern[first] ? "be NaN" : "not be NaN");
  EXPECT_LE(worst, most) << name << ": rows that are not NaN";
}

bool any_nan(const std::vector<Parameters>& parameters) {
  for (const Parameters& list : parameters) {
    for (const std::vector<double>& values : list) {
      if (std::any_of(values.begin(), values.end(), [](double x) { return !std::isfinite(x); })) {
        return true;
      }
    }
  }
  return false;
}

struct Settings {
  std::int64_t chunk_bytes = std::int64_t{512} << 20;
  int float_parts = 3;
};

void check(const Case& c, const std::vector<Poison>& poisons, const Settings& with = {}) {
  AttentionProblem untouched(c);
  const Outcome clean = outcome_of(untouched, with.chunk_bytes, with.float_parts);
  const double most = c.dtype == DType::kFloat32 ? 5e-3 : 5e-2;
  for (const Poison& poison : poisons) {
    SCOPED_TRACE(cases::name_of(c) + ", " + std::to_string(poison.value) + " in " +
                 kNames[static_cast<int>(poison.where)] + " " + std::to_string(poison.token));
    AttentionProblem problem(c);
    put(problem.data, poison);
    const Patterns want = predicted(problem.data, poison);
    const Outcome got = outcome_of(problem, with.chunk_bytes, with.float_parts);
    expect_rows("out", want.out, got.out, clean.out, most);
    expect_rows("lse", want.lse, got.lse, clean.lse, most);
    expect_rows("dq", want.dq, got.dq, clean.dq, most);
    expect_rows("dk", want.dk, got.dk, clean.dk, most);
    if (c.spec.find("gate_source=value") == std::string::npos) {
      expect_rows("dv", want.dv, got.dv, clean.dv, most);
    }
    const bool lost = std::find(want.dq.begin(), want.dq.end(), true) != want.dq.end();
    const bool has_parameters = !untouched.data.parameters.empty() &&
                                std::any_of(got.dparameters.begin(), got.dparameters.end(),
                                            [](const Parameters& list) { return !list.empty(); });
    EXPECT_EQ(any_nan(got.dparameters), lost && has_parameters);
  }
}

// At token 70 of 150: a key that is visible to some rows of its tile, and hidden from others.
std::vector<Poison> everywhere(std::int64_t token) {
  return {{Where::kQuery, token, NAN},
          {Where::kKey, token, NAN},
          {Where::kValue, token, NAN},
          {Where::kGradient, token, NAN}};
}

constexpr const char* kTuned[] = {"none",
                                  "t5",
                                  "alibi(trainable=true)",
                                  "cope(npos_max=8)",
                                  "cope(npos_max=256)",
                                  "cope(npos_max=8, variant=alibi)",
                                  "stick_breaking",
                                  "kerple + cope(npos_max=16, gates_see_bias=true)"};
constexpr const char* kGeneral[] = {
    "fire(width=16, init_threshold=20)",        "relative + cope(npos_max=300)",
    "cope(npos_max=300, gate_source=separate)", "cope(npos_max=300, gate_source=value)",
    "alibi(trainable=true) + stick_breaking",   "relative_query(extent=20, beyond=clip)"};

// Small enough for the race checker.
TEST_F(CudaNan, SmallShapesKeepTheRule) {
  for (const char* spec : {"none", "t5", "cope(npos_max=8)"}) {
    Case c = small(spec, 130);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    check(c, everywhere(100));
  }
}

TEST_F(CudaNan, EveryChainKeepsTheRule) {
  for (const char* spec : kTuned) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
      Case c = small(spec, 150);
      c.dtype = dtype;
      check(c, everywhere(70));
      check(c, {{Where::kValue, 149, NAN}, {Where::kKey, 149, NAN}});
    }
  }
  for (const char* spec : kGeneral) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small(spec, 150);
      c.dtype = dtype;
      check(c, everywhere(70));
      if (c.spec.find("separate") != std::string::npos) check(c, {{Where::kGate, 70, NAN}});
    }
  }
}

TEST_F(CudaNan, EveryHeadDimensionKeepsTheRule) {
  for (const char* spec : {"none", "t5", "cope(npos_max=16)", "t5 + cope(npos_max=16)"}) {
    for (const std::int64_t dim : {40, 128, 200, 256})
      check(small(spec, 300, dim), everywhere(150));
  }
  Case c = small("none", 200, 128);
  c.dtype = DType::kFloat32;
  check(c, everywhere(100));
  check(c, everywhere(100), {.float_parts = 2});
  c.head_dim = 256;
  check(c, everywhere(100), {.float_parts = 2});
}

TEST_F(CudaNan, EveryMaskKeepsTheRule) {
  for (const char* spec : {"none", "alibi(trainable=true)", "cope(npos_max=16)",
                           "fire(width=16, init_threshold=20)"}) {
    Case c = small(spec, 150);
    c.causal = false;
    check(c, everywhere(70));
    c.window_left = 40;
    c.window_right = 10;
    check(c, everywhere(70));
    c = small(spec, 300);
    c.window_left = 70;
    check(c, everywhere(130));
    c = small(spec, 150);
    c.cumulative = {0, 60, 63, 150};
    check(c, everywhere(61));
    check(c, everywhere(140));
    c = small(spec, 150);
    c.queries = 70;
    check(c, {{Where::kValue, 120, NAN}, {Where::kKey, 120, NAN}, {Where::kQuery, 30, NAN}});
    c.queries = 150;
    c.keys = 70;  // the first 80 rows see no key
    check(c, {{Where::kQuery, 20, NAN}, {Where::kGradient, 20, NAN}, {Where::kValue, 30, NAN}});
    c = small(spec, 150);
    c.dropout = 0.25;
    check(c, {{Where::kKey, 140, NAN}, {Where::kQuery, 70, NAN}});
  }
}

// Tokens that a padding mask hides from every row, and tokens that it does not.
TEST_F(CudaNan, PaddingHoldsAnything) {
  for (const char* spec : {"none", "t5", "cope(npos_max=16)", "t5 + cope(npos_max=16)",
                           "fire(width=16, init_threshold=20)"}) {
    for (const std::int64_t dim : {64, 256}) {
      Case c = small(spec, 150, dim);
      c.padding = true;
      const AttentionData data(c);
      std::int64_t hidden = 20;
      while (data.key_mask[static_cast<std::size_t>(c.keys + hidden)] != 0) ++hidden;
      std::int64_t real = 20;
      while (data.key_mask[static_cast<std::size_t>(c.keys + real)] == 0) ++real;
      check(c, {{Where::kKey, hidden, NAN},
                {Where::kValue, hidden, NAN},
                {Where::kValue, hidden, HUGE_VAL},
                {Where::kKey, hidden, -HUGE_VAL},
                {Where::kKey, real, NAN},
                {Where::kValue, real, NAN}});
    }
  }
}

// Scores of both infinities.
TEST_F(CudaNan, AnInfiniteQueryLosesItsRow) {
  for (const char* spec : {"none", "t5", "cope(npos_max=8)"}) {
    check(small(spec, 150), {{Where::kQuery, 70, -HUGE_VAL}});
  }
}

TEST_F(CudaNan, ChunksOfQueriesKeepTheRule) {
  check(small("cope(npos_max=32)", 900), everywhere(450), {.chunk_bytes = 1});
  check(small("t5 + cope(npos_max=32)", 900, 128), everywhere(450), {.chunk_bytes = 1});
}

// Every visible score is -infinity: there are keys, so the row is NaN and not 0.
TEST_F(CudaNan, ScoresThatAllOverflowAreNan) {
  for (const bool padding : {false, true}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small("none", 100);
      c.dtype = dtype;
      c.padding = padding;
      AttentionProblem problem(c);
      problem.data.q.fill(3e19);
      problem.data.k.fill(-3e19);
      const Outcome got = outcome_of(problem, std::int64_t{512} << 20, 3);
      const Visibility sees(problem.data);
      for (std::int64_t i = 0; i < c.queries; ++i) {
        const double first = got.out[static_cast<std::size_t>(i * c.head_dim)];
        if (sees.any(0, i)) {
          EXPECT_TRUE(std::isnan(first)) << "row " << i;
        } else {
          EXPECT_EQ(first, 0.0) << "row " << i;
        }
      }
    }
  }
}

// The entries of a table at distances that the mask hides.
TEST_F(CudaNan, BiasesOfHiddenKeysReachNoRow) {
  for (const char* spec : {"t5", "t5 + cope(npos_max=16, gates_see_bias=true)"}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat32}) {
      Case c = small(spec, 150);
      c.dtype = dtype;
      AttentionProblem problem(c);
      const Outcome clean = outcome_of(problem, std::int64_t{512} << 20, 3);
      DeviceAttention device(problem);
      const auto span = static_cast<std::size_t>(c.queries + c.keys - 1);
      std::vector<float> table = testing::toeplitz_table(problem.data);
      for (std::size_t i = 0; i < table.size(); ++i) {
        if (i % span < static_cast<std::size_t>(c.queries - 1)) table[i] = NAN;  // of later keys
      }
      const testing::Bytes poisoned(table);
      device.params.forward.toeplitz.table = poisoned.as<float>();
      device.forward();
      device.backward();
      device.bring_back();
      const AttentionData& d = problem.data;
      SCOPED_TRACE(cases::name_of(c));
      const std::vector<bool> rows(static_cast<std::size_t>(c.batch * c.heads * c.queries), false);
      const std::vector<bool> keys(static_cast<std::size_t>(c.batch * c.kv_heads * c.keys), false);
      expect_rows("out", rows, d.out.values(), clean.out, 1e-6);
      expect_rows("dq", rows, d.dq.values(), clean.dq, 1e-6);
      expect_rows("dk", keys, d.dk.values(), clean.dk, 1e-6);
      expect_rows("dv", keys, d.dv.values(), clean.dv, 1e-6);
      EXPECT_FALSE(any_nan(d.dparameters));
    }
  }
}

}  // namespace
}  // namespace posenc::cuda

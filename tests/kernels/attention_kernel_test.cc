// The fused attention against the float64 reference: every chain of modifiers, masks, shapes, types.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "posenc/core/threads.h"
#include "posenc/kernels/attention.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"
#include "support/simd_targets.h"
#include "support/tensor.h"

namespace posenc {
namespace {

using testing::Order;
using testing::Tensor;

struct Case {
  std::string spec = "none";
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 2;
  std::int64_t queries = 70;
  std::int64_t keys = 70;
  std::int64_t head_dim = 16;
  bool causal = true;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  bool padding = false;
  std::vector<std::int64_t> cumulative = {};
  double dropout = 0.0;
  Order order = Order::kDense;
  double gate_shift = 0.0;  // added to keys and queries, so that gates open or close
  DType dtype = DType::kFloat32;
};

std::string name_of(const Case& c) {
  return c.spec + " B" + std::to_string(c.batch) + " H" + std::to_string(c.heads) + "/" +
         std::to_string(c.kv_heads) + " T" + std::to_string(c.queries) + "x" +
         std::to_string(c.keys) + " D" + std::to_string(c.head_dim) + (c.causal ? " causal" : "") +
         " " + dtype_name(c.dtype);
}

const std::vector<std::string>& all_specs() {
  static const std::vector<std::string> specs = {
      "none",
      "rope",
      "rope(layout=interleaved, rotary_dim=8)",
      "rope(schedule=learnable)",
      "xpos",
      "alibi(trainable=true)",
      "t5",
      "kerple",
      "kerple(kernel=power)",
      "relative(max_distance=20, init_std=1)",
      "cope(npos_max=8)",
      "cope(npos_max=64)",
      "cope(npos_max=8, gate_source=separate)",
      "cope(npos_max=8, gate_source=value, logit_scale=sqrt_dim)",
      "cope(npos_max=8, variant=alibi)",
      "rope + alibi(trainable=true)",
      "rope + cope(npos_max=16)",
      "alibi(trainable=true) + cope(npos_max=16)",
      "alibi(trainable=true) + cope(npos_max=16, gates_see_bias=true)",
      "rope + t5 + kerple + cope(npos_max=16)",
      "rope + xpos + alibi",
      "fire(init_threshold=20)",
      "fire(init_threshold=500)",
      "rope + alibi + fire(init_threshold=20) + cope(npos_max=16, gates_see_bias=true)",
      "cope(npos_max=8) + cope(npos_max=4)",
  };
  return specs;
}

// Owns tensors, parameters and masks, runs both implementations and compares.
class Fixture {
 public:
  explicit Fixture(const Case& config)
      : c(config),
        spec(parse_spec(c.spec)),
        shape{.head_dim = c.head_dim, .heads = c.heads},
        plan(spec, shape, c.kv_heads, {c.keys}),
        q({c.batch, c.heads, c.queries, c.head_dim}, c.dtype, c.order),
        k({c.batch, c.kv_heads, c.keys, c.head_dim}, c.dtype, c.order),
        v(k),
        gate_k(k),
        out(q),
        grad_out(q) {
    Rng rng(11);
    inputs_q = q.fill_random(rng);
    inputs_k = k.fill_random(rng, 1.0, c.gate_shift);
    inputs_v = v.fill_random(rng);
    inputs_g = gate_k.fill_random(rng);
    inputs_do = grad_out.fill_random(rng);
    out.fill(NAN);
    for (const Encoding& e : spec.encodings) {
      Parameters values = initial_parameters(posenc::parameters(e, shape), rng);
      for (auto& list : values) {
        for (double& x : list) x = static_cast<float>(x + 0.1 * rng.normal());
      }
      parameters.push_back(values);
    }
    lse.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), NAN);
    key_mask.assign(static_cast<std::size_t>(c.batch * c.keys), 1);
    if (c.padding) {
      for (std::uint8_t& m : key_mask) m = rng.uniform() < 0.3 ? 0 : 1;
    }
  }

  [[nodiscard]] bool uses_gate_keys() const { return c.spec.find("separate") != std::string::npos; }

  AttentionCall call() {
    AttentionCall result;
    result.plan = &plan;
    result.parameters = &parameters;
    result.q = q.view();
    result.k = k.view();
    result.v = v.view();
    if (uses_gate_keys()) result.gate_k = gate_k.view();
    result.out = out.view();
    result.lse = lse;
    result.mask.causal = c.causal;
    result.mask.window_left = c.window_left;
    result.mask.window_right = c.window_right;
    if (c.padding) result.mask.key_mask = key_mask.data();
    result.mask.cu_queries = c.cumulative;
    result.dropout = {c.dropout, 77};
    return result;
  }

  ref::AttentionShape ref_shape() const {
    return {c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.head_dim};
  }
  ref::AttentionInputs ref_inputs() const {
    ref::AttentionInputs in{inputs_q, inputs_k, inputs_v, {}};
    if (uses_gate_keys()) in.gate_k = inputs_g;
    return in;
  }
  ref::AttentionOptions ref_options() const {
    ref::AttentionOptions options;
    options.masking = {c.causal, c.window_left, c.window_right, {}, c.cumulative, {}};
    if (c.padding) options.masking.key_mask = key_mask;
    options.lengths = {c.keys};
    options.dropout = {c.dropout, 77};
    return options;
  }

  Case c;
  Spec spec;
  ModelShape shape;
  AttentionPlan plan;
  Tensor q, k, v, gate_k, out, grad_out;
  std::vector<double> inputs_q, inputs_k, inputs_v, inputs_g, inputs_do;
  std::vector<Parameters> parameters;
  std::vector<float> lse;
  std::vector<std::uint8_t> key_mask;
};

// |got - want| against the size of the whole result: float32 sums cancel.
void expect_close(const std::vector<double>& got, const std::vector<double>& want, double relative,
                  const std::string& what, double least = 1e-2) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = least;  // where everything cancels, what is left is rounding
  for (const double x : want) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i])) {
      ASSERT_EQ(got[i], want[i]) << what << " at " << i;
      continue;
    }
    ASSERT_NEAR(got[i], want[i], relative * largest) << what << " at " << i;
  }
}

double tolerance(DType dtype) {
  if (dtype == DType::kFloat32) return 1e-5;
  return dtype == DType::kBfloat16 ? 0x1.2p-8 : 0x1.2p-11;
}

void run_forward(const Case& c) {
  SCOPED_TRACE(name_of(c));
  Fixture f(c);
  const Status status = attention(f.call());
  ASSERT_TRUE(status.ok()) << status.message();
  const auto want =
      ref::attention(f.spec, f.parameters, f.ref_shape(), f.ref_inputs(), f.ref_options());
  expect_close(f.out.values(), want.out, tolerance(c.dtype), "out");
  expect_close(std::vector<double>(f.lse.begin(), f.lse.end()), want.lse, 1e-5, "lse");
}

// CoPE's gradient jumps where a position is a whole number. Where float32 and float64 may fall on
// different sides of one, only a loose comparison is fair; such cases are counted.
bool near_a_kink(const Fixture& f) {
  ref::AttentionOptions options = f.ref_options();
  options.keep_cope_positions = true;
  const auto result = ref::attention(f.spec, f.parameters, f.ref_shape(), f.ref_inputs(), options);
  for (const auto& positions : result.cope_positions) {
    for (const double p : positions) {
      const double away = std::abs(p - std::nearbyint(p));
      if (p > 0.5 && away > 0.0 && away < 4e-7 * p + 2e-7) return true;
    }
  }
  return false;
}

int loose_cases = 0;

void run_backward(const Case& c) {
  SCOPED_TRACE(name_of(c));
  Fixture f(c);
  const bool loose = near_a_kink(f);
  loose_cases += loose ? 1 : 0;
  ASSERT_TRUE(attention(f.call()).ok());
  Tensor dq = f.q;
  Tensor dk = f.k;
  Tensor dv = f.v;
  Tensor dg = f.gate_k;
  for (Tensor* t : {&dq, &dk, &dv, &dg}) t->fill(NAN);
  std::vector<Parameters> dparameters;
  AttentionBackwardCall call;
  call.forward = f.call();
  call.grad_out = f.grad_out.view();
  call.dq = dq.view();
  call.dk = dk.view();
  call.dv = dv.view();
  if (f.uses_gate_keys()) call.dgate_k = dg.view();
  call.dparameters = &dparameters;
  const Status status = attention_backward(call);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto want = ref::attention_backward(f.spec, f.parameters, f.ref_shape(), f.ref_inputs(),
                                            f.inputs_do, f.ref_options());
  double relative = c.dtype == DType::kFloat32 ? 2e-5 : 3.0 * tolerance(c.dtype);
  if (loose) relative = std::max(relative, 1e-3);
  expect_close(dq.values(), want.q, relative, "dq");
  expect_close(dk.values(), want.k, relative, "dk");
  expect_close(dv.values(), want.v, relative, "dv");
  if (f.uses_gate_keys()) expect_close(dg.values(), want.gate_k, relative, "dgate_k");
  ASSERT_EQ(dparameters.size(), want.parameters.size());
  for (std::size_t e = 0; e < dparameters.size(); ++e) {
    for (std::size_t p = 0; p < dparameters[e].size(); ++p) {
      // Sums over all rows; with half types the rounding of the saved output reaches every one.
      const double factor = c.dtype == DType::kFloat32 ? 5.0 : 40.0;
      expect_close(dparameters[e][p], want.parameters[e][p], factor * relative,
                   "parameter " + std::to_string(p) + " of " + std::to_string(e), 1.0);
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& spec : all_specs()) {
    all.push_back({.spec = spec});
    all.push_back({.spec = spec, .causal = false});
    all.push_back(
        {.spec = spec, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 33, .keys = 150});
    all.push_back({.spec = spec, .queries = 150, .keys = 150, .window_left = 40});
    all.push_back({.spec = spec, .batch = 2, .padding = true});
    all.push_back({.spec = spec, .queries = 90, .keys = 90, .cumulative = {0, 1, 40, 40, 90}});
    all.push_back({.spec = spec, .dropout = 0.3});
    all.push_back({.spec = spec, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 1, .keys = 700});
    all.push_back({.spec = spec, .queries = 3, .keys = 600, .window_left = 200, .padding = true});
  }
  for (const char* spec : {"none", "rope + alibi", "cope(npos_max=8)", "rope + cope"}) {
    for (const std::int64_t t : {1, 2, 17, 63, 64, 65, 127, 128, 129}) {
      all.push_back({.spec = spec, .queries = t, .keys = t});
    }
    for (const std::int64_t d : {16, 18, 40, 64, 100, 128, 256}) {
      all.push_back({.spec = spec, .queries = 20, .keys = 20, .head_dim = d});
    }
    all.push_back({.spec = spec, .order = Order::kTokensFirst});
    all.push_back({.spec = spec, .head_dim = 18, .order = Order::kPadded});
    all.push_back({.spec = spec, .queries = 5, .keys = 300});
    all.push_back({.spec = spec, .queries = 40, .keys = 10});
    all.push_back({.spec = spec,
                   .queries = 200,
                   .keys = 200,
                   .causal = false,
                   .window_left = 30,
                   .window_right = 17});
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16})
      all.push_back({.spec = spec, .dtype = dtype});
    for (const double shift : {-0.7, 0.7}) {
      all.push_back({.spec = spec, .queries = 400, .keys = 400, .gate_shift = shift});
    }
  }
  return all;
}

TEST(AttentionKernel, ForwardMatchesTheReference) {
  for (const Case& c : cases()) run_forward(c);
}

TEST(AttentionKernel, BackwardMatchesTheReference) {
  loose_cases = 0;
  for (const Case& c : cases()) run_backward(c);
  EXPECT_LT(loose_cases, static_cast<int>(cases().size()) / 4);
}

TEST(AttentionKernel, EveryTargetMatchesTheReference) {
  testing::for_each_simd_target([] {
    for (const char* spec :
         {"none", "rope + alibi", "cope(npos_max=8)", "t5 + cope(gate_source=separate)"}) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
        run_forward({.spec = spec, .head_dim = 20, .dtype = dtype});
        run_backward({.spec = spec, .head_dim = 20, .dtype = dtype});
      }
    }
  });
}

TEST(AttentionKernel, SameBitsForAnyThreadCount) {
  const Case c{.spec = "rope + alibi(trainable=true) + cope(npos_max=8)",
               .batch = 2,
               .heads = 4,
               .kv_heads = 2,
               .queries = 200,
               .keys = 200};
  std::vector<std::vector<double>> outs;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    Fixture f(c);
    ASSERT_TRUE(attention(f.call()).ok());
    Tensor dq = f.q;
    Tensor dk = f.k;
    Tensor dv = f.v;
    std::vector<Parameters> dparameters;
    AttentionBackwardCall call;
    call.forward = f.call();
    call.grad_out = f.grad_out.view();
    call.dq = dq.view();
    call.dk = dk.view();
    call.dv = dv.view();
    call.dparameters = &dparameters;
    ASSERT_TRUE(attention_backward(call).ok());
    std::vector<double> all = f.out.values();
    for (const Tensor* t : {&dq, &dk, &dv}) {
      const auto values = t->values();
      all.insert(all.end(), values.begin(), values.end());
    }
    for (const Parameters& p : dparameters) {
      for (const auto& values : p) all.insert(all.end(), values.begin(), values.end());
    }
    outs.push_back(all);
  }
  set_num_threads(0);
  EXPECT_EQ(outs[0], outs[1]);
  EXPECT_EQ(outs[0], outs[2]);
}

// A cache of keys that were turned when they were written, in every type, equals turning them anew.
TEST(AttentionKernel, DecodingReadsACacheOfTurnedKeys) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    for (const char* spec :
         {"rope", "rope(layout=interleaved) + alibi", "xpos", "rope + cope(npos_max=8)"}) {
      const Case c{
          .spec = spec, .heads = 4, .kv_heads = 2, .queries = 2, .keys = 600, .dtype = dtype};
      Fixture f(c);
      ASSERT_TRUE(attention(f.call()).ok());
      const std::vector<double> anew = f.out.values();
      const Encoding& encoding = f.spec.encodings[0];
      const Rotary rotary = std::holds_alternative<Rope>(encoding)
                                ? make_rotary(std::get<Rope>(encoding), f.shape, {c.keys})
                                : make_rotary(std::get<Xpos>(encoding), f.shape, {c.keys});
      const RotaryCache tables(rotary, {});
      RopeCall turn;  // keys alone: xPos scales them the other way round than queries
      Tensor ignored({1, 2, 600, 16}, dtype);
      turn.q = ignored.view();
      turn.q_out = ignored.view();
      turn.k = f.k.view();
      turn.k_out = f.k.view();
      turn.tables = &tables;
      ASSERT_TRUE(rope(turn).ok());
      AttentionCall call = f.call();
      call.keys_are_turned = true;
      ASSERT_TRUE(attention(call).ok());
      expect_close(f.out.values(), anew, 4.0 * tolerance(dtype), spec);
    }
  }
}

// The reference would turn such keys a second time; that is refused, not computed.
TEST(AttentionKernel, TurnedKeysAreNotTurnedAgainByTheReference) {
  Fixture f(Case{.spec = "rope + cope(npos_max=8) + cope(npos_max=4)"});
  AttentionCall call = f.call();
  call.keys_are_turned = true;
  const Status status = attention(call);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(std::string(status.message()).find("more than one cope"), std::string::npos);
  for (const double x : f.out.values()) ASSERT_TRUE(std::isnan(x)) << "nothing is written";
}

TEST(AttentionKernel, ExplainSaysWhichPathRuns) {
  const auto path = [](const char* spec) {
    Fixture f(Case{.spec = spec});
    return explain(f.call());
  };
  EXPECT_EQ(path("none"), "fused");
  EXPECT_EQ(path("rope + alibi + t5 + cope"),
            "fused, rope while reading rows, toeplitz table (alibi + t5), cope");
  EXPECT_EQ(path("rope + fire"), "fused, rope while reading rows, fire");
  EXPECT_EQ(path("cope + cope"), "reference (float64): more than one cope");
}

}  // namespace
}  // namespace posenc

// RoPE on the GPU against the float64 reference, over the case table that the CPU kernels pass.
#include "kernels/cuda/rope.h"

#include "cases/compare.h"
#include "cases/rope_problem.h"
#include "cases/table.h"
#include "kernels/cuda/device.h"

namespace posenc::cuda {
namespace {

using cases::RopeProblem;
using testing::Bytes;
using testing::Mirror;

class CudaRope : public testing::Test {};

// Tables for every position that a case may use, on the device.
struct Tables {
  explicit Tables(const Rotary& rotary, std::int64_t first = -16, std::int64_t rows = 4200)
      : constants(rotary_constants(rotary)) {
    for (const Role role : {Role::kQuery, Role::kKey}) {
      filled.emplace_back(static_cast<std::size_t>(rows * rotary_row_floats(rotary)) *
                          sizeof(float));
      fill_rotary_table(
          {&rotary, role, constants.as<double>(), first, rows, filled.back().as<float>()}, nullptr)
          .throw_if_error();
    }
    const bool apart = !rotary.log_zeta.empty();
    view = {filled[0].as<float>(), filled[apart ? 1 : 0].as<float>(), first, rows};
  }
  Bytes constants;
  std::vector<Bytes> filled;
  RotaryTables view;
};

// The positions of a case with their arrays on the device.
struct DeviceIds {
  explicit DeviceIds(const RopeProblem& p)
      : ids(p.ids), narrow(p.narrow), form(p.form), view(p.positions()) {
    if (view.ids != nullptr) view.ids = view.ids_are_64_bit ? ids.data() : narrow.data();
    if (!view.offsets.empty()) view.offsets = {form.as<std::int64_t>(), view.offsets.size()};
    if (!view.cumulative.empty()) {
      view.cumulative = {form.as<std::int64_t>(), view.cumulative.size()};
    }
  }
  Bytes ids;
  Bytes narrow;
  Bytes form;
  PositionsView view;
};

void run(RopeProblem& p, const Tables& tables, const PositionsView& positions, bool backward) {
  Mirror q(backward ? p.grad_q : p.q);
  Mirror k(backward ? p.grad_k : p.k);
  Mirror q_out(backward ? p.dq : p.c.in_place ? p.q : p.q_out);
  Mirror k_out(backward ? p.dk : p.c.in_place ? p.k : p.k_out);
  RopeCall call;
  call.q = q.view();
  call.k = k.view();
  call.q_out = p.c.in_place ? q.view() : q_out.view();
  call.k_out = p.c.in_place ? k.view() : k_out.view();
  call.rotary = &p.tables.rotary();
  call.tables = tables.view;
  call.positions = positions;
  call.transposed = backward;
  rope(call, nullptr).throw_if_error();
  testing::check(cudaDeviceSynchronize());
  (p.c.in_place ? q : q_out).bring_back();
  (p.c.in_place ? k : k_out).bring_back();
}

void run_gradient(RopeProblem& p, const Tables& tables, const PositionsView& positions) {
  const Mirror q(p.q);
  const Mirror k(p.k);
  const Mirror dq(p.grad_q);
  const Mirror dk(p.grad_k);
  RopeFrequencyGradientCall call;
  call.q = q.view();
  call.k = k.view();
  call.dq_out = dq.view();
  call.dk_out = dk.view();
  call.rotary = &p.tables.rotary();
  call.tables = tables.view;
  call.positions = positions;
  const Bytes workspace(frequency_gradient_bytes(call));
  const Bytes out(static_cast<std::size_t>(rotary_row_floats(*call.rotary) / 2) * sizeof(double));
  call.workspace = workspace.data();
  call.dinv_freq = out.as<double>();
  std::vector<double> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    rope_frequency_gradient(call, nullptr).throw_if_error();
    p.dinv_freq = out.values<double>();
    if (repeat == 0) first = p.dinv_freq;
  }
  EXPECT_EQ(first, p.dinv_freq) << "two runs give the same bits";
}

TEST_F(CudaRope, AgreesWithTheReferenceOnEveryCase) {
  for (const cases::Case& c : cases::checked_cases(cases::Operation::kRope)) {
    RopeProblem p(c);
    const bool backward = !c.in_place;
    const auto want = p.expected(backward);
    const Tables tables(p.tables.rotary());
    const DeviceIds ids(p);
    run(p, tables, ids.view, false);
    if (backward) run(p, tables, ids.view, true);
    if (backward && !p.alpha.empty()) run_gradient(p, tables, ids.view);
    const cases::Comparison found = cases::compare(c.dtype, p.results(backward), want);
    EXPECT_TRUE(found.fine()) << cases::name_of(c) << ": " << found.mismatch;
  }
}

void check_spec(const char* spec, DType dtype, cases::Order order, std::int64_t tokens,
                std::int64_t kv_heads) {
  RopeProblem p({.op = cases::Operation::kRope,
                 .spec = spec,
                 .batch = 2,
                 .heads = 6,
                 .kv_heads = kv_heads,
                 .queries = tokens,
                 .head_dim = 128,
                 .dtype = dtype,
                 .order = order});
  const auto want = p.expected(false);
  const Tables tables(p.tables.rotary());
  run(p, tables, {}, false);
  const cases::Comparison found = cases::compare(dtype, p.results(false), want);
  EXPECT_TRUE(found.fine()) << spec << " " << dtype_name(dtype) << ": " << found.mismatch;
}

// Few enough blocks for compute-sanitizer's race checker, which is told to run these.
TEST_F(CudaRope, SmallShapesAgreeWithTheReference) {
  for (const char* spec :
       {"rope", "rope(layout=interleaved)", "rope(rotary_dim=32, dim_offset=16)", "xpos"}) {
    for (const std::int64_t kv_heads : {1, 6}) {
      check_spec(spec, DType::kBfloat16, cases::Order::kDense, 37, kv_heads);
    }
  }
}

// The shapes of models: 16-byte accesses, several launches' worth of blocks, and splits of the heads.
TEST_F(CudaRope, WideAccessesAndSplitsAgreeWithTheReference) {
  for (const char* spec : {"rope", "rope(layout=interleaved)", "rope(rotary_dim=32, dim_offset=16)",
                           "xpos", "rope(theta=[10000, 500000])"}) {
    for (const DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
      for (const cases::Order order : {cases::Order::kDense, cases::Order::kTokensFirst}) {
        check_spec(spec, dtype, order, 300, 2);
      }
    }
  }
}

TEST_F(CudaRope, PositionsPastTheTableAreReportedAndNotWritten) {
  RopeProblem p({.op = cases::Operation::kRope, .spec = "rope", .queries = 40});
  const Tables tables(p.tables.rotary(), 0, 30);
  const Mirror q(p.q);
  const Mirror q_out(p.q_out);
  const Bytes flag(std::vector<int>{0});
  RopeCall call;
  call.q = q.view();
  call.q_out = q_out.view();
  call.rotary = &p.tables.rotary();
  call.tables = tables.view;
  call.out_of_range = flag.as<int>();
  ASSERT_TRUE(rope(call, nullptr).ok());
  EXPECT_EQ(flag.values<int>()[0], 1);
  q_out.bring_back();
  const std::vector<double> out =
      p.q_out.values();  // [1, 2, 40, 16], NaN where nothing was written
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(std::isnan(out[i]), i / 16 % 40 >= 30) << i;
  }
}

TEST_F(CudaRope, MistakesNameTheArgument) {
  RopeProblem p({.op = cases::Operation::kRope, .spec = "rope"});
  const Tables tables(p.tables.rotary());
  const auto message = [&](auto change) {
    RopeCall call;
    call.q = call.q_out = p.q.view();  // never read: the checks come first
    call.rotary = &p.tables.rotary();
    call.tables = tables.view;
    change(call);
    const Status status = rope(call, nullptr);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_NE(message([](RopeCall& c) { c.rotary = nullptr; }).find("rotary must not be null"),
            std::string::npos);
  EXPECT_NE(message([](RopeCall& c) { c.q.shape[3] = 8; }).find("channels"), std::string::npos);
  EXPECT_NE(message([](RopeCall& c) { c.tables.key = nullptr; }).find("tables"), std::string::npos);
  EXPECT_NE(message([](RopeCall& c) { c.q_out.stride[1] = 0; }).find("twice"), std::string::npos);
}

TEST_F(CudaRope, EmptyTensorsAreFine) {
  const Rotary rotary = make_rotary(Rope{}, {.head_dim = 16, .heads = 4}, {});
  for (const std::array<std::int64_t, 4>& shape :
       {std::array<std::int64_t, 4>{0, 4, 6, 16}, std::array<std::int64_t, 4>{2, 4, 0, 16}}) {
    RopeCall call;
    call.q.shape = call.q_out.shape = shape;
    call.rotary = &rotary;
    EXPECT_TRUE(rope(call, nullptr).ok());
  }
}

}  // namespace
}  // namespace posenc::cuda

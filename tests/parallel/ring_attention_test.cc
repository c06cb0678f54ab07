// Attention over ranks equals attention in one process: real processes over Gloo. The tests start this program again, once
// per rank; what a rank checks is in the tests of RingRank, which do not run by themselves.
#include "parallel/ring_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "kernels/terms.h"
#include "parallel/group.h"
#include "parallel/launch.h"
#include "parallel/procs.h"
#include "torch/arguments.h"

namespace posenc::parallel {
namespace {

constexpr double kTimeout = 120.0;

ProcsEnding run_program(int count, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const char* shard : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"}) ::unsetenv(shard);
  const Procs procs{.count = count,
                    .words = {program, "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                              "--gtest_filter=RingRank.DISABLED_" + test},
                    .timeout_s = kTimeout};
  const StopRequest stop;
  return run_procs(procs, stop);
}

void run_ranks(int count, const std::string& test) {
  const ProcsEnding ending = run_program(count, test);
  EXPECT_EQ(ending.code, 0) << ending.message;
}

class RingAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backends().find("gloo") == std::string::npos) GTEST_SKIP() << "this build has no Gloo";
  }
};

TEST_F(RingAttention, OfTwoRanksEqualsOneProcess) { run_ranks(2, "EqualsOneProcess"); }
TEST_F(RingAttention, OfFourRanksEqualsOneProcess) { run_ranks(4, "EqualsOneProcess"); }
TEST_F(RingAttention, OfOneRankEqualsOneProcess) { run_ranks(1, "EqualsOneProcess"); }
TEST_F(RingAttention, SendsWhatTheFormulaSays) { run_ranks(3, "SendsWhatTheFormulaSays"); }
TEST_F(RingAttention, LeavesSumsOfParametersToTheCaller) { run_ranks(2, "LeavesSums"); }
TEST_F(RingAttention, RefusesWhatItDoesNotServe) { run_ranks(2, "Refuses"); }
TEST_F(RingAttention, EndsWhereARankDies) {
  const ProcsEnding ending = run_program(3, "Dies");
  EXPECT_NE(ending.code, 0);
  EXPECT_EQ(ending.message, "rank 1 failed: exit code 3");
}

// Prints the figures of docs/context_parallel.md; nothing is checked.
TEST_F(RingAttention, DISABLED_MeasureTwoRanks) { run_ranks(2, "Measure"); }
TEST_F(RingAttention, DISABLED_MeasureFourRanks) { run_ranks(4, "Measure"); }

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kDim = 16;

struct RingCase {
  std::string spec;
  bool causal = true;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 2;
  std::int64_t tokens = 133;
  std::int64_t window_left = -1;
  bool padding = false;
  double dropout = 0.0;
  at::ScalarType type = at::kFloat;
  std::int64_t value_dim = kDim;
};

// All tensors of a case, the same on every rank.
struct RingData {
  explicit RingData(const RingCase& of) : c(of) {
    torch::manual_seed(7);
    const auto rows = [&](std::int64_t heads, std::int64_t channels) {
      return at::randn({kBatch, heads, c.tokens, channels});
    };
    q = rows(c.heads, kDim).to(c.type);
    k = rows(c.kv_heads, kDim).to(c.type);
    v = rows(c.kv_heads, c.value_dim).to(c.type);
    grad = rows(c.heads, c.value_dim).to(c.type);
    const auto prepared =
        ops::prepare(c.spec, {.head_dim = kDim, .heads = c.heads}, c.kv_heads, c.tokens);
    for (const SpecInput& input : prepared->plan.terms().inputs) {
      at::Tensor x = rows(input.info.head_count(c.heads, c.kv_heads), input.info.channels);
      const bool gate = input.info.activation == InputInfo::Activation::kLogSigmoid;
      inputs.push_back(
          (gate ? at::log_sigmoid(x) : x).to(input.info.float32 ? at::kFloat : c.type));
    }
    for (const SpecParameter& p : prepared->parameters) {
      const at::Tensor start =
          at::tensor(prepared->start[p.encoding][p.index], at::kDouble).to(at::kFloat);
      parameters.push_back(start + 0.1 * at::randn_like(start).abs());
    }
    if (c.padding) mask = at::rand({kBatch, c.tokens}) > 0.2;
  }
  [[nodiscard]] ops::AttentionOptions options() const {
    ops::AttentionOptions o;
    o.causal = c.causal;
    o.window_left = c.window_left;
    o.key_mask = mask;
    o.dropout = c.dropout;
    o.seed = 5;
    return o;
  }

  RingCase c;
  at::Tensor q, k, v, grad, mask;
  std::vector<at::Tensor> inputs, parameters;
};

// The output and the gradients of q, k, v, the inputs and the parameters.
using Results = std::vector<at::Tensor>;

at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().set_requires_grad(true); }

template <class Attention>
Results results(const Attention& attention, const RingData& d, at::Tensor q, at::Tensor k,
                at::Tensor v, const at::Tensor& grad, std::vector<at::Tensor> inputs,
                at::Tensor mask, at::ScalarType parameter_type) {
  Results leaves = {leaf(q), leaf(k), leaf(v)};
  ops::AttentionOptions options = d.options();
  options.key_mask = mask;
  for (const at::Tensor& x : inputs) {
    leaves.push_back(leaf(x));
    options.inputs.push_back(leaves.back());
  }
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& x : d.parameters) {
    leaves.push_back(leaf(x.to(parameter_type)));
    parameters.push_back(leaves.back());
  }
  const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], d.c.spec, parameters, options);
  (out * grad).sum().backward();
  Results all = {out.detach()};
  for (const at::Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

Results whole(const RingData& d, at::ScalarType type) {
  const auto wide = [&](const at::Tensor& x) { return type == at::kDouble ? x.to(type) : x; };
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& x : d.inputs) inputs.push_back(wide(x));
  const auto attention = [](const auto&... arguments) { return ops::attention(arguments...); };
  return results(attention, d, wide(d.q), wide(d.k), wide(d.v), wide(d.grad), inputs, d.mask,
                 type == at::kDouble ? type : at::kFloat);
}

// Slices that differ by one token at most.
struct Range {
  std::int64_t first;
  std::int64_t count;
};
Range range_of(std::int64_t tokens, int rank, int world) {
  const std::int64_t each = tokens / world;
  const std::int64_t more = tokens % world;
  return {rank * each + std::min<std::int64_t>(rank, more), each + (rank < more ? 1 : 0)};
}

Results ring(Ranks& ranks, const RingData& d, const RingOptions& options) {
  const Range range = range_of(d.c.tokens, ranks.rank(), ranks.world());
  const auto part = [&](const at::Tensor& x) { return x.narrow(2, range.first, range.count); };
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& x : d.inputs) inputs.push_back(part(x));
  const at::Tensor mask =
      d.mask.defined() ? d.mask.narrow(1, range.first, range.count) : at::Tensor();
  const auto attention = [&](const auto&... arguments) {
    return ring_attention(ranks, arguments..., options);
  };
  return results(attention, d, part(d.q), part(d.k), part(d.v), part(d.grad), inputs, mask,
                 at::kFloat);
}

// What of the whole results belongs to a rank: all of the parameters, its tokens of the rest.
at::Tensor share(const Results& all, std::size_t i, const RingData& d, const Range& range) {
  const bool of_parameters = i >= all.size() - d.parameters.size();
  return of_parameters ? all[i] : all[i].narrow(2, range.first, range.count);
}

// The largest difference, in units of the largest value that any rank has; parameters' sums have terms of about 1.
double away(const at::Tensor& got, const at::Tensor& want, const at::Tensor& all, bool parameter) {
  if (got.numel() == 0) return 0.0;
  const double largest = std::max(all.abs().max().item<double>(), parameter ? 1.0 : 0.1);
  return (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>() / largest;
}

std::vector<RingCase> ring_cases() {
  std::vector<RingCase> all;
  for (const char* spec :
       {"none", "alibi(trainable=true)", "t5", "kerple", "fire", "rope", "rope + alibi",
        "xpos(center=20)", "cope(npos_max=10)", "cope(npos_max=300)",
        "cope(npos_max=10, gate_source=separate)", "rope + cope(npos_max=10) + t5",
        "cope(npos_max=10, variant=alibi)", "fox", "fox + rope", "stick_breaking", "sink",
        "softcap(cap=5) + alibi"}) {
    all.push_back({.spec = spec});
    all.push_back({.spec = spec, .causal = false, .heads = 4, .kv_heads = 2, .tokens = 70});
  }
  all.push_back({.spec = "cope(npos_max=10)", .heads = 4, .kv_heads = 1});
  all.push_back({.spec = "fox", .heads = 4, .kv_heads = 1});
  all.push_back({.spec = "fire", .heads = 4, .kv_heads = 2});
  all.push_back({.spec = "rope + alibi", .window_left = 20});
  all.push_back({.spec = "cope(npos_max=10)", .causal = false, .window_left = 30});
  all.push_back({.spec = "cope(npos_max=10)", .padding = true});
  all.push_back({.spec = "fox + alibi", .padding = true, .dropout = 0.2});
  all.push_back({.spec = "rope + cope(npos_max=10)", .type = at::kBFloat16});
  all.push_back({.spec = "rope + fox", .heads = 4, .kv_heads = 2, .value_dim = 24});
  all.push_back({.spec = "rope + cope(npos_max=10)", .value_dim = 9});
  return all;
}

class RingRank : public ::testing::Test {
 protected:
  RingRank() {
    at::set_num_threads(1);
    ranks = std::make_unique<Ranks>(
        read_launch(),
        RanksOptions{.timeout_s = kTimeout, .on_failure = [](const Failure& failure) {
                       std::cerr << "rank " << failure.rank << ": " << failure.text << "\n";
                     }});
  }
  ~RingRank() override {
    if (HasFailure()) (void)ranks->report("a check of the ring has failed", false);
    ranks->leave();
  }
  [[nodiscard]] Range range(const RingCase& c) const {
    return range_of(c.tokens, ranks->rank(), ranks->world());
  }

  std::unique_ptr<Ranks> ranks;
};

TEST_F(RingRank, DISABLED_EqualsOneProcess) {
  double worst = 0.0;
  double worst_parameter = 0.0;
  for (const RingCase& c : ring_cases()) {
    SCOPED_TRACE(c.spec + (c.causal ? " causal" : "") + " of rank " +
                 std::to_string(ranks->rank()));
    const RingData d(c);
    const Results got = ring(*ranks, d, {});
    const Results one = whole(d, c.type);
    const Results exact = whole(d, at::kDouble);
    ASSERT_EQ(got.size(), one.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool parameter = i >= got.size() - d.parameters.size();
      const bool narrow = c.type != at::kFloat;
      const double from_one = away(got[i], share(one, i, d, range(c)), one[i], parameter);
      const double from_exact = away(got[i], share(exact, i, d, range(c)), exact[i], parameter);
      EXPECT_LE(from_one, narrow ? 2e-2 : parameter ? 2e-5 : 3e-6) << "result " << i;
      EXPECT_LE(from_exact, narrow ? 5e-2 : parameter ? 1e-4 : 3e-5) << "result " << i;
      double& largest = parameter ? worst_parameter : worst;
      if (!narrow) largest = std::max(largest, from_one);
    }
  }
  if (ranks->leads()) {
    std::cout << ranks->world() << " ranks: at most " << worst << " from one process, "
              << worst_parameter << " in gradients of parameters\n";
  }
}

// Bytes of keys that a rank sends to one other, and of their gradients, each tensor in whole cache lines.
std::int64_t lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

TEST_F(RingRank, DISABLED_SendsWhatTheFormulaSays) {
  for (const char* spec : {"rope", "fox", "cope(npos_max=10, gate_source=separate)"}) {
    for (const bool causal : {true, false}) {
      const RingCase c{.spec = spec, .causal = causal, .heads = 4, .kv_heads = 2};
      const RingData d(c);
      const auto traffic = std::make_shared<RingTraffic>();
      (void)ring(*ranks, d, {.traffic = traffic});
      const auto packet = [&](int rank) {  // gradients are float32, as the keys are here
        const std::int64_t t = range_of(c.tokens, rank, ranks->world()).count;
        std::int64_t bytes = 2 * lines(kBatch * c.kv_heads * t * kDim * 4);
        for (const at::Tensor& x : d.inputs) bytes += lines(kBatch * x.size(1) * t * x.size(3) * 4);
        const bool sums = d.c.spec == "fox";
        return bytes + (sums ? lines(kBatch * c.heads * t * 8) : 0);
      };
      const int visitors = causal ? ranks->world() - 1 - ranks->rank() : ranks->world() - 1;
      std::int64_t home = 0;
      for (int r = 0; r < ranks->world(); ++r) {
        if (r != ranks->rank() && (!causal || r < ranks->rank())) home += packet(r);
      }
      EXPECT_EQ(traffic->forward, visitors * packet(ranks->rank())) << spec;
      EXPECT_EQ(traffic->backward, visitors * packet(ranks->rank()) + home) << spec;
    }
  }
}

// Seconds of the clock and of this process's cores.
struct Seconds {
  double wall = 0.0;
  double busy = 0.0;
};
template <class Body>
Seconds seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t ticks = std::clock();
  body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC};
}

// Kilobytes of a line of /proc/self/status.
std::int64_t memory_of(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) == 0) return std::stoll(line.substr(name.size()));
  }
  return 0;
}

// Forward and backward of a slice of a causal sequence with 4 heads of 64 channels; with one rank, of all of it.
Seconds step_of(const std::string& spec, Ranks* ranks, std::int64_t tokens) {
  std::vector<at::Tensor> x;
  for (int i = 0; i < 3; ++i) x.push_back(leaf(at::randn({1, 4, tokens, 64})));
  const auto prepared = ops::prepare(spec, {.head_dim = 64, .heads = 4}, 4, tokens);
  std::vector<at::Tensor> parameters;
  for (const SpecParameter& p : prepared->parameters) {
    parameters.push_back(
        leaf(at::tensor(prepared->start[p.encoding][p.index], at::kDouble).to(at::kFloat)));
  }
  ops::AttentionOptions options;
  options.causal = true;
  return seconds_of([&] {
    const at::Tensor out = ranks != nullptr
                               ? ring_attention(*ranks, x[0], x[1], x[2], spec, parameters, options)
                               : ops::attention(x[0], x[1], x[2], spec, parameters, options);
    out.sum().backward();
  });
}

TEST_F(RingRank, DISABLED_Measure) {
  for (const char* spec : {"none", "rope", "cope(npos_max=64)"}) {
    for (const std::int64_t tokens : {4096, 8192}) {
      const std::int64_t slice = tokens / ranks->world();
      (void)step_of(spec, ranks.get(), slice);
      Seconds one{INFINITY, INFINITY};
      Seconds all = one;
      (void)malloc_trim(0);  // else freed memory is taken again, and the peak shows less
      std::ofstream("/proc/self/clear_refs") << "5";
      const std::int64_t before = memory_of("VmRSS:");
      (void)step_of(spec, ranks.get(), slice);
      const std::int64_t peak = memory_of("VmHWM:") - before;
      for (int repeat = 0; repeat < (tokens == 4096 ? 3 : 0); ++repeat) {
        if (ranks->leads()) {
          const Seconds s = step_of(spec, nullptr, tokens);
          one = {std::min(one.wall, s.wall), std::min(one.busy, s.busy)};
        }
        (void)ranks->any(false);
        const Seconds s = step_of(spec, ranks.get(), slice);
        all = {std::min(all.wall, s.wall), std::min(all.busy, s.busy)};
      }
      const auto figures =
          ranks->gather(at::tensor({all.wall, all.busy, static_cast<double>(peak)}, at::kDouble));
      if (!ranks->leads()) continue;
      std::cout << spec << " T " << tokens << ": one process " << one.wall << " s, busy "
                << one.busy << "; ranks (wall, busy, KiB):";
      for (const at::Tensor& f : figures) {
        const double* v = f.data_ptr<double>();
        std::cout << " (" << v[0] << ", " << v[1] << ", " << v[2] << ")";
      }
      std::cout << std::endl;
    }
  }
}

template <class Body>
std::string message_of(const Body& body) {
  try {
    (void)body();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "no error";
}

TEST_F(RingRank, DISABLED_Refuses) {
  const at::Tensor x = at::randn({1, 2, 8, kDim});
  const auto expect = [&](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const auto call = [&](const std::string& spec, const ops::AttentionOptions& options = {}) {
    return message_of([&] { return ring_attention(*ranks, x, x, x, spec, {}, options); });
  };
  expect(call("path"), "path applies a step of every token to the query");
  expect(call("fox(prune=true)"), "set prune=false");
  ops::AttentionOptions packed;
  packed.cu_queries = at::tensor({0, 4, 8}, at::kLong);
  expect(call("rope", packed), "cu_queries is not supported over several ranks");
  expect(call(ranks->leads() ? "rope" : "alibi"), "spec or options of rank 1 and of rank 0 differ");
  const at::Tensor short_keys = x.narrow(2, 0, 7);
  expect(message_of([&] { return ring_attention(*ranks, x, short_keys, short_keys, "rope"); }),
         "q and k must be slices of the same tokens but got 8 and 7");
  const at::Tensor other = at::randn({1, 2, 8, ranks->leads() ? kDim : 2 * kDim});
  expect(message_of([&] { return ring_attention(*ranks, other, other, other, "rope"); }),
         "channels of rank 1 and of rank 0 differ");
  EXPECT_EQ(call("rope"), "no error");
  const at::Tensor q = leaf(x);
  const at::Tensor out = ring_attention(*ranks, q, x, x, "rope");
  expect(message_of([&] { out.sum().backward({}, true, true); }),
         "[ring_attention] has no second derivative");
}

TEST_F(RingRank, DISABLED_LeavesSums) {
  const RingData d(RingCase{.spec = "t5 + cope(npos_max=10)"});
  const Results summed = ring(*ranks, d, {});
  const Results own = ring(*ranks, d, {.sum_parameters = false});
  for (std::size_t i = own.size() - d.parameters.size(); i < own.size(); ++i) {
    EXPECT_FALSE(at::allclose(own[i], summed[i])) << i;
    at::Tensor sum = own[i].to(at::kDouble);
    ranks->sum(sum);
    EXPECT_TRUE(at::allclose(sum.to(at::kFloat), summed[i], 1e-5, 1e-5)) << i;
  }
}

// After its keys were announced, and before the others have them.
TEST_F(RingRank, DISABLED_Dies) {
  const RingData d(RingCase{.spec = "cope(npos_max=10)"});
  (void)ring(*ranks, d, {});
  if (ranks->rank() == 1) std::_Exit(3);
  (void)ring(*ranks, d, {});
}

}  // namespace
}  // namespace posenc::parallel

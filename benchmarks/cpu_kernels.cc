// The CPU kernels against limits measured in the same run: RoPE against an in-place stream over the
// same bytes, attention against OpenBLAS's sgemm at 1024^3, decoding against a stream of reads.
//
//   cpu_kernels [--benchmark_filter=attention]
//
// `limit` is the fraction of that limit, `plain` the time relative to the kernel without encodings.
// Every row first checks its kernel against the float64 reference, at a length that allows it.
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "core/thread_pool.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/attention.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"

namespace posenc {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Body>
double best_of(int runs, const Body& body) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double start = seconds();
    body();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// --- limits --------------------------------------------------------------------------------------

double sgemm_rate() {
  constexpr int kSize = 1024;
  std::vector<float> a(kSize * kSize, 0.5f);
  std::vector<float> b(a.size(), 0.25f);
  std::vector<float> c(a.size());
  openblas_set_num_threads(num_threads());
  const double time = best_of(10, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, a.data(),
                kSize, b.data(), kSize, 0.0f, c.data(), kSize);
  });
  return 2.0 * kSize * kSize * kSize / time;
}

// Bytes per second, read and written, of x *= 1 + epsilon over a buffer far larger than any cache.
double stream_rate(bool write) {
  std::vector<float> data(std::size_t{1} << 27, 1.0f);
  constexpr std::int64_t kTasks = 256;
  const std::size_t share = data.size() / kTasks;
  std::vector<float> sums(kTasks);
  const double time = best_of(5, [&] {
    parallel_for(kTasks, [&](std::int64_t task, int) {
      float* at = data.data() + static_cast<std::size_t>(task) * share;
      if (write) {
        for (std::size_t i = 0; i < share; ++i) at[i] *= 1.000001f;
        return;
      }
      float sum[16] = {};
      for (std::size_t i = 0; i < share; i += 16) {
        for (std::size_t lane = 0; lane < 16; ++lane) sum[lane] += at[i + lane];
      }
      for (const float s : sum) sums[static_cast<std::size_t>(task)] += s;
    });
  });
  benchmark::DoNotOptimize(sums.data());
  return static_cast<double>(data.size() * sizeof(float)) * (write ? 2.0 : 1.0) / time;
}

struct Limits {
  double sgemm = sgemm_rate();
  double update = stream_rate(true);
  double read = stream_rate(false);
};
const Limits& limits() {
  static const Limits measured;
  return measured;
}

// --- one attention problem -----------------------------------------------------------------------

struct Problem {
  Problem(const std::string& text, std::int64_t h, std::int64_t tq, std::int64_t tk, std::int64_t d,
          DType dtype, double gate_shift)
      : shape{.head_dim = d, .heads = h},
        spec(parse_spec(text)),
        plan(spec, shape, h, {tk}),
        type(dtype),
        q_shape{1, h, tq, d},
        k_shape{1, h, tk, d} {
    Rng rng(1);
    for (std::vector<float>* x : {&q, &grad}) fill(*x, h * tq * d, rng, 1.0, 0.0);
    for (std::vector<float>* x : {&k, &v}) fill(*x, h * tk * d, rng, 1.0, 0.0);
    if (gate_shift != 0.0) {  // q.k far below zero: gates stay almost closed
      fill(q, h * tq * d, rng, 0.3, gate_shift);
      fill(k, h * tk * d, rng, 0.3, -gate_shift);
    }
    for (const Encoding& e : spec.encodings) {
      parameters.push_back(initial_parameters(posenc::parameters(e, shape), rng));
      for (auto& values : parameters.back()) {
        for (double& x : values) x += 0.1 * rng.normal();
      }
    }
    out.resize(q.size());
    dq = q;
    dk = k;
    dv = v;
    lse.resize(static_cast<std::size_t>(h * tq));
    for (const std::vector<float>* x : {&k, &v}) {
      for (const float value : *x) halves.push_back(float_to_bfloat16(value));
    }
  }

  static void fill(std::vector<float>& x, std::int64_t size, Rng& rng, double scale, double shift) {
    x.resize(static_cast<std::size_t>(size));
    for (float& value : x) value = static_cast<float>(shift + scale * rng.normal());
  }
  TensorView view(std::vector<float>& x, const std::array<std::int64_t, 4>& s) const {
    return {x.data(), DType::kFloat32, s, dense_strides(s)};
  }
  AttentionCall call() {
    AttentionCall c;
    c.plan = &plan;
    c.parameters = &parameters;
    c.q = view(q, q_shape);
    c.k = view(k, k_shape);
    c.v = view(v, k_shape);
    c.out = view(out, q_shape);
    c.lse = lse;
    c.mask.causal = true;
    return c;
  }
  AttentionBackwardCall backward() {
    AttentionBackwardCall b;
    b.forward = call();
    b.grad_out = view(grad, q_shape);
    b.dq = view(dq, q_shape);
    b.dk = view(dk, k_shape);
    b.dv = view(dv, k_shape);
    b.dparameters = &dparameters;
    return b;
  }

  ModelShape shape;
  Spec spec;
  AttentionPlan plan;
  DType type;
  std::array<std::int64_t, 4> q_shape;
  std::array<std::int64_t, 4> k_shape;
  std::vector<float> q, k, v, out, grad, dq, dk, dv, lse;
  std::vector<std::uint16_t> halves;
  std::vector<Parameters> parameters, dparameters;
};

// Largest difference from the reference, relative to the largest entry, on a short problem.
double checked_error(const std::string& spec, std::int64_t d) {
  Problem p(spec, 2, 96, 96, d, DType::kFloat32, 0.0);
  attention(p.call()).throw_if_error();
  const auto wide = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  const auto q = wide(p.q);
  const auto k = wide(p.k);
  const auto v = wide(p.v);
  ref::AttentionOptions options;
  options.masking.causal = true;
  const auto want =
      ref::attention(p.spec, p.parameters, {1, 2, 2, 96, 96, d}, {q, k, v, {}}, options);
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < want.out.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(p.out[i]) - want.out[i]));
    largest = std::max(largest, std::abs(want.out[i]));
  }
  return worst / largest;
}

std::map<std::string, double>& plain_times() {
  static std::map<std::string, double> times;
  return times;
}

void attention_row(benchmark::State& state, const std::string& spec, std::int64_t d,
                   bool with_backward, double gate_shift) {
  if (const double error = checked_error(spec, d); !(error < 1e-5)) {
    state.SkipWithError(fmt::format("wrong result: relative error {}", error).c_str());
    return;
  }
  constexpr std::int64_t kHeads = 8;
  constexpr std::int64_t kTokens = 2048;
  Problem p(spec, kHeads, kTokens, kTokens, d, DType::kFloat32, gate_shift);
  const auto run = [&] {
    attention(p.call()).throw_if_error();
    if (with_backward) attention_backward(p.backward()).throw_if_error();
  };
  run();
  double best = 1e30;
  for (auto _ : state) {
    const double start = seconds();
    run();
    const double time = seconds() - start;
    best = std::min(best, time);
    state.SetIterationTime(time);
  }
  // The causal half: 2 products forward, 5 backward.
  const double flops =
      (with_backward ? 7.0 : 2.0) * kHeads * kTokens * kTokens * static_cast<double>(d);
  const std::string key = fmt::format("{} {}", d, with_backward);
  if (spec == "none") plain_times()[key] = best;
  state.counters["limit"] = flops / best / limits().sgemm;
  if (plain_times().count(key) != 0) state.counters["plain"] = best / plain_times()[key];
  state.SetLabel(explain(p.call()));
}

// Random numbers as storage holds them, repeated: what they are does not matter, only that none is
// subnormal, which would slow the arithmetic down.
std::vector<std::byte> random_bytes(std::size_t elements, DType dtype) {
  Rng rng(2);
  const std::size_t size = dtype_size(dtype);
  std::vector<std::byte> bytes(elements * size);
  std::vector<float> pattern(4099);
  for (float& x : pattern) x = static_cast<float>(rng.normal());
  for (std::size_t i = 0; i < elements; ++i) {
    const float x = pattern[i % pattern.size()];
    const std::uint16_t half = float_to_bfloat16(x);
    std::memcpy(bytes.data() + i * size, size == 4 ? static_cast<const void*>(&x) : &half, size);
  }
  return bytes;
}

void rope_row(benchmark::State& state, PairLayout layout, DType dtype, std::int64_t t,
              std::int64_t d) {
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kHeads = 32;
  const RotaryCache tables(
      make_rotary(Rope{.layout = layout}, {.head_dim = d, .heads = kHeads}, {}), {.length = t});
  const std::array<std::int64_t, 4> shape = {kBatch, kHeads, t, d};
  const auto elements = static_cast<std::size_t>(kBatch * kHeads * t * d);
  const std::size_t bytes = elements * dtype_size(dtype);
  std::vector<std::byte> q = random_bytes(elements, dtype);
  std::vector<std::byte> k = q;
  RopeCall call;
  call.q_out = {q.data(), dtype, shape, dense_strides(shape)};
  call.k_out = {k.data(), dtype, shape, dense_strides(shape)};
  call.q = call.q_out;
  call.k = call.k_out;
  call.tables = &tables;
  double best = 1e30;
  for (auto _ : state) {
    const double start = seconds();
    rope(call).throw_if_error();
    const double time = seconds() - start;
    best = std::min(best, time);
    state.SetIterationTime(time);
  }
  state.counters["GB/s"] = 4.0 * static_cast<double>(bytes) / best * 1e-9;
  state.counters["limit"] = 4.0 * static_cast<double>(bytes) / best / limits().update;
}

void decode_row(benchmark::State& state) {
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kKeys = 32768;
  constexpr std::int64_t kDim = 128;
  Problem p("none", kHeads, 1, kKeys, kDim, DType::kBfloat16, 0.0);
  AttentionCall call = p.call();
  const auto strides = dense_strides(p.k_shape);
  std::vector<std::uint16_t> q;
  std::vector<std::uint16_t> out(p.q.size());
  for (const float x : p.q) q.push_back(float_to_bfloat16(x));
  call.q = ConstTensorView(q.data(), DType::kBfloat16, p.q_shape, dense_strides(p.q_shape));
  call.out = {out.data(), DType::kBfloat16, p.q_shape, dense_strides(p.q_shape)};
  call.k = ConstTensorView(p.halves.data(), DType::kBfloat16, p.k_shape, strides);
  call.v = ConstTensorView(p.halves.data() + p.k.size(), DType::kBfloat16, p.k_shape, strides);
  double best = 1e30;
  for (auto _ : state) {
    const double start = seconds();
    attention(call).throw_if_error();
    const double time = seconds() - start;
    best = std::min(best, time);
    state.SetIterationTime(time);
  }
  const double bytes = 2.0 * static_cast<double>(p.halves.size());
  state.counters["GB/s"] = bytes / best * 1e-9;
  state.counters["limit"] = bytes / best / limits().read;
  state.SetLabel(explain(call));
}

template <class... Arguments>
void add(const std::string& name, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), arguments...)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->MinTime(0.3);
}

void register_rows() {
  for (const auto& [t, d] :
       {std::pair<std::int64_t, std::int64_t>{512, 64}, {1024, 128}, {2048, 256}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const PairLayout layout : {PairLayout::kHalf, PairLayout::kInterleaved}) {
        add(fmt::format("rope/{}/{}/B8/H32/T{}/D{}",
                        enum_names(PairLayout{})[static_cast<int>(layout)], dtype_name(dtype), t,
                        d),
            rope_row, layout, dtype, t, d);
      }
    }
  }
  for (const std::int64_t d : {64, 128}) {
    for (const bool backward : {false, true}) {
      const std::string tail =
          fmt::format("/T2048/D{}/{}", d, backward ? "forward+backward" : "forward");
      for (const char* spec : {"none", "rope", "alibi", "t5", "kerple", "fire", "cope"}) {
        add(std::string("attention/") + spec + tail, attention_row, std::string(spec), d, backward,
            0.0);
      }
      add("attention/cope(closed gates)" + tail, attention_row, std::string("cope"), d, backward,
          1.0);
    }
  }
  add("decode/H32/K32768/D128/bfloat16", decode_row);
}

// Debian's OpenBLAS takes CPUs newer than itself for very old ones; a limit that low would flatter us.
void use_fitting_openblas(char** argv) {
#if defined(__x86_64__)
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  const std::string core = openblas_get_corename();
  if (core != "Prescott" && core != "Core2") return;
  const char* better = __builtin_cpu_supports("avx512f") ? "SkylakeX" : "Haswell";
  if (!__builtin_cpu_supports("avx2")) return;
  setenv("OPENBLAS_CORETYPE", better, 1);
  execv("/proc/self/exe", argv);
#else
  (void)argv;
#endif
}

}  // namespace
}  // namespace posenc

int main(int argc, char** argv) {
  posenc::use_fitting_openblas(argv);
  benchmark::Initialize(&argc, argv);
  posenc::register_rows();
  const posenc::Limits& limits = posenc::limits();
  fmt::print(
      "threads {}; limits: sgemm {:.1f} GFLOP/s ({}), update {:.1f} GB/s, read {:.1f} GB/s\n",
      posenc::num_threads(), limits.sgemm * 1e-9, openblas_get_corename(), limits.update * 1e-9,
      limits.read * 1e-9);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

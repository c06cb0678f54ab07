// The score functions of the CUDA kernels (src/library/kernels/cuda/device) compiled for the host, where there need be no
// GPU: masks, biases, FIRE, CoPE, softmax and their derivatives against the float64 reference.
#include "support/device_head.h"
// Device headers come first.
#include <gtest/gtest.h>

#include <numeric>

#include "cases/compare.h"
#include "cases/table.h"

namespace posenc::cuda {
namespace {

using cases::AttentionData;
using cases::AttentionProblem;
using cases::Case;
using testing::HostCall;
using testing::HostHead;
using testing::RowsByKeys;

// Adds heads up to the results of a case.
class HostAttention {
 public:
  explicit HostAttention(AttentionData& data) : call_(data), d_(data) {
    out_ = dq_ = std::vector<double>(data.q.values().size(), 0.0);
    dk_ = dv_ = dgate_k_ = std::vector<double>(data.k.values().size(), 0.0);
    d_.dparameters = d_.parameters;
    for (Parameters& list : d_.dparameters) {
      for (std::vector<double>& values : list) std::fill(values.begin(), values.end(), 0.0);
    }
  }
  // Into the tensors of the case.
  void run() {
    for (int batch = 0; batch < call_.p.batch; ++batch) {
      for (int head = 0; head < call_.p.heads; ++head) {
        if (call_.has_gates) {
          add<true>(batch, head);
        } else {
          add<false>(batch, head);
        }
      }
    }
    d_.out.assign(out_);
    d_.dq.assign(dq_);
    d_.dk.assign(dk_);
    if (call_.p.relative.entries > 0 && !d_.dinputs.empty()) {
      d_.dinputs[first_input(d_.token_inputs, call_.relative)].assign(du_);
    } else if (call_.token) {
      d_.dinputs[call_.token_input].assign(dx_);
    } else if (!d_.dinputs.empty()) {
      d_.dinputs[0].assign(dgate_k_);
    } else {
      for (std::size_t i = 0; i < dv_.size(); ++i) dv_[i] += dgate_k_[i];
    }
    d_.dv.assign(dv_);
  }

 private:
  template <bool kGates>
  void add(int batch, int head) {
    const AttentionParams& p = call_.p;
    HostHead<kGates> one(call_, batch, head);
    one.forward();
    one.backward();
    const int row = (batch * p.heads + head) * p.queries;
    const int key = (batch * p.kv_heads + head / (p.heads / p.kv_heads)) * p.keys;
    for (std::size_t i = 0; i < one.out.size(); ++i) {
      out_[static_cast<std::size_t>(row * p.head_dim) + i] = one.out[i];
    }
    for (int i = 0; i < p.queries; ++i) {
      d_.row_sums[static_cast<std::size_t>(row + i)] = one.lse[i];
    }
    add_products(one.dscores, one.k, one.q, p.scale, row, key, &dq_, dk_);
    add_products(one.weights, one.k, one.grad_out, 1.0f, row, key, nullptr, dv_);
    if constexpr (kGates) {
      add_products(one.dgates, one.gate_k, one.q, p.scale, row, key, &dq_, dgate_k_);
    }
    if (call_.token) add_tokens(one, batch);
    add_biases(one, batch, head);
    add_fire(one, head);
    add_positions(one, head, row);
    if (p.relative.entries > 0) add_relative(one, batch, head, row);
  }
  // of_queries += scale a keys, of_keys += scale a^T queries.
  void add_products(RowsByKeys& a, const std::vector<double>& keys,
                    const std::vector<double>& queries, float scale, int row, int key,
                    std::vector<double>* of_queries, std::vector<double>& of_keys) const {
    const int width = call_.p.head_dim;
    for (int i = 0; i < call_.p.queries; ++i) {
      for (int j = 0; j < call_.p.keys; ++j) {
        const double x = static_cast<double>(scale * a.at(i, j));
        for (int c = 0; c < width; ++c) {
          const auto at = [&](int token) { return static_cast<std::size_t>(token * width + c); };
          if (of_queries != nullptr) (*of_queries)[at(row + i)] += x * keys[at(j)];
          of_keys[at(key + j)] += x * queries[at(i)];
        }
      }
    }
  }
  // The heads come in their order.
  template <class Head>
  void add_tokens(Head& one, int batch) {
    std::vector<double> dsums(static_cast<std::size_t>(call_.p.keys), 0.0);
    for (int i = 0; i < call_.p.queries; ++i) {
      const int place = i + call_.p.keys - call_.p.queries;
      for (std::size_t j = 0; j < dsums.size(); ++j) {
        const auto ds = static_cast<double>(one.dscores.at(i, static_cast<int>(j)));
        dsums[j] -= ds;
        if (place >= 0 && call_.token->running) dsums[static_cast<std::size_t>(place)] += ds;
      }
    }
    std::vector<double> dx(dsums.size(), 0.0);
    token_sums_backward(*call_.token, dsums, call_.real_keys(static_cast<std::size_t>(batch)), dx);
    dx_.insert(dx_.end(), dx.begin(), dx.end());
  }
  template <class Head>
  void add_biases(Head& one, int batch, int head) {
    const Sequence s = sequence_of(call_.p, batch);
    call_.each_bias([&](const auto& x, std::size_t e) {
      for (int i = 0; i < s.queries; ++i) {
        for (int j = 0; j < s.keys; ++j) {
          const std::int64_t n = s.place(i) - j;
          add_bias_gradient(x, d_.parameters[e], head, std::max<std::int64_t>(n, 0),
                            std::max<std::int64_t>(-n, 0),
                            static_cast<double>(one.dbiases.at(i, j)), d_.dparameters[e]);
        }
      }
    });
  }
  template <class Head>
  void add_fire(const Head& one, int head) {
    const auto segments = static_cast<std::size_t>(call_.p.fire.segments);
    if (segments == 0) return;
    std::vector<double> slopes(segments, 0.0);
    std::vector<double> intercepts(segments, 0.0);
    const auto& config = std::get<Fire>(d_.spec.encodings[call_.fire]);
    for (std::size_t row = 0; row < static_cast<std::size_t>(call_.p.queries); ++row) {
      for (std::size_t n = 0; n < segments; ++n) {
        slopes[n] += static_cast<double>(one.fire_segments[2 * (row * segments + n)]);
        intercepts[n] += static_cast<double>(one.fire_segments[2 * (row * segments + n) + 1]);
      }
      call_.fire_tables.add_row_gradient(
          config, d_.parameters[call_.fire],
          static_cast<std::int64_t>(row) + call_.p.keys - call_.p.queries,
          static_cast<double>(one.fire_rows[2 * row]),
          static_cast<double>(one.fire_rows[2 * row + 1]), d_.dparameters[call_.fire]);
    }
    call_.fire_tables.add_network_gradient(d_.parameters[call_.fire], head, slopes.data(),
                                           intercepts.data(), d_.dparameters[call_.fire]);
  }
  // The last entry's gradient is what the others leave where keys are past the table, or with a softcap a sum.
  template <class Head>
  void add_positions(Head& one, int head, int row) {
    const CopeTable& cope = call_.p.cope;
    const int npos = cope.npos_max;
    const double scale = static_cast<double>(cope.logit_scale);
    for (int i = 0; i < call_.p.queries && npos > 0; ++i) {
      const float* own = one.dlogits.data() + i * logit_stride(npos);
      std::vector<double> dz(own, own + npos);
      dz.back() += static_cast<double>(own[npos]);
      if (call_.p.softcap > 0.0f) {
        for (int j = 0; j < std::min(64 * one.first_counting, call_.p.keys); ++j) {
          dz.back() += static_cast<double>(one.dscores.at(i, j));
        }
      } else if (one.first_counting > 0) {
        dz.back() = -std::accumulate(dz.begin(), dz.end() - 1, 0.0);
      }
      for (int n = 0; n < npos; ++n) {
        const double x = scale * dz[static_cast<std::size_t>(n)];
        std::vector<double>& gradient = d_.dparameters[call_.cope][0];
        if (cope.slopes != nullptr) gradient[static_cast<std::size_t>(head)] += n * x;
        for (int c = 0; c < call_.p.head_dim && cope.slopes == nullptr; ++c) {
          const auto channel = static_cast<std::size_t>(c);
          const auto entry = static_cast<std::size_t>(c * npos + n);
          dq_[static_cast<std::size_t>((row + i) * call_.p.head_dim) + channel] +=
              x * static_cast<double>(cope.pos_emb[entry]);
          gradient[entry] += x * one.q[static_cast<std::size_t>(i * call_.p.head_dim) + channel];
        }
      }
    }
  }

  // du = factor dz table^T, and the table's gradient u^T dz.
  template <class Head>
  void add_relative(Head& one, int batch, int head, int row) {
    const RelativeTable& table = call_.p.relative;
    const bool reads_input = !d_.dinputs.empty();
    if (reads_input)
      du_.resize(
          static_cast<std::size_t>(call_.p.batch * call_.p.heads * call_.p.keys * table.rank));
    for (int i = 0; i < call_.p.queries; ++i) {
      const float* dz = one.drelative.data() + i * logit_stride(table.entries);
      const int place = i + call_.p.keys - call_.p.queries;
      const int token =
          reads_input ? (batch * call_.p.heads + head) * call_.p.keys + place : row + i;
      for (int n = 0; n < table.entries * table.rank; ++n) {
        const auto at = static_cast<std::size_t>(n + head * table.head_stride);
        const double x = static_cast<double>(table.factor * dz[n % table.entries]);
        const int channel = n / table.entries;
        d_.dparameters[call_.relative][0][at] +=
            x * one.u[static_cast<std::size_t>(i * table.rank + channel)];
        if (reads_input && place < 0) continue;
        (reads_input ? du_ : dq_)[static_cast<std::size_t>(token * table.rank + channel)] +=
            x * static_cast<double>(table.table[at]);
      }
    }
  }

  HostCall call_;
  AttentionData& d_;
  std::vector<double> out_, dq_, dk_, dv_, dgate_k_, dx_, du_;
};

class DeviceScores : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow the contexts that play a warp";
#endif
  }
};

// A stick of which less than 2^-126 is left has no exact logarithm on the device.
std::vector<cases::Result> forget_spent(std::vector<cases::Result> results) {
  for (cases::Result& result : results) {
    if (result.kind != cases::ResultKind::kRowSum) continue;
    for (double& x : result.values) {
      if (std::isfinite(x)) x = std::max(x, -87.0);
    }
  }
  return results;
}

void check(Case c) {
  c.queries = 16;  // of a warp
  c = cases::away_from_kinks(c);
  AttentionProblem problem(c);
  const auto want = forget_spent(problem.expected(true));
  HostAttention(problem.data).run();
  const auto got = forget_spent(problem.results(true));
  const cases::Comparison found = cases::compare(c.dtype, got, want);
  EXPECT_LE(found.worst, 1.0) << cases::name_of(c) << ": " << found.mismatch;
}

const std::vector<std::string>& specs() {
  static const std::vector<std::string> kSpecs = cases::with_every_distance_bias(
      {"none",
       "alibi(trainable=true)",
       "kerple(kernel=power)",
       "fire(width=16, init_threshold=20)",
       "fire(width=3, init_threshold=200) + t5",
       "cope(npos_max=8)",
       "cope(npos_max=64)",
       "cope(npos_max=8, variant=alibi)",
       "cope(npos_max=8, logit_scale=sqrt_dim)",
       "cope(npos_max=8, gate_source=separate)",
       "cope(npos_max=64, gate_source=value)",
       "alibi(trainable=true) + cope(npos_max=16, gates_see_bias=true)",
       "fire(width=8, init_threshold=20) + cope(npos_max=16)",
       "fox",
       "fox(scaled=true)",
       "key_bias",
       "alibi(trainable=true) + fox",
       "fire(width=8, init_threshold=20) + key_bias",
       "softcap(cap=1.5)",
       "alibi(trainable=true) + softcap(cap=50)",
       "fox + softcap(cap=2)",
       "fire(width=8, init_threshold=20) + softcap(cap=2)",
       "kerple + cope(npos_max=8) + softcap(cap=2)",
       "cope(npos_max=8, gate_source=separate) + softcap(cap=1.5)",
       "stick_breaking",
       "alibi(trainable=true) + fox + stick_breaking",
       "fire(width=8, init_threshold=20) + stick_breaking",
       "relative_query(extent=30)",
       "relative_query(extent=20, beyond=clip)",
       "relative_query(extent=8, bidirectional=true, beyond=clip, per_head=true)",
       "alibi(trainable=true) + relative_query(extent=90, source=input, rank=5, init_std=1)",
       "relative_query(extent=1, beyond=clip, scaling=none)",
       "relative_query(extent=70, source=input, rank=16, per_head=true) + stick_breaking"});
  return kSpecs;
}

// Sixteen queries at the end of 100 keys: a tile that all rows see, and one with the diagonal.
TEST_F(DeviceScores, EveryEncodingAgreesWithTheReference) {
  for (const std::string& spec : specs()) check({.spec = spec, .keys = 100});
}

TEST_F(DeviceScores, EveryMaskAgreesWithTheReference) {
  for (const char* spec :
       {"t5", "fox", "key_bias", "cope(npos_max=8)", "stick_breaking", "t5 + softcap(cap=2)",
        "relative_query(extent=20, bidirectional=true, init_std=1)",
        "relative_query(extent=9, source=input, rank=3, beyond=clip, init_std=1)",
        "fire(width=16, init_threshold=20) + cope(npos_max=64)"}) {
    check({.spec = spec, .keys = 100, .causal = false});
    check({.spec = spec, .keys = 100, .causal = false, .window_left = 30, .window_right = 5});
    check({.spec = spec, .keys = 150, .window_left = 70});
    check({.spec = spec, .keys = 100, .padding = true});
    check({.spec = spec, .keys = 9});  // rows without keys
  }
}

// What the tuned kernels do with a softcap, against the exact form of the general ones.
TEST_F(DeviceScores, SoftcapsOfTheTunedKernelsAgree) {
  AttentionParams p;
  p.scale = 0.3f;
  p.softcap = 1.5f;
  for (const bool scaled : {false, true}) {
    const Softcapped tuned(p, scaled);
    const RowState rows{{0.7f, INFINITY}, {0.2f, 0.0f}};
    Accum x;
    for (int n = 0; n < 32; ++n) x[n / 4][n % 4] = static_cast<float>(n - 15);
    Accum y;
    for (int n = 0; n < 32; ++n) y[n / 4][n % 4] = std::cos(static_cast<float>(n));
    Accum weights;
    std::copy_n(&x[0][0], 32, &weights[0][0]);
    Accum ds;
    std::copy_n(&y[0][0], 32, &ds[0][0]);
    softcap_backward<true>(rows, keep_all(), tuned, weights, ds);
    for (int n = 0; n < 32; ++n) {
      const int h = n % 4 / 2;
      float score = x[n / 4][n % 4] * (scaled ? 1.0f : p.scale);
      const float slope = ExactSoftcap{p.softcap}.apply(score);
      const float weight = std::exp2(score * kLog2e - rows.lse2[h]);
      EXPECT_NEAR(weights[n / 4][n % 4], weight, 1e-6f) << n;
      EXPECT_NEAR(ds[n / 4][n % 4], weight * (y[n / 4][n % 4] - rows.delta[h]) * slope, 1e-6f) << n;
    }
  }
}

// What is left after a tile of keys is 0 in float32: the walk stops, and nothing changes.
TEST_F(DeviceScores, SpentSticksAgreeWithTheReference) {
  for (const char* spec : {"stick_breaking", "alibi(trainable=true) + stick_breaking"}) {
    check({.spec = spec, .keys = 400});
    check({.spec = spec, .keys = 400, .causal = false, .padding = true});
  }
}

}  // namespace
}  // namespace posenc::cuda

// A case of attention on the GPU: its tensors, tables and workspace there, and the results brought back.
#pragma once

#include <cmath>
#include <optional>

#include "cases/attention_data.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/fire_device.h"
#include "kernels/cuda/relative_device.h"
#include "kernels/cuda/token_device.h"

namespace posenc::cuda::testing {

template <class E>
inline constexpr bool kIsToeplitz = BiasEncoding<E> && !std::is_same_v<E, Fire>;

// Sums of all Toeplitz biases of a spec, [heads, queries + keys - 1].
inline std::vector<float> toeplitz_table(const cases::AttentionData& d) {
  std::vector<float> table;
  bool any = false;
  for (std::int64_t h = 0; h < d.c.heads; ++h) {
    for (std::int64_t n = 1 - d.c.queries; n < d.c.keys; ++n) {
      double sum = 0.0;
      for (std::size_t e = 0; e < d.spec.encodings.size(); ++e) {
        std::visit(
            [&](const auto& x) {
              if constexpr (kIsToeplitz<std::decay_t<decltype(x)>>) {
                any = true;
                sum += bias(x, d.parameters[e], h, std::max<std::int64_t>(n, 0),
                            std::max<std::int64_t>(-n, 0));
              }
            },
            d.spec.encodings[e]);
      }
      table.push_back(static_cast<float>(sum));
    }
  }
  return any ? table : std::vector<float>{};
}

class DeviceAttention {
 public:
  explicit DeviceAttention(cases::AttentionProblem& problem)
      : d_(problem.data),
        q_(d_.q),
        k_(d_.k),
        v_(d_.v),
        out_(d_.out),
        grad_out_(d_.grad_out),
        dq_(d_.dq),
        dk_(d_.dk),
        dv_(d_.dv),
        gate_k_(d_.inputs.empty() ? d_.v : d_.inputs[0]),
        dgate_k_(d_.inputs.empty() ? d_.dv : d_.dinputs[0]),
        lse_(d_.row_sums),
        mask_(d_.key_mask),
        table_(toeplitz_table(d_)) {
    fill_sizes();
    fill_mask();
    fill_modifiers();
  }

  AttentionBackwardParams params;
  [[nodiscard]] const TokenDevice& tokens() const { return *tokens_; }

  void forward() {
    const std::size_t bytes = forward_workspace_bytes(params.forward);
    const Bytes workspace(std::vector<std::uint8_t>(bytes, 0xff));  // NaN
    params.forward.workspace = workspace.data();
    params.forward.workspace_bytes = bytes;
    launch_attention_forward(params.forward, nullptr).throw_if_error();
    check(cudaDeviceSynchronize());
  }
  void backward() {
    const std::size_t bytes = backward_workspace_bytes(params);
    const Bytes workspace(std::vector<std::uint8_t>(bytes, 0xff));  // NaN
    params.forward.workspace = workspace.data();
    params.forward.workspace_bytes = bytes;
    launch_attention_backward(params, nullptr).throw_if_error();
    check(cudaDeviceSynchronize());
  }

  // Into the case's own tensors and parameters' gradients.
  void bring_back() {
    check(cudaDeviceSynchronize());
    bring_back_gates();
    for (const Mirror* x : {&out_, &dq_, &dk_, &dv_}) x->bring_back();
    if (gates_from_values_) add_gates_to_values();
    d_.row_sums = lse_.values<float>();
    d_.dparameters = d_.parameters;
    for (Parameters& list : d_.dparameters) {
      for (std::vector<double>& values : list) std::fill(values.begin(), values.end(), 0.0);
    }
    if (params.dtoeplitz != nullptr) bring_back_biases();
    if (params.dpos_emb != nullptr) {
      const std::vector<float> values = dcope_.values<float>();
      d_.dparameters[cope_][0].assign(values.begin(), values.end());
    }
    if (fire_) fire_->bring_back(d_.dparameters[fire_->index()]);
    if (tokens_) tokens_->bring_back();
    if (relative_) relative_->bring_back();
  }

 private:
  static Tensor4 tensor(const Mirror& x) {
    const TensorView view = x.view();
    return {view.data, view.stride[0], view.stride[1], view.stride[2]};
  }
  void fill_sizes() {
    AttentionParams& p = params.forward;
    const cases::Case& c = d_.c;
    p.element = c.dtype == DType::kBfloat16  ? Element::kBFloat16
                : c.dtype == DType::kFloat16 ? Element::kFloat16
                                             : Element::kFloat32;
    p.batch = static_cast<std::int32_t>(c.batch);
    p.heads = static_cast<std::int32_t>(c.heads);
    p.kv_heads = static_cast<std::int32_t>(c.kv_heads);
    p.queries = static_cast<std::int32_t>(c.queries);
    p.keys = static_cast<std::int32_t>(c.keys);
    p.head_dim = static_cast<std::int32_t>(c.head_dim);
    p.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    p.q = tensor(q_);
    p.k = tensor(k_);
    p.v = tensor(v_);
    p.out = tensor(out_);
    p.lse = lse_.as<float>();
    params.grad_out = tensor(grad_out_);
    params.dq = tensor(dq_);
    params.dk = tensor(dk_);
    params.dv = tensor(dv_);
  }
  void fill_mask() {
    AttentionParams& p = params.forward;
    const cases::Case& c = d_.c;
    p.window_left = c.window_left;
    p.window_right = c.causal ? 0 : c.window_right;
    if (c.padding) p.key_mask = mask_.as<std::uint8_t>();
    if (c.dropout > 0.0) {
      const Dropout dropout{c.dropout, 77};
      p.dropout_threshold = dropout.threshold();
      p.dropout_scale = static_cast<float>(1.0 / (1.0 - c.dropout));
      p.dropout_seed = dropout.seed;
    }
    if (c.cumulative.empty()) return;
    const auto& keys = c.cumulative_keys.empty() ? c.cumulative : c.cumulative_keys;
    std::vector<SegmentEntry> entries;
    for (std::int32_t b = 0; b < p.batch; ++b) {
      for (std::size_t s = 0; s + 1 < keys.size(); ++s) {
        const auto at = [&](const std::vector<std::int64_t>& x, std::size_t n) {
          return static_cast<std::int32_t>(x[n]);
        };
        entries.push_back({b, at(c.cumulative, s), at(c.cumulative, s + 1) - at(c.cumulative, s),
                           at(keys, s), at(keys, s + 1) - at(keys, s)});
        p.max_queries = std::max(p.max_queries, entries.back().queries);
        p.max_keys = std::max(p.max_keys, entries.back().keys);
      }
    }
    segments_ = Bytes(entries);
    p.segments = segments_.as<SegmentEntry>();
    p.segment_count = static_cast<std::int32_t>(entries.size());
  }
  void fill_modifiers() {
    AttentionParams& p = params.forward;
    const std::int64_t span = d_.c.queries + d_.c.keys - 1;
    if (table_.data() != nullptr) {
      p.toeplitz = {table_.as<float>(), span, d_.c.queries - 1, span};
      dtable_ = Bytes(std::vector<float>(static_cast<std::size_t>(d_.c.heads * span), NAN));
      params.dtoeplitz = dtable_.as<float>();
    }
    for (std::size_t e = 0; e < d_.spec.encodings.size(); ++e) {
      const auto* cope = std::get_if<Cope>(&d_.spec.encodings[e]);
      if (cope == nullptr) continue;
      cope_ = e;
      const std::vector<double>& values = d_.parameters[e][0];
      cope_values_ = Bytes(std::vector<float>(values.begin(), values.end()));
      dcope_ = Bytes(std::vector<float>(values.size(), NAN));
      p.cope.npos_max = static_cast<int>(cope->npos_max);
      const bool interpolates = cope->variant == Cope::Variant::kInterpolate;
      (interpolates ? p.cope.pos_emb : p.cope.slopes) = cope_values_.as<float>();
      p.cope.logit_scale = cope->logit_scale == Cope::LogitScale::kSqrtDim ? p.scale : 1.0f;
      p.cope.gates_see_bias = cope->gates_see_bias;
      params.dpos_emb = dcope_.as<float>();
      fill_gates(cope->gate_source);
    }
    for (std::size_t e = 0; e < d_.spec.encodings.size(); ++e) {
      if (std::holds_alternative<StickBreaking>(d_.spec.encodings[e])) p.breaks_sticks = true;
      if (std::holds_alternative<RelativeQuery>(d_.spec.encodings[e])) {
        relative_.emplace(d_, e, params);
      }
      if (std::holds_alternative<Fire>(d_.spec.encodings[e])) fire_.emplace(d_, e, params);
      if (const auto* cap = std::get_if<Softcap>(&d_.spec.encodings[e])) {
        p.softcap = static_cast<float>(cap->cap);
      }
      if (token_form(d_.spec.encodings[e], 1.0)) tokens_.emplace(d_, e, params);
    }
  }
  void fill_gates(Cope::GateSource source) {
    if (source == Cope::GateSource::kKey) return;
    gates_from_values_ = source == Cope::GateSource::kValue;
    params.forward.cope.gate_k = gates_from_values_ ? params.forward.v : tensor(gate_k_);
    params.dgate_k = tensor(dgate_k_);
  }
  // The gates' gradient lies in a copy of dv's shape, or in the tensor of the case.
  void bring_back_gates() {
    if (params.dgate_k.data == nullptr) return;
    dgate_k_.bring_back();
    if (gates_from_values_) dgates_ = d_.dv.values();
  }
  void add_gates_to_values() {
    std::vector<double> sum = d_.dv.values();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dgates_[i];
    d_.dv.assign(sum);
  }
  void bring_back_biases() {
    const std::vector<float> sums = dtable_.values<float>();
    const std::int64_t span = d_.c.queries + d_.c.keys - 1;
    for (std::int64_t i = 0; i < d_.c.heads * span; ++i) {
      const std::int64_t n = i % span - (d_.c.queries - 1);
      for (std::size_t e = 0; e < d_.spec.encodings.size(); ++e) {
        std::visit(
            [&](const auto& x) {
              if constexpr (kIsToeplitz<std::decay_t<decltype(x)>>) {
                add_bias_gradient(x, d_.parameters[e], i / span, std::max<std::int64_t>(n, 0),
                                  std::max<std::int64_t>(-n, 0),
                                  static_cast<double>(sums[static_cast<std::size_t>(i)]),
                                  d_.dparameters[e]);
              }
            },
            d_.spec.encodings[e]);
      }
    }
  }

  cases::AttentionData& d_;
  Mirror q_, k_, v_, out_, grad_out_, dq_, dk_, dv_, gate_k_, dgate_k_;
  Bytes lse_;
  Bytes mask_;
  Bytes table_;
  Bytes dtable_;
  Bytes segments_;
  Bytes cope_values_;
  Bytes dcope_;
  std::size_t cope_ = 0;
  bool gates_from_values_ = false;
  std::vector<double> dgates_;
  std::optional<FireDevice> fire_;
  std::optional<TokenDevice> tokens_;
  std::optional<RelativeDevice> relative_;
};

}  // namespace posenc::cuda::testing

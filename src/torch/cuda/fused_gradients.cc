#include "torch/cuda/fused_gradients.h"

#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

at::Tensor empty_like_rows(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

}  // namespace

bool launched(const Status& status) {
  if (status.code() == StatusCode::kUnsupported) return false;
  status.throw_if_error();
  return true;
}

FusedGradients::FusedGradients(FusedCall& fused, const at::Tensor& grad_out, bool wants_parameters)
    : fused_(fused),
      call_(fused.call().composed()),
      grad_out_(grad_out),
      wants_parameters_(wants_parameters),
      dq_(empty_like_rows(call_.q)),
      dk_(empty_like_rows(call_.k)),
      dv_(empty_like_rows(call_.v)) {
  b_.forward = fused.p;
  b_.grad_out = tensor4(grad_out_);
  fill_rows();
  if (wants_parameters_) fill_tables();
}

void FusedGradients::fill_rows() {
  b_.dq = tensor4(dq_);
  b_.dk = tensor4(dk_);
  b_.dv = tensor4(dv_);
  if (b_.forward.cope.plain_q.data != nullptr) {
    dplain_ = empty_like_rows(call_.q);
    b_.dplain_q = tensor4(dplain_);
  }
  if (b_.forward.cope.gate_k.data != nullptr) {
    dgate_ = empty_like_rows(call_.k);
    b_.dgate_k = tensor4(dgate_);
  }
}

void FusedGradients::fill_tables() {
  const auto floats = at::TensorOptions(fused_.call().device()).dtype(at::kFloat);
  const std::int64_t heads = call_.q.size(1);
  if (fused_.has_table()) {
    dtable_ = at::empty({heads, fused_.range.distances.span}, floats);
    b_.dtoeplitz = dtable_.data_ptr<float>();
  }
  if (fused_.fire) {
    dfire_segments_ = at::empty({heads, fused_.fire->segments(), 2}, floats);
    dfire_rows_ = at::empty({call_.q.size(0), heads, call_.q.size(2), 2}, floats);
    b_.dfire_segments = dfire_segments_.data_ptr<float>();
    b_.dfire_rows = dfire_rows_.data_ptr<float>();
  }
  if (const auto& cope = fused_.call().state().cope) {
    dcope_ = at::empty(fused_.parameters[*cope][0].sizes(), floats);
    b_.dpos_emb = dcope_.data_ptr<float>();
  }
}

bool FusedGradients::launch() {
  fused_.give_workspace(cuda::backward_workspace_bytes(b_));
  b_.forward.workspace = fused_.p.workspace;
  b_.forward.workspace_bytes = fused_.p.workspace_bytes;
  return launched(cuda::launch_attention_backward(b_, current_stream(fused_.call().device())));
}

AttentionBackward FusedGradients::finish() {
  auto gradients = table_gradients();
  fused_.turned.backward(dq_, dk_, wants_parameters_ ? &gradients : nullptr);
  if (dplain_.defined()) dq_.add_(dplain_);
  const Cope* cope = fused_.call().cope();
  const bool from_values = cope != nullptr && cope->gate_source == Cope::GateSource::kValue;
  if (from_values) dv_.add_(dgate_);
  std::vector<at::Tensor> dinputs;  // of a fused call they are CoPE's
  if (!call_.inputs.empty()) dinputs.push_back(dgate_);
  return {dq_, dk_, dv_, dinputs,
          wants_parameters_ ? join_gradients(*call_.prepared, gradients, call_.parameters)
                            : at::zeros_like(call_.parameters)};
}

std::vector<std::vector<at::Tensor>> FusedGradients::table_gradients() const {
  const AttentionPlan::State& state = fused_.call().state();
  std::vector<std::vector<at::Tensor>> gradients(fused_.parameters.size());
  if (dtable_.defined()) {
    gradients =
        bias_table_gradient(*call_.prepared, fused_.parameters, fused_.range.distances, dtable_);
  }
  if (dfire_rows_.defined()) {
    gradients[*state.fire] =
        fused_.fire->gradients(dfire_segments_, dfire_rows_, call_.tokens->q_places());
  }
  if (dcope_.defined()) gradients[*state.cope] = {dcope_};
  return gradients;
}

}  // namespace posenc::ops

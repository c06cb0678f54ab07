#include "torch/cuda/fused_gradients.h"

#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

// Laid out as x, where its channels are contiguous.
at::Tensor rows_like(const at::Tensor& x) { return aligned(at::empty_like(x)); }

}  // namespace

bool launched(const Status& status) {
  if (status.code() == StatusCode::kUnsupported) {
    TORCH_WARN_ONCE(
        "[posenc] attention runs as composed operations on the GPU, with Tq x Tk tensors of "
        "scores: ",
        status.message());
    return false;
  }
  status.throw_if_error();
  return true;
}

FusedGradients::FusedGradients(FusedCall& fused, const at::Tensor& grad_out, bool wants_parameters)
    : fused_(fused),
      call_(fused.call().composed()),
      grad_out_(grad_out),
      wants_parameters_(wants_parameters),
      dq_(rows_like(call_.q)),
      dk_(rows_like(call_.k)),
      dv_(rows_like(call_.v.size(3) == fused.v().size(3) ? call_.v : fused.v())) {
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
    dplain_ = rows_like(call_.q);
    b_.dplain_q = tensor4(dplain_);
  }
  if (b_.forward.cope.gate_k.data != nullptr) {
    dgate_ = rows_like(call_.k);
    b_.dgate_k = tensor4(dgate_);
  }
  if (const cuda::RelativeTable& table = b_.forward.relative; table.u.data != nullptr) {
    drelative_u_ =
        at::empty({call_.q.size(0), call_.q.size(1), call_.q.size(2), (table.rank + 7) / 8 * 8},
                  call_.q.options());
    b_.drelative_u = tensor4(drelative_u_);
  }
  if (b_.forward.tokens.at_key != nullptr) {
    const auto floats = call_.q.options().dtype(at::kFloat);
    dtoken_queries_ = at::empty({call_.q.size(0), call_.q.size(1), call_.q.size(2)}, floats);
    dtoken_keys_ = at::empty({call_.q.size(0), call_.q.size(1), call_.k.size(2)}, floats);
    b_.dtoken_queries = dtoken_queries_.data_ptr<float>();
    b_.dtoken_keys = dtoken_keys_.data_ptr<float>();
  }
}

void FusedGradients::fill_tables() {
  const auto floats = at::TensorOptions(fused_.call().device()).dtype(at::kFloat);
  const std::int64_t heads = call_.q.size(1);
  if (fused_.has_table()) {
    dtable_ = at::empty({heads, fused_.range.distances.span}, floats);
    b_.dtoeplitz = dtable_.data_ptr<float>();
  }
  if (fused_.p.fire.segments > 0) {
    dfire_segments_ = at::empty({heads, fused_.p.fire.segments, 2}, floats);
    dfire_rows_ = at::empty({call_.q.size(0), heads, call_.q.size(2), 2}, floats);
    b_.dfire_segments = dfire_segments_.data_ptr<float>();
    b_.dfire_rows = dfire_rows_.data_ptr<float>();
  }
  if (const auto& relative = fused_.call().terms().relative_query) {
    drelative_ = at::empty(fused_.parameters[*relative][0].sizes(), floats);
    b_.drelative_table = drelative_.data_ptr<float>();
  }
  if (const auto& cope = fused_.call().terms().cope) {
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
  // Of rotated queries: u are the plain ones.
  if (drelative_u_.defined() && !fused_.own_tokens.defined()) dq_.add_(drelative_u_);
  const Terms& terms = fused_.call().terms();
  const Cope* cope = terms.config<Cope>(terms.cope);
  const bool from_values = cope != nullptr && cope->gate_source == Cope::GateSource::kValue;
  if (from_values) dv_.add_(dgate_);
  const std::int64_t width = call_.v.size(3);
  const at::Tensor dv = width == dv_.size(3) ? dv_ : dv_.narrow(3, 0, width).contiguous();
  return {dq_, dk_, dv, input_gradients(),
          wants_parameters_ ? join_gradients(*call_.prepared, gradients, call_.parameters)
                            : at::zeros_like(call_.parameters)};
}

// Of a fused call an input is that of its term per token, of CoPE's gates, of angles, or what distances are multiplied
// with.
std::vector<at::Tensor> FusedGradients::input_gradients() const {
  const Terms& terms = fused_.call().terms();
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const bool of_token = terms.token && terms.inputs[i].encoding == *terms.token;
    if (terms.relative_query && terms.inputs[i].encoding == *terms.relative_query) {
      gradients.push_back(relative_gradient(call_.inputs[i]));
      continue;
    }
    const at::Tensor of_angles = fused_.turned.input_gradient(i);
    if (of_angles.defined()) {
      gradients.push_back(of_angles);
    } else {
      gradients.push_back(of_token ? token_gradient(call_.inputs[i]) : dgate_);
    }
  }
  return gradients;
}

// A token is the own one of at most one query: rows are copied, not added. Queries without one share a row past the
// last.
at::Tensor FusedGradients::relative_gradient(const at::Tensor& input) const {
  const at::Tensor rows = drelative_u_.narrow(3, 0, input.size(3)).to(input.scalar_type());
  if (call_.q.size(2) == input.size(2) && !fused_.call().tokens().packed())
    return rows.contiguous();
  const std::int64_t keys = input.size(2);
  const at::Tensor gradient =
      at::zeros({input.size(0), input.size(1), keys + 1, input.size(3)}, input.options());
  gradient.index_copy_(2, fused_.own_tokens.masked_fill(fused_.own_tokens < 0, keys), rows);
  return gradient.narrow(2, 0, keys).contiguous();
}

at::Tensor FusedGradients::token_gradient(const at::Tensor& input) const {
  const at::Tensor gradient = at::empty(input.sizes(), input.options().dtype(at::kFloat));
  cuda::launch_token_sums_backward(fused_.token_scan, dtoken_queries_.data_ptr<float>(),
                                   dtoken_keys_.data_ptr<float>(), gradient.data_ptr<float>(),
                                   current_stream(fused_.call().device()))
      .throw_if_error();
  return gradient.to(input.scalar_type());
}

// Rows without a key have an output of 0 and no log-sum-exp.
at::Tensor FusedGradients::sink_gradient(const at::Tensor& logit) const {
  const at::Tensor weight = (logit.to(at::kFloat).reshape({1, -1, 1}) - fused_.lse).exp();
  const at::Tensor delta = (grad_out_.to(at::kFloat) * fused_.out.to(at::kFloat)).sum(-1);
  return -(weight * delta)
              .masked_fill(fused_.lse.isneginf(), 0.0)
              .sum(at::IntArrayRef({0, 2}), false, at::kDouble);
}

std::vector<std::vector<at::Tensor>> FusedGradients::table_gradients() const {
  const Terms& terms = fused_.call().terms();
  std::vector<std::vector<at::Tensor>> gradients(fused_.parameters.size());
  if (dtable_.defined()) {
    gradients =
        bias_table_gradient(*call_.prepared, fused_.parameters, fused_.range.distances, dtable_);
  }
  if (dfire_rows_.defined()) {
    const auto& config = *terms.config<Fire>(terms.fire);
    gradients[*terms.fire] = fire_gradients(config, fused_.parameters[*terms.fire], dfire_segments_,
                                            dfire_rows_, call_.tokens->q_places());
  }
  if (dcope_.defined()) gradients[*terms.cope] = {dcope_};
  if (drelative_.defined()) gradients[*terms.relative_query] = {drelative_};
  for (const std::size_t e : terms.sinks) gradients[e] = {sink_gradient(fused_.parameters[e][0])};
  return gradients;
}

}  // namespace posenc::ops

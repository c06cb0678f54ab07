// Gradients of attention, the same for C++ and Python; and the operator that users call.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "torch/attention_arguments.h"
#include "torch/autograd.h"
#include "torch/call_capability.h"

namespace posenc::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// The backward of the backward: refused where it is asked for, not computed wrongly.
class AttentionBackwardFunction : public torch::autograd::Function<AttentionBackwardFunction> {
 public:
  static variable_list forward(AutogradContext* /*ctx*/, const at::Tensor& grad_out,
                               const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                               const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                               bool wants_parameters) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [dq, dk, dv, dinputs, dparameters] = call_attention_backward(
        grad_out, out, lse, q, k, v, parameters, POSENC_ATTENTION_NAMES, wants_parameters);
    variable_list all = {dq, dk, dv, dparameters};
    all.insert(all.end(), dinputs.begin(), dinputs.end());
    return all;
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*gradients*/) {
    refuse_double_backward("attention");
    return {};
  }
};

AttentionBackward attention_backward_autograd(const at::Tensor& grad_out, const at::Tensor& out,
                                              const at::Tensor& lse, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const at::Tensor& parameters,
                                              POSENC_ATTENTION_PARAMETERS, bool wants_parameters) {
  const auto g = AttentionBackwardFunction::apply(grad_out, out, lse, q, k, v, parameters,
                                                  POSENC_ATTENTION_NAMES, wants_parameters);
  return {g[0], g[1], g[2], {g.begin() + 4, g.end()}, g[3]};
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
  static constexpr std::size_t kParameters = 3;  // among forward's arguments
  static constexpr std::size_t kInputs = 4;      // their first, one argument each
  static constexpr std::size_t kOthers = 13;     // after them
  static constexpr std::size_t kSaved = 11;      // tensors that are saved before the inputs

 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& parameters,
                               POSENC_ATTENTION_PARAMETERS) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [out, lse] = call_attention(q, k, v, parameters, POSENC_ATTENTION_NAMES);
    variable_list kept = {q,
                          k,
                          v,
                          parameters,
                          out,
                          lse,
                          or_undefined(key_mask),
                          or_undefined(cu_queries),
                          or_undefined(cu_keys),
                          or_undefined(q_positions),
                          or_undefined(k_positions)};
    kept.insert(kept.end(), inputs.begin(), inputs.end());
    save_tensors(*ctx, kept);
    auto& saved = ctx->saved_data;
    saved["spec"] = spec;
    saved["causal"] = causal;
    saved["window_left"] = window_left;
    saved["window_right"] = window_right;
    saved["scale"] = scale;
    saved["dropout"] = dropout;
    saved["seed"] = seed;
    saved["keys_are_turned"] = keys_are_turned;
    ctx->mark_non_differentiable({lse});
    return {out, lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list t = ctx->get_saved_variables();
    auto& saved = ctx->saved_data;
    const bool wants_parameters = ctx->needs_input_grad(kParameters);
    const at::TensorList inputs = at::TensorList(t).slice(kSaved);
    auto [dq, dk, dv, dinputs, dparameters] = call_attention_backward(
        gradients[0], t[4], t[5], t[0], t[1], t[2], t[3], inputs, saved["spec"].toStringRef(),
        saved["causal"].toBool(), saved["window_left"].toInt(), saved["window_right"].toInt(),
        optional(t[6]), optional(t[7]), optional(t[8]), optional(t[9]), optional(t[10]),
        saved["scale"].toOptional<double>(), saved["dropout"].toDouble(), saved["seed"].toInt(),
        saved["keys_are_turned"].toBool(), wants_parameters);
    // In the order of forward's arguments, the context left out.
    variable_list all(kInputs + inputs.size() + kOthers);
    all[0] = dq;
    all[1] = dk;
    all[2] = dv;
    if (wants_parameters) all[kParameters] = dparameters;
    std::copy(dinputs.begin(), dinputs.end(), all.begin() + kInputs);
    return all;
  }
};

AttentionForward attention_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  if (!records({q, k, v, parameters}) && !records(inputs)) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call_attention(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  }
  const auto results = AttentionFunction::apply(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  return {results[0], results[1]};
}

bool are_given(const OptionalTensor& q_positions, const OptionalTensor& k_positions) {
  return or_undefined(q_positions).defined() || or_undefined(k_positions).defined();
}

// What users call: parameters one by one, as they train.
AttentionForward attention_composite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     std::string spec, at::TensorList parameters,
                                     at::TensorList inputs, bool causal, std::int64_t window_left,
                                     std::int64_t window_right, const OptionalTensor& key_mask,
                                     const OptionalTensor& cu_queries,
                                     const OptionalTensor& cu_keys,
                                     const OptionalTensor& q_positions,
                                     const OptionalTensor& k_positions, c10::optional<double> scale,
                                     double dropout, std::int64_t seed, bool keys_are_turned) {
  warn_if_slow(spec, q, k, v, are_given(q_positions, k_positions));
  return call_attention(q, k, v, joined(parameters, q), POSENC_ATTENTION_NAMES);
}

at::Tensor decode_composite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            std::string spec, at::TensorList parameters, at::TensorList inputs,
                            std::int64_t window_left, const OptionalTensor& key_mask,
                            const OptionalTensor& q_positions, const OptionalTensor& k_positions,
                            c10::optional<double> scale, bool keys_are_turned,
                            const OptionalTensor& k_scales, const OptionalTensor& v_scales,
                            const OptionalTensor& block_table,
                            const OptionalTensor& cache_lengths) {
  const CacheTensors cache{or_undefined(k_scales), or_undefined(v_scales),
                           or_undefined(block_table), or_undefined(cache_lengths)};
  warn_if_slow(spec, q, cache.paged() && k.dim() == 4 ? k.transpose(1, 2) : k, v,
               are_given(q_positions, k_positions));
  const bool scaled = cache.k_scales.defined() || cache.v_scales.defined();
  if (scaled || cache.paged() || cache.lengths.defined() || k.scalar_type() != q.scalar_type() ||
      v.scalar_type() != q.scalar_type()) {
    return call_attention_cache(q, k, v, cache, joined(parameters, q), inputs, spec, true,
                                window_left, -1, key_mask, {}, {}, q_positions, k_positions, scale,
                                0.0, 0, keys_are_turned);
  }
  return std::get<0>(call_attention(q, k, v, joined(parameters, q), inputs, spec, true, window_left,
                                    -1, key_mask, {}, {}, q_positions, k_positions, scale, 0.0, 0,
                                    keys_are_turned));
}

// Weights, or CoPE's positions.
template <int kWhich>
at::Tensor inside_composite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            std::string spec, at::TensorList parameters, at::TensorList inputs,
                            bool causal, std::int64_t window_left, std::int64_t window_right,
                            const OptionalTensor& key_mask, const OptionalTensor& cu_queries,
                            const OptionalTensor& cu_keys, const OptionalTensor& q_positions,
                            const OptionalTensor& k_positions, c10::optional<double> scale) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_attention_inside", "")
                                .typed<decltype(call_attention)>();
  const at::NoGradGuard looking;
  return std::get<kWhich>(kCall.call(q, k, v, joined(parameters, q), inputs, spec, causal,
                                     window_left, window_right, key_mask, cu_queries, cu_keys,
                                     q_positions, k_positions, scale, 0.0, 0, false));
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, Autograd, m) {
  m.impl("_attention", attention_autograd);
  m.impl("_attention_backward", attention_backward_autograd);
}

TORCH_LIBRARY_IMPL(posenc, CompositeImplicitAutograd, m) {
  m.impl("attention", attention_composite);
  m.impl("attention_decode", decode_composite);
  m.impl("attention_weights", inside_composite<0>);
  m.impl("cope_positions", inside_composite<1>);
}

}  // namespace posenc::ops

// The dispatcher's side of rotations: shapes, gradients, and the operators that users call.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/autograd.h"

namespace posenc::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair rope_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& /*parameters*/,
               std::string /*spec*/, const OptionalTensor& /*positions*/, bool /*transposed*/) {
  return {at::empty_like(q), at::empty_like(k)};
}
at::Tensor frequency_gradient_meta(const at::Tensor& /*q*/, const at::Tensor& /*k*/,
                                   const at::Tensor& /*dq*/, const at::Tensor& /*dk*/,
                                   const at::Tensor& parameters, std::string /*spec*/,
                                   const OptionalTensor& /*positions*/) {
  return at::empty_like(parameters);
}

Pair call_rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& parameters,
               std::string spec, const OptionalTensor& positions, bool transposed) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_rope", "")
                                .typed<decltype(rope_meta)>();
  return kCall.call(q, k, parameters, std::move(spec), positions, transposed);
}
at::Tensor call_frequency_gradient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                   const at::Tensor& dk, const at::Tensor& parameters,
                                   std::string spec, const OptionalTensor& positions) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_rope_frequency_gradient", "")
                                .typed<decltype(frequency_gradient_meta)>();
  return kCall.call(q, k, dq, dk, parameters, std::move(spec), positions);
}

class FrequencyGradientFunction : public torch::autograd::Function<FrequencyGradientFunction> {
 public:
  static at::Tensor forward(AutogradContext* /*ctx*/, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& dq, const at::Tensor& dk,
                            const at::Tensor& parameters, std::string spec,
                            const OptionalTensor& positions) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call_frequency_gradient(q, k, dq, dk, parameters, std::move(spec), positions);
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*gradients*/) {
    refuse_double_backward("rope(schedule=learnable)");
  }
};

at::Tensor frequency_gradient_autograd(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& dq, const at::Tensor& dk,
                                       const at::Tensor& parameters, std::string spec,
                                       const OptionalTensor& positions) {
  return FrequencyGradientFunction::apply(q, k, dq, dk, parameters, spec, positions);
}

// Linear in q and k: its gradient is the same operator transposed, and so is that one's.
class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& parameters, std::string spec,
                               const OptionalTensor& positions, bool transposed) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const bool learns = parameters.requires_grad();  // not its size, which may be symbolic
    ctx->save_for_backward({learns ? q : at::Tensor(), learns ? k : at::Tensor(), parameters,
                            or_undefined(positions)});
    ctx->saved_data["spec"] = spec;
    ctx->saved_data["transposed"] = transposed;
    auto [q_out, k_out] = call_rope(q, k, parameters, spec, positions, transposed);
    return {q_out, k_out};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list t = ctx->get_saved_variables();
    const std::string spec = ctx->saved_data["spec"].toStringRef();
    const bool transposed = ctx->saved_data["transposed"].toBool();
    auto [dq, dk] = call_rope(gradients[0], gradients[1], t[2], spec, optional(t[3]), !transposed);
    at::Tensor dparameters;
    if (t[0].defined()) {
      TORCH_CHECK(!transposed,
                  "[rope] trained frequencies have no gradient through transposed=True");
      dparameters = call_frequency_gradient(t[0], t[1], gradients[0], gradients[1], t[2], spec,
                                            optional(t[3]));
    }
    return {dq, dk, dparameters, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

Pair rope_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& parameters,
                   std::string spec, const OptionalTensor& positions, bool transposed) {
  if (!records({q, k, parameters})) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call_rope(q, k, parameters, spec, positions, transposed);
  }
  const auto out = RopeFunction::apply(q, k, parameters, spec, positions, transposed);
  return {out[0], out[1]};
}

Pair rope_composite(const at::Tensor& q, const at::Tensor& k, std::string spec,
                    at::TensorList parameters, const OptionalTensor& positions, bool transposed) {
  return call_rope(q, k, joined(parameters, q), std::move(spec), positions, transposed);
}

at::Tensor rerotate_meta(const at::Tensor& k, std::string /*spec*/, const at::Tensor& /*from*/,
                         const at::Tensor& /*to*/, std::string /*to_spec*/) {
  return k.new_empty_symint(k.sym_sizes());
}

at::Tensor call_rerotate(const at::Tensor& k, std::string spec, const at::Tensor& from,
                         const at::Tensor& to, std::string to_spec) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::rerotate", "")
                                .typed<decltype(call_rerotate)>();
  return kCall.call(k, std::move(spec), from, to, std::move(to_spec));
}

// A rotation: its gradient is the way back, and that one's the way there again.
class RerotateFunction : public torch::autograd::Function<RerotateFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& k, std::string spec,
                            const at::Tensor& from, const at::Tensor& to, std::string to_spec) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({from, to});
    ctx->saved_data["spec"] = spec;
    ctx->saved_data["to_spec"] = to_spec.empty() ? spec : to_spec;
    return call_rerotate(k, spec, from, to, to_spec);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list places = ctx->get_saved_variables();
    auto& saved = ctx->saved_data;
    return {call_rerotate(gradients[0], saved["to_spec"].toStringRef(), places[1], places[0],
                          saved["spec"].toStringRef()),
            at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor rerotate_autograd(const at::Tensor& k, std::string spec, const at::Tensor& from,
                             const at::Tensor& to, std::string to_spec) {
  if (!records({k})) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call_rerotate(k, std::move(spec), from, to, std::move(to_spec));
  }
  return RerotateFunction::apply(k, std::move(spec), from, to, std::move(to_spec));
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, Meta, m) {
  m.impl("_rope", rope_meta);
  m.impl("_rope_frequency_gradient", frequency_gradient_meta);
  m.impl("rerotate", rerotate_meta);
}
TORCH_LIBRARY_IMPL(posenc, Autograd, m) {
  m.impl("_rope", rope_autograd);
  m.impl("_rope_frequency_gradient", frequency_gradient_autograd);
  m.impl("rerotate", rerotate_autograd);
}
TORCH_LIBRARY_IMPL(posenc, CompositeImplicitAutograd, m) { m.impl("rope", rope_composite); }

}  // namespace posenc::ops

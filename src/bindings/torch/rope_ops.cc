// RoPE and xPos: rotate q and k in one pass, their gradients, and rerotate for cached keys.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/attention_call.h"
#include "posenc/kernels/rope.h"
#include "torch/autograd.h"

namespace posenc::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;

constexpr const char* kRope = "rope";

std::int64_t length_of(const at::Tensor& positions, std::int64_t tokens) {
  const bool given = positions.defined() && positions.numel() > 0;
  return given ? std::max<std::int64_t>(positions.max().item<std::int64_t>() + 1, 1) : tokens;
}

// One rotation made ready: the plan's tables, or ones for frequencies that are being trained.
struct Rotation {
  Rotation(const at::Tensor& q, const at::Tensor& parameters, const std::string& spec,
           const at::Tensor& positions)
      : prepared(prepare(spec, {.head_dim = q.size(3), .heads = q.size(1)}, q.size(1),
                         length_of(positions, q.size(2)))) {
    const auto& encodings = prepared->spec.encodings;
    TORCH_CHECK(
        encodings.size() == 1 && rotates_by_position(encodings[0]),
        "[rope] spec must be one rope or xpos with angles from positions, and without values=true, "
        "but got ",
        to_text(prepared->spec));
    check_axes(kRope, "positions", positions, prepared->plan.terms().axes);
    values = split_parameters(*prepared, parameters);
    tables = rotary_tables(prepared->plan, 0, &values, own);
  }
  [[nodiscard]] bool learns() const { return prepared->parameter_count > 0; }

  std::shared_ptr<const Prepared> prepared;
  std::vector<Parameters> values;
  std::vector<std::unique_ptr<RotaryCache>> own;
  const RotaryCache* tables;
};

std::vector<std::int64_t> ids_of(const at::Tensor& positions, const at::Tensor& q) {
  if (positions.defined()) {
    const auto* ids = positions.data_ptr<std::int64_t>();
    return {ids, ids + positions.numel()};
  }
  const std::vector<std::int64_t> offsets(q.size(0), 0);
  return ref::offset_positions(offsets, q.size(2));
}

at::Tensor turn_float64(const Rotation& r, Role role, const at::Tensor& x,
                        const std::vector<std::int64_t>& ids, bool transposed) {
  const ref::RopeShape shape{x.size(0), x.size(1), x.size(2), x.size(3)};
  const auto values = values_of(x);
  const Rotary& rotary = r.tables->rotary();
  return tensor_of(transposed ? ref::rope_backward(rotary, role, shape, values, ids, values).x
                              : ref::rope(rotary, role, shape, values, ids),
                   x);
}

Pair rope_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& parameters,
              std::string spec, const OptionalTensor& positions, bool transposed) {
  check_rows(kRope, "q", q, q);
  check_rows(kRope, "k", k, q);
  const at::Tensor places = full_positions(kRope, "positions", positions, q.size(0), q.size(2));
  const Rotation rotation(q, parameters, spec, places);
  if (q.scalar_type() == at::kDouble) {
    const auto ids = ids_of(places, q);
    return {turn_float64(rotation, Role::kQuery, q, ids, transposed),
            turn_float64(rotation, Role::kKey, k, ids, transposed)};
  }
  const at::Tensor q_rows = with_contiguous_rows(q);
  const at::Tensor k_rows = with_contiguous_rows(k);
  const at::Tensor q_out = at::empty_like(q_rows);
  const at::Tensor k_out = at::empty_like(k_rows);
  RopeCall call;
  call.q = view_of(q_rows);
  call.q_out = view_of(q_out);
  if (k.numel() > 0) {
    call.k = view_of(k_rows);
    call.k_out = view_of(k_out);
  }
  call.tables = rotation.tables;
  call.positions = view_of_positions(places);
  call.transposed = transposed;
  rope(call).throw_if_error();
  return {q_out, k_out};
}

std::vector<double> frequency_gradient(const Rotation& r, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& dq, const at::Tensor& dk,
                                       const at::Tensor& positions) {
  const Rotary& rotary = r.tables->rotary();
  std::vector<double> gradient(rotary.groups() * rotary.pairs(), 0.0);
  if (q.scalar_type() == at::kDouble) {
    const auto ids = ids_of(positions, q);
    const auto add = [&](Role role, const at::Tensor& x, const at::Tensor& dx) {
      const auto part =
          ref::rope_backward(rotary, role, {x.size(0), x.size(1), x.size(2), x.size(3)},
                             values_of(x), ids, values_of(dx));
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += part.inv_freq[i];
    };
    add(Role::kQuery, q, dq);
    add(Role::kKey, k, dk);
    return gradient;
  }
  const std::array<at::Tensor, 4> rows = {with_contiguous_rows(q), with_contiguous_rows(k),
                                          with_contiguous_rows(dq), with_contiguous_rows(dk)};
  RopeFrequencyGradientCall call;
  call.q = view_of(rows[0]);
  call.dq_out = view_of(rows[2]);
  if (k.numel() > 0) {
    call.k = view_of(rows[1]);
    call.dk_out = view_of(rows[3]);
  }
  call.tables = r.tables;
  call.positions = view_of_positions(positions);
  call.dinv_freq = gradient;
  rope_frequency_gradient(call).throw_if_error();
  return gradient;
}

at::Tensor frequency_gradient_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                  const at::Tensor& dk, const at::Tensor& parameters,
                                  std::string spec, const OptionalTensor& positions) {
  const at::Tensor places = full_positions(kRope, "positions", positions, q.size(0), q.size(2));
  const Rotation rotation(q, parameters, spec, places);
  const auto gradient = frequency_gradient(rotation, q, k, dq, dk, places);
  return at::tensor(ref::alpha_gradient(rotation.tables->rotary(), gradient), at::kDouble)
      .to(parameters.scalar_type());
}

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
                                .typed<decltype(rope_cpu)>();
  return kCall.call(q, k, parameters, std::move(spec), positions, transposed);
}
at::Tensor call_frequency_gradient(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                   const at::Tensor& dk, const at::Tensor& parameters,
                                   std::string spec, const OptionalTensor& positions) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_rope_frequency_gradient", "")
                                .typed<decltype(frequency_gradient_cpu)>();
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

// One coordinate per axis, [B, T, axes]: a single one serves all.
at::Tensor per_axis(const at::Tensor& places, std::int64_t axes) {
  const at::Tensor read = places.size(2) == axes ? places : places.narrow(2, 0, 1);
  return read.expand({places.size(0), places.size(1), axes}).contiguous();
}

// Each row in float64, by rotation alone.
at::Tensor rerotate_cpu(const at::Tensor& k, std::string spec, const at::Tensor& from,
                        const at::Tensor& to, std::string to_spec) {
  check_rows("rerotate", "k", k, k);
  const at::Tensor given_old =
      full_positions("rerotate", "from_positions", from, k.size(0), k.size(2));
  const at::Tensor given_new = full_positions("rerotate", "to_positions", to, k.size(0), k.size(2));
  const at::Tensor none = at::empty({0}, at::kFloat);
  const Rotation before(k, none, spec, given_old);
  const Rotation after(k, none, to_spec.empty() ? spec : to_spec, given_new);
  const Rotary& turn = before.tables->rotary();
  const at::Tensor old_places = per_axis(given_old, turn.axes.axes);
  const at::Tensor new_places = per_axis(given_new, turn.axes.axes);
  at::Tensor out = k.to(at::kDouble).contiguous().clone();
  const std::int64_t heads = k.size(1);
  const std::int64_t tokens = k.size(2);
  const auto axes = static_cast<std::size_t>(old_places.size(2));
  at::parallel_for(0, k.size(0) * heads * tokens, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = (row / (heads * tokens) * tokens + row % tokens);
      const auto width = static_cast<std::int64_t>(axes);
      rerotate(turn, {old_places.data_ptr<std::int64_t>() + at * width, axes},
               after.tables->rotary(), {new_places.data_ptr<std::int64_t>() + at * width, axes},
               turn.group_of(row / tokens % heads, heads),
               {out.data_ptr<double>() + row * k.size(3), static_cast<std::size_t>(k.size(3))});
    }
  });
  return out.to(k.scalar_type());
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

TORCH_LIBRARY_IMPL(posenc, CPU, m) {
  m.impl("_rope", rope_cpu);
  m.impl("_rope_frequency_gradient", frequency_gradient_cpu);
  m.impl("rerotate", rerotate_cpu);
}
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

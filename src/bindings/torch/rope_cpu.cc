// RoPE and xPos on the CPU: rotate q and k in one pass, the gradient of trained frequencies, and rerotate.
#include "kernels/attention_call.h"
#include "posenc/kernels/rope.h"
#include "torch/arguments.h"
#include "torch/register.h"

namespace posenc::ops {
namespace {

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
}  // namespace

POSENC_KERNELS(CPU, m) {
  m.impl("_rope", POSENC_KERNEL(rope_cpu));
  m.impl("_rope_frequency_gradient", POSENC_KERNEL(frequency_gradient_cpu));
  m.impl("rerotate", POSENC_KERNEL(rerotate_cpu));
}

}  // namespace posenc::ops

// RoPE and xPos on the GPU, and the moves of cached keys. Gradients are those of rope_ops.cc.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/composed/biases.h"
#include "torch/composed/rotations.h"
#include "torch/cuda/rotation.h"

namespace posenc::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

constexpr const char* kOp = "rope";

// Where tokens stand, with bounds; those of ids on the device are read back, since a position past a
// table must be known before anything is written.
struct Positions {
  Positions(const OptionalTensor& given, const at::Tensor& q)
      : ids(positions_on(q.device(), kOp, "positions", given, q.size(0), q.size(2))),
        range{0, std::max<std::int64_t>(q.size(2) - 1, 0)},
        length(q.size(2)) {
    if (!ids.defined() || given->numel() == 0) return;
    range = range_of(kOp, "positions", *given);
    length = std::max<std::int64_t>(range.most + 1, 1);
  }
  at::Tensor ids;
  PositionRange range;
  std::int64_t length;
};

struct Prepare {
  Prepare(const at::Tensor& q, const at::Tensor& parameters, const std::string& spec,
          const Positions& positions)
      : prepared(prepare(spec, {.head_dim = q.size(3), .heads = q.size(1)}, q.size(1),
                         positions.length)) {
    const auto& encodings = prepared->spec.encodings;
    TORCH_CHECK(
        encodings.size() == 1 && rotates_by_position(encodings[0]),
        "[rope] spec must be one rope or xpos with angles from positions, and without values=true, "
        "but got ",
        to_text(prepared->spec));
    check_axes(kOp, "positions", positions.ids, prepared->plan.terms().axes);
    const auto tensors = parameter_tensors(*prepared, parameters);
    if (!tensors[0].empty()) alpha = tensors[0][0];
  }
  std::shared_ptr<const Prepared> prepared;
  at::Tensor alpha;  // undefined where frequencies are constants
};

at::Tensor near(const at::Tensor& x) { return x.to(at::kCPU); }
OptionalTensor near(const OptionalTensor& x) {
  return x.has_value() && x->defined() ? OptionalTensor(x->to(at::kCPU)) : OptionalTensor();
}

Pair rope_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& parameters,
               std::string spec, const OptionalTensor& positions, bool transposed) {
  check_rows(kOp, "q", q, q);
  check_rows(kOp, "k", k, q);
  if (q.scalar_type() == at::kDouble) {  // the reference, where it runs
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("posenc::_rope", "")
                               .typed<decltype(rope_cuda)>();
    auto [q_out, k_out] =
        op.call(near(q), near(k), near(parameters), spec, near(positions), transposed);
    return {q_out.to(q.device()), k_out.to(q.device())};
  }
  const c10::DeviceGuard guard(q.device());
  const Positions places(positions, q);
  const Prepare made(q, parameters, spec, places);
  const at::Tensor q_rows = with_contiguous_rows(q);
  const at::Tensor k_rows = with_contiguous_rows(k);
  const at::Tensor q_out = at::empty_like(q_rows);
  const at::Tensor k_out = at::empty_like(k_rows);
  const CudaRotation rotation(*made.prepared, 0, made.alpha, places.range, q.device());
  rotation.turn({q_rows, k_rows, q_out, k_out}, places.ids, transposed);
  return {q_out, k_out};
}

at::Tensor frequency_gradient_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                   const at::Tensor& dk, const at::Tensor& parameters,
                                   std::string spec, const OptionalTensor& positions) {
  if (q.scalar_type() == at::kDouble) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("posenc::_rope_frequency_gradient", "")
                               .typed<decltype(frequency_gradient_cuda)>();
    return op
        .call(near(q), near(k), near(dq), near(dk), near(parameters), std::move(spec),
              near(positions))
        .to(q.device());
  }
  const c10::DeviceGuard guard(q.device());
  const Positions places(positions, q);
  const Prepare made(q, parameters, spec, places);
  const CudaRotation rotation(*made.prepared, 0, made.alpha, places.range, q.device());
  const at::Tensor sums =
      rotation.frequency_gradient(with_contiguous_rows(q), with_contiguous_rows(k),
                                  with_contiguous_rows(dq), with_contiguous_rows(dk), places.ids);
  return rotation.alpha_gradient(sums).to(parameters.scalar_type());
}

Rotary rotary_of(const std::string& spec, const at::Tensor& k, const Positions& positions) {
  const Prepare made(k, at::empty({0}, at::kFloat), spec, positions);
  return made.prepared->plan.terms().rotations[0];
}

at::Tensor rerotate_cuda(const at::Tensor& k, std::string spec, const at::Tensor& from,
                         const at::Tensor& to, std::string to_spec) {
  check_rows("rerotate", "k", k, k);
  const c10::DeviceGuard guard(k.device());
  const Positions old_places(from, k);
  const Positions new_places(to, k);
  const Rotary before = rotary_of(spec, k, old_places);
  const Rotary after = rotary_of(to_spec.empty() ? spec : to_spec, k, new_places);
  return composed_rerotation(before, old_places.ids, after, new_places.ids, k);
}

// Small tables whose formulas are on the host.
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  at::Device device(at::kCPU);
  for (std::size_t i = first; i < stack->size(); ++i) {
    if (!(*stack)[i].isTensor()) continue;
    const at::Tensor x = (*stack)[i].toTensor();
    if (!x.is_cpu()) device = x.device();
    (*stack)[i] = x.to(at::kCPU);
  }
  op.callBoxed(stack);
  const at::Tensor out = stack->back().toTensor();
  stack->back() = out.to(device);
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, CUDA, m) {
  m.impl("_rope", rope_cuda);
  m.impl("_rope_frequency_gradient", frequency_gradient_cuda);
  m.impl("rerotate", rerotate_cuda);
  for (const char* name : {"t5_buckets", "sinusoidal_vectors"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_host>());
  }
}

}  // namespace posenc::ops

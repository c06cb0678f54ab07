// Linear attention on the GPU: features with libtorch operations, rotations and scans with our kernels.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "kernels/cuda/linear_scan.h"
#include "kernels/linear_attention_setup.h"
#include "torch/composed/biases.h"
#include "torch/composed/composed.h"
#include "torch/composed/linear.h"
#include "torch/cuda/rotation.h"
#include "torch/cuda/stream.h"
#include "torch/linear_arguments.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "linear_attention";

using Forward = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

at::Tensor walk_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, Sees sees) {
  if (a.scalar_type() == at::kDouble || a.size(3) > cuda::kMostScanFeatures) {
    return walk_by_products(a, b, c, sees);
  }
  const at::Tensor out = at::empty({a.size(0), a.size(1), a.size(2), c.size(3)}, a.options());
  cuda::LinearScan scan;
  scan.count = a.size(0) * a.size(1);
  scan.tokens = a.size(2);
  scan.features = static_cast<int>(a.size(3));
  scan.values = static_cast<int>(c.size(3));
  scan.sees = sees == Sees::kEarlier ? cuda::ScanSees::kEarlier
              : sees == Sees::kLater ? cuda::ScanSees::kLater
                                     : cuda::ScanSees::kAll;
  if (scan.count == 0 || scan.tokens == 0) return out;
  const at::Tensor workspace = at::empty({static_cast<std::int64_t>(cuda::linear_scan_bytes(scan))},
                                         a.options().dtype(at::kByte));
  const std::array<at::Tensor, 3> rows = {a.contiguous(), b.contiguous(), c.contiguous()};
  scan.a = rows[0].data_ptr<float>();
  scan.b = rows[1].data_ptr<float>();
  scan.c = rows[2].data_ptr<float>();
  scan.out = out.data_ptr<float>();
  scan.workspace = workspace.data_ptr();
  cuda::linear_scan(scan, current_stream(a.device())).throw_if_error();
  return out;
}

class LinearCall {
 public:
  LinearCall(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS)
      : tokens_((check_rows(kOp, "q", q, q), check_rows(kOp, "k", k, q), check_rows(kOp, "v", v, q),
                 kOp),
                q, k, {causal, -1, -1, key_mask, cu_queries, cu_keys, q_positions, k_positions}),
        prepared_(prepare(spec, {.head_dim = q.size(3), .heads = q.size(1)}, k.size(1), k.size(2))),
        parameters_(parameter_tensors(*prepared_, parameters)),
        gradients_(parameters_.size()),
        of_q_(tokens_.side(Role::kQuery)),
        of_k_(tokens_.side(Role::kKey)) {
    rows = {q, k, v, &tokens_, linear_options(form, epsilon), causal};
    check(q, k, v);
    device.walk = walk_cuda;
    device.turn = [this](Role role, const at::Tensor& x, bool transposed) {
      return turn(role, x, transposed);
    };
    device.add_frequencies = [this](Role role, const at::Tensor& x, const at::Tensor& dy) {
      add_frequencies(role, x, dy);
    };
    exact_ = q.scalar_type() == at::kDouble;
    const PositionRange range{std::min(of_q_.least, of_k_.least), std::max(of_q_.most, of_k_.most)};
    for (std::size_t r = 0; !exact_ && r < terms().rotary.size(); ++r) {
      const auto& own = parameters_[terms().rotary[r]];
      rotations_.emplace_back(*prepared_, r, own.empty() ? at::Tensor() : own[0], range,
                              q.device());
    }
  }
  LinearCall(const LinearCall&) = delete;
  LinearCall& operator=(const LinearCall&) = delete;

  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] at::Tensor dparameters(const at::Tensor& like) const {
    return join_gradients(*prepared_, gradients_, like);
  }

  LinearRows rows;
  LinearDevice device;

 private:
  [[nodiscard]] const Terms& terms() const { return prepared_->plan.terms(); }

  void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    tokens_.check_axes(terms().axes);
    check_linear_options(prepared_->plan, rows.options).throw_if_error();
    check_linear_values(prepared_->plan, v.size(3)).throw_if_error();
    if (q.scalar_type() == at::kDouble) return;
    AttentionCall shapes;
    shapes.plan = &prepared_->plan;
    shapes.q = view_of(with_contiguous_rows(q));
    shapes.k = view_of(with_contiguous_rows(k));
    shapes.v = view_of(with_contiguous_rows(v));
    shapes.mask = tokens_.mask();
    check_attention_inputs(shapes).throw_if_error();
  }

  [[nodiscard]] const at::Tensor& ids(Role role) const {
    return role == Role::kQuery ? of_q_.ids : of_k_.ids;
  }

  at::Tensor turn(Role role, const at::Tensor& x, bool transposed) const {
    if (rotations_.empty()) return x;
    at::Tensor y = x.contiguous();
    const std::size_t count = rotations_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const CudaRotation& rotation = rotations_[transposed ? count - 1 - i : i];
      const at::Tensor out = i == 0 ? at::empty_like(y) : y;
      rotation.turn_one(role, y, out, ids(role), transposed);
      y = out;
    }
    return y;
  }

  // Last rotation first, as the gradient comes.
  void add_frequencies(Role role, const at::Tensor& x, const at::Tensor& dy) {
    bool learns = false;
    for (const std::size_t index : terms().rotary) learns |= !parameters_[index].empty();
    if (!learns) return;
    std::vector<at::Tensor> inputs = {x.contiguous()};
    for (std::size_t r = 0; r + 1 < rotations_.size(); ++r) {
      inputs.push_back(at::empty_like(inputs.back()));
      rotations_[r].turn_one(role, inputs[r], inputs.back(), ids(role), false);
    }
    at::Tensor d = dy.contiguous().clone();
    for (std::size_t r = rotations_.size(); r-- > 0;) {
      const std::size_t index = terms().rotary[r];
      if (!parameters_[index].empty()) {
        const at::Tensor sum = rotations_[r].frequency_gradient(inputs[r], {}, d, {}, ids(role));
        const at::Tensor one = rotations_[r].alpha_gradient(sum);
        auto& kept = gradients_[index];
        kept = {kept.empty() ? one : kept[0] + one};
      }
      rotations_[r].turn_one(role, d, d, ids(role), true);
    }
  }

  Tokens tokens_;
  std::shared_ptr<const Prepared> prepared_;
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<std::vector<at::Tensor>> gradients_;
  SidePositions of_q_;
  SidePositions of_k_;
  std::vector<CudaRotation> rotations_;
  bool exact_ = false;
};

at::Tensor near(const at::Tensor& x) { return x.to(at::kCPU); }
OptionalTensor near(const OptionalTensor& x) {
  return x.has_value() && x->defined() ? OptionalTensor(x->to(at::kCPU)) : OptionalTensor();
}

Forward forward_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  if (q.scalar_type() == at::kDouble) {  // the reference, where it runs
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("posenc::_linear_attention", "")
                               .typed<decltype(forward_cuda)>();
    auto [out, sums] = op.call(near(q), near(k), near(v), near(parameters), spec, form, epsilon,
                               causal, near(key_mask), near(cu_queries), near(cu_keys),
                               near(q_positions), near(k_positions));
    return {out.to(q.device()), sums.to(q.device())};
  }
  const c10::DeviceGuard guard(q.device());
  const LinearCall call(q, k, v, parameters, POSENC_LINEAR_NAMES);
  const LinearResult result = linear_forward(call.rows, call.device);
  return {result.out, result.sums};
}

Backward backward_cuda(const at::Tensor& grad_out, const at::Tensor& out, const at::Tensor& sums,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  if (q.scalar_type() == at::kDouble) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("posenc::_linear_attention_backward", "")
                               .typed<decltype(backward_cuda)>();
    auto [dq, dk, dv, dp] =
        op.call(near(grad_out), near(out), near(sums), near(q), near(k), near(v), near(parameters),
                spec, form, epsilon, causal, near(key_mask), near(cu_queries), near(cu_keys),
                near(q_positions), near(k_positions));
    return {dq.to(q.device()), dk.to(q.device()), dv.to(q.device()), dp.to(q.device())};
  }
  const c10::DeviceGuard guard(q.device());
  const LinearCall call(q, k, v, parameters, POSENC_LINEAR_NAMES);
  const LinearGradients g = linear_backward(call.rows, {out, sums}, grad_out, call.device);
  return {g.dq, g.dk, g.dv, call.dparameters(parameters)};
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, CUDA, m) {
  m.impl("_linear_attention", forward_cuda);
  m.impl("_linear_attention_backward", backward_cuda);
}

}  // namespace posenc::ops

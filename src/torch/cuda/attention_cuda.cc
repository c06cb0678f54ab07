// Attention on the GPU: the fused kernels where they serve the call, else libtorch's own operations.
// Site 2 runs before the kernels, in a pass of its own, and its gradient after theirs.
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <limits>

#include "kernels/attention_reference.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/decode.h"
#include "torch/cuda/bias_terms.h"
#include "torch/cuda/rotation.h"
#include "torch/cuda/stream.h"
#include "torch/device/biases.h"
#include "torch/device/composed.h"
#include "torch/device/paths.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention";

// 16-byte rows, as the kernels read them.
at::Tensor aligned(const at::Tensor& x) {
  bool fits = x.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
  for (int d = 0; d < 3; ++d) fits = fits && x.stride(d) % 8 == 0;
  return fits ? x : at::empty(x.sizes(), x.options()).copy_(x);
}

// Whether a launch happened; where the kernels do not serve a call after all (tables that do not fit
// into shared memory), it is composed. Other errors are thrown.
bool launched(const Status& status) {
  if (status.code() == StatusCode::kUnsupported) return false;
  status.throw_if_error();
  return true;
}

cuda::Tensor4 tensor4(const at::Tensor& x) {
  return {x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

// A call on the device.
class CudaCall {
 public:
  CudaCall(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
           const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS)
      : tokens_((check_rows(kOp, "q", q_in, q_in), check_rows(kOp, "k", k_in, q_in),
                 check_rows(kOp, "v", v_in, q_in), kOp),
                q_in, k_in,
                {causal, window_left, window_right, key_mask, cu_queries, cu_keys, q_positions,
                 k_positions}),
        device_(q_in.device()) {
    composed_.q = with_contiguous_rows(q_in);
    composed_.k = with_contiguous_rows(k_in);
    composed_.v = with_contiguous_rows(v_in);
    if (gate_k.has_value() && gate_k->defined()) {
      check_rows(kOp, "gate_k", *gate_k, q_in);
      composed_.gate_k = with_contiguous_rows(*gate_k);
    }
    composed_.prepared = prepare(spec, {.head_dim = q_in.size(3), .heads = q_in.size(1)},
                                 k_in.size(1), k_in.size(2));
    composed_.parameters = parameters;
    composed_.tokens = &tokens_;
    composed_.scale = scale;
    composed_.dropout = {dropout, static_cast<std::uint64_t>(seed)};
    composed_.keys_are_turned = keys_are_turned;
    check();
  }
  CudaCall(const CudaCall&) = delete;
  CudaCall& operator=(const CudaCall&) = delete;

  [[nodiscard]] const ComposedCall& composed() const { return composed_; }
  [[nodiscard]] bool fused() const {
    const auto type = composed_.q.scalar_type();
    const CudaProblem problem{type == at::kBFloat16 || type == at::kHalf, composed_.q.size(3),
                              composed_.q.size(2), tokens_.explicit_positions()};
    return cuda_obstacle(state(), problem).empty();
  }
  [[nodiscard]] const AttentionPlan::State& state() const {
    return composed_.prepared->plan.state();
  }
  [[nodiscard]] const Tokens& tokens() const { return tokens_; }
  [[nodiscard]] const at::Device& device() const { return device_; }

 private:
  // The checks of the CPU's kernels, which look at shapes and not at memory.
  void check() const {
    if (composed_.q.scalar_type() == at::kDouble) return;
    AttentionCall call;
    call.plan = &composed_.prepared->plan;
    call.q = view_of(composed_.q);
    call.k = view_of(composed_.k);
    call.v = view_of(composed_.v);
    if (composed_.gate_k.defined()) call.gate_k = view_of(composed_.gate_k);
    call.mask = tokens_.mask();
    call.dropout = composed_.dropout;
    check_attention_inputs(call).throw_if_error();
  }

  Tokens tokens_;
  at::Device device_;
  ComposedCall composed_;
};

// Queries and keys through site 2, and back.
class Turned {
 public:
  explicit Turned(const CudaCall& call)
      : call_(call), q(aligned(call.composed().q)), k(aligned(call.composed().k)) {
    const auto& state = call.state();
    if (state.rotary.empty()) return;
    of_q_ = call.tokens().side(Role::kQuery);
    of_k_ = call.tokens().side(Role::kKey);
    parameters_ = parameter_tensors(*call.composed().prepared, call.composed().parameters);
    const PositionRange range{std::min(of_q_.least, of_k_.least), std::max(of_q_.most, of_k_.most)};
    for (std::size_t r = 0; r < state.rotary.size(); ++r) {
      const auto& own = parameters_[state.rotary[r]];
      rotations_.emplace_back(*call.composed().prepared, r, own.empty() ? at::Tensor() : own[0],
                              range, call.device());
      q_inputs_.push_back(q);
      k_inputs_.push_back(k);
      forward(r);
    }
  }

  [[nodiscard]] double softmax_factor() const {
    double factor = 1.0;
    for (const CudaRotation& r : rotations_) factor *= r.rotary().softmax_factor;
    return factor;
  }
  [[nodiscard]] bool any() const { return !rotations_.empty(); }

  // From gradients at the turned rows to those at the plain ones, in place; adds to the gradients of
  // trained frequencies.
  void backward(const at::Tensor& dq, const at::Tensor& dk,
                std::vector<std::vector<at::Tensor>>& gradients) const {
    const bool keys = !call_.composed().keys_are_turned;
    for (std::size_t r = rotations_.size(); r-- > 0;) {
      const CudaRotation& rotation = rotations_[r];
      const std::size_t index = call_.state().rotary[r];
      if (!parameters_[index].empty()) {
        at::Tensor sum = rotation.frequency_gradient(q_inputs_[r], {}, dq, {}, of_q_.ids);
        if (keys) sum = sum + rotation.frequency_gradient(k_inputs_[r], {}, dk, {}, of_k_.ids);
        gradients[index] = {rotation.alpha_gradient(sum)};
      }
      turn(r, {dq, keys ? dk : at::Tensor(), dq, keys ? dk : at::Tensor()}, true);
    }
  }

 private:
  // Whether queries and keys stand at the same places, so that one launch turns both.
  [[nodiscard]] bool together() const {
    return !of_q_.ids.defined() && !of_k_.ids.defined() && q.size(2) == k.size(2);
  }
  void turn(std::size_t r, const CudaRotation::Sides& sides, bool transposed) const {
    const CudaRotation& rotation = rotations_[r];
    if (together() && sides.k.defined()) {
      rotation.turn(sides, {}, transposed);
      return;
    }
    rotation.turn_one(Role::kQuery, sides.q, sides.q_out, of_q_.ids, transposed);
    if (!sides.k.defined()) return;
    rotation.turn_one(Role::kKey, sides.k, sides.k_out, of_k_.ids, transposed);
  }
  void forward(std::size_t r) {
    const bool keys = !call_.composed().keys_are_turned;
    CudaRotation::Sides sides{q, {}, at::empty(q.sizes(), q.options()), {}};
    if (keys) {
      sides.k = k;
      sides.k_out = at::empty(k.sizes(), k.options());
    }
    turn(r, sides, false);
    q = sides.q_out;
    if (keys) k = sides.k_out;
  }

  const CudaCall& call_;
  SidePositions of_q_;
  SidePositions of_k_;
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<CudaRotation> rotations_;
  std::vector<at::Tensor> q_inputs_;  // of each rotation
  std::vector<at::Tensor> k_inputs_;

 public:
  at::Tensor q;
  at::Tensor k;
};

// The kernels' parameters, and the memory that they point into.
class FusedCall {
 public:
  FusedCall(const CudaCall& call, const at::Tensor& out, const at::Tensor& lse)
      : call_(call), turned(call), v_(aligned(call.composed().v)) {
    const ComposedCall& c = call.composed();
    p.element = c.q.scalar_type() == at::kHalf ? cuda::Element::kFloat16 : cuda::Element::kBFloat16;
    p.batch = static_cast<std::int32_t>(c.q.size(0));
    p.heads = static_cast<std::int32_t>(c.q.size(1));
    p.kv_heads = static_cast<std::int32_t>(c.k.size(1));
    p.queries = static_cast<std::int32_t>(c.q.size(2));
    p.keys = static_cast<std::int32_t>(c.k.size(2));
    p.head_dim = static_cast<std::int32_t>(c.q.size(3));
    const double plain = 1.0 / std::sqrt(static_cast<double>(p.head_dim));
    p.scale =
        static_cast<float>((c.scale.has_value() ? *c.scale : plain) * turned.softmax_factor());
    p.q = tensor4(turned.q);
    p.k = tensor4(turned.k);
    p.v = tensor4(v_);
    p.out = tensor4(out);
    p.lse = lse.data_ptr<float>();
    fill_mask();
    fill_segments();
    parameters = parameter_tensors(*c.prepared, c.parameters);
    fill_table();
    fill_cope();
    if (c.dropout.active()) {
      p.dropout_threshold = c.dropout.threshold();
      p.dropout_scale = static_cast<float>(1.0 / (1.0 - c.dropout.rate));
      p.dropout_seed = c.dropout.seed;
    }
  }
  FusedCall(const FusedCall&) = delete;
  FusedCall& operator=(const FusedCall&) = delete;

  // Scratch that lives as long as this does.
  void give_workspace(std::size_t bytes) {
    if (bytes == 0) return;
    workspace_ = at::empty({static_cast<std::int64_t>(bytes)},
                           at::TensorOptions(call_.device()).dtype(at::kByte));
    p.workspace = workspace_.data_ptr();
    p.workspace_bytes = bytes;
  }

  [[nodiscard]] bool has_table() const { return !call_.state().biases.empty(); }
  [[nodiscard]] bool has_cope() const { return call_.state().cope.has_value(); }

 private:
  void fill_mask() {
    const AttentionMask mask = call_.tokens().mask();
    p.window_left = mask.window_left;
    p.window_right = mask.causal ? 0 : mask.window_right;
    p.key_mask = mask.key_mask;
    p.max_queries = p.queries;
    p.max_keys = p.keys;
  }

  void fill_segments() {
    if (!call_.tokens().packed()) return;
    AttentionCall shapes;
    shapes.q.shape = {p.batch, p.heads, p.queries, p.head_dim};
    shapes.k.shape = {p.batch, p.kv_heads, p.keys, p.head_dim};
    shapes.mask = call_.tokens().mask();
    p.max_queries = p.max_keys = 0;
    std::vector<std::int32_t> entries;
    for (const Segment& s : segments_of(shapes)) {
      for (const std::int64_t n : {s.batch, s.first_query, s.queries, s.first_key, s.keys}) {
        entries.push_back(static_cast<std::int32_t>(n));
      }
      p.max_queries = std::max(p.max_queries, static_cast<std::int32_t>(s.queries));
      p.max_keys = std::max(p.max_keys, static_cast<std::int32_t>(s.keys));
    }
    static_assert(sizeof(cuda::SegmentEntry) == 5 * sizeof(std::int32_t));
    segments_ = at::tensor(entries, at::kInt).to(call_.device());
    p.segments = reinterpret_cast<const cuda::SegmentEntry*>(segments_.data_ptr<std::int32_t>());
    p.segment_count = static_cast<std::int32_t>(entries.size() / 5);
  }

  // Distances that some query sees: from -before on.
  void fill_table() {
    if (!has_table()) return;
    const auto bounded = [](std::int64_t most, std::int64_t window) {
      return window >= 0 ? std::min(most, window) : most;
    };
    range.before = bounded(std::max(p.max_queries - 1, 0), p.window_right);
    const std::int64_t farthest = bounded(std::max(p.max_keys - 1, 0), p.window_left);
    range.span = range.before + farthest + 1;
    table_ = bias_table_cuda(*call_.composed().prepared, parameters, range, call_.device());
    p.toeplitz = {table_.data_ptr<float>(), range.span, range.before, range.span};
  }

  void fill_cope() {
    if (!has_cope()) return;
    const std::size_t index = *call_.state().cope;
    const auto& config = std::get<Cope>(call_.state().spec.encodings[index]);
    cope_table_ = parameters[index][0].to(at::kFloat).contiguous();
    p.cope.npos_max = static_cast<int>(config.npos_max);
    const bool interpolates = config.variant == Cope::Variant::kInterpolate;
    (interpolates ? p.cope.pos_emb : p.cope.slopes) = cope_table_.data_ptr<float>();
    if (config.logit_scale == Cope::LogitScale::kSqrtDim) {
      p.cope.logit_scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
    }
    p.cope.gates_see_bias = config.gates_see_bias;
    if (!turned.any()) return;
    plain_q_ = aligned(call_.composed().q);
    p.cope.plain_q = tensor4(plain_q_);
  }

  const CudaCall& call_;

 public:
  Turned turned;
  cuda::AttentionParams p;
  std::vector<std::vector<at::Tensor>> parameters;
  BiasTable range;

 private:
  at::Tensor v_, plain_q_, segments_, table_, cope_table_, workspace_;
};

at::Tensor empty_like_rows(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

AttentionForward composed_forward(const CudaCall& call) {
  const ComposedResult result = composed_attention(call.composed());
  return {result.out, result.lse};
}

AttentionForward attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  if (!call.fused()) return composed_forward(call);
  // Laid out as the meta function says: as q, where its channels are contiguous.
  const at::Tensor out = aligned(at::empty_like(call.composed().q));
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  if (q.numel() == 0 || k.size(2) == 0) {
    return {out.zero_(), lse.fill_(-std::numeric_limits<double>::infinity())};
  }
  FusedCall fused(call, out, lse);
  const bool decode = cuda::is_decode(fused.p);
  fused.give_workspace(decode ? cuda::decode_workspace_bytes(fused.p)
                              : cuda::forward_workspace_bytes(fused.p));
  const cuda::Stream stream = current_stream(q.device());
  const bool done = launched(decode ? cuda::launch_attention_decode(fused.p, stream)
                                    : cuda::launch_attention_forward(fused.p, stream));
  return done ? AttentionForward{out, lse} : composed_forward(call);
}

AttentionBackward fused_backward(const CudaCall& call, const at::Tensor& grad_out,
                                 const at::Tensor& out, const at::Tensor& lse,
                                 const at::Tensor& parameters) {
  const ComposedCall& c = call.composed();
  const at::Tensor rows_out = aligned(out);
  const at::Tensor rows_grad = aligned(grad_out.to(c.q.scalar_type()));
  const at::Tensor sums = lse.contiguous();
  const at::Tensor none = at::empty({0}, c.q.options());
  const at::Tensor dk = empty_like_rows(c.k);
  const at::Tensor dv = empty_like_rows(c.v);
  at::Tensor dq = empty_like_rows(c.q);
  if (c.q.numel() == 0 || c.k.numel() == 0) {
    return {dq.zero_(), dk.zero_(), dv.zero_(), none, at::zeros_like(parameters)};
  }
  FusedCall fused(call, rows_out, sums);
  cuda::AttentionBackwardParams b;
  b.forward = fused.p;
  b.grad_out = tensor4(rows_grad);
  b.dq = tensor4(dq);
  b.dk = tensor4(dk);
  b.dv = tensor4(dv);
  const auto floats = at::TensorOptions(call.device()).dtype(at::kFloat);
  at::Tensor dtable;
  at::Tensor dcope;
  at::Tensor dplain;
  if (fused.has_table()) {
    dtable = at::empty({c.q.size(1), fused.range.span}, floats);
    b.dtoeplitz = dtable.data_ptr<float>();
  }
  if (fused.has_cope()) {
    dcope = at::empty(fused.parameters[*call.state().cope][0].sizes(), floats);
    b.dpos_emb = dcope.data_ptr<float>();
    if (fused.turned.any()) {
      dplain = empty_like_rows(c.q);
      b.dplain_q = tensor4(dplain);
    }
  }
  fused.give_workspace(cuda::backward_workspace_bytes(b));
  b.forward.workspace = fused.p.workspace;
  b.forward.workspace_bytes = fused.p.workspace_bytes;
  if (!launched(cuda::launch_attention_backward(b, current_stream(call.device())))) {
    return composed_attention_backward(c, grad_out);
  }
  std::vector<std::vector<at::Tensor>> gradients(fused.parameters.size());
  if (dtable.defined()) {
    gradients = bias_table_gradient(*c.prepared, fused.parameters, fused.range, dtable);
  }
  if (dcope.defined()) gradients[*call.state().cope] = {dcope};
  fused.turned.backward(dq, dk, gradients);
  if (dplain.defined()) dq.add_(dplain);
  return {dq, dk, dv, none, join_gradients(*c.prepared, gradients, parameters)};
}

AttentionBackward attention_backward_cuda(const at::Tensor& grad_out, const at::Tensor& out,
                                          const at::Tensor& lse, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters,
                                          POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  if (!call.fused()) return composed_attention_backward(call.composed(), grad_out);
  return fused_backward(call, grad_out, out, lse, parameters);
}

// Weights and CoPE's positions, for looking inside: in float64, as on the CPU.
AttentionForward inside_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  ComposedCall exact = call.composed();
  for (at::Tensor* x : {&exact.q, &exact.k, &exact.v, &exact.gate_k, &exact.parameters}) {
    if (x->defined()) *x = x->to(at::kDouble);
  }
  const ComposedResult result = composed_attention(exact);
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor positions =
      result.cope_positions.defined()
          ? result.cope_positions
          : at::empty({0}, at::TensorOptions(q.device()).dtype(at::kDouble));
  return {result.weights.to(type), positions.to(type)};
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, CUDA, m) {
  m.impl("_attention", attention_cuda);
  m.impl("_attention_backward", attention_backward_cuda);
  m.impl("_attention_inside", inside_cuda);
}

}  // namespace posenc::ops

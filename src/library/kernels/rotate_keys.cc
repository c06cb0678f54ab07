// Keys on their way into a cache.
#include <cstring>

#include "kernels/attention_plan.h"
#include "kernels/guarded.h"
#include "kernels/view_checks.h"
#include "posenc/kernels/rope.h"

namespace posenc {
namespace {

constexpr const char* kOp = "rotate_keys";

Status check_keys(const AttentionPlan::State& state, const ConstTensorView& k,
                  const TensorView& k_out) noexcept {
  if (Status s = check_view(kOp, "k", k); !s.ok()) return s;
  if (k.heads() != state.kv_heads || k.channels() != state.shape.head_dim) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] k must have %lld heads of %lld channels but got %lld of %lld", kOp,
                          static_cast<long long>(state.kv_heads),
                          static_cast<long long>(state.shape.head_dim),
                          static_cast<long long>(k.heads()), static_cast<long long>(k.channels()));
  }
  if (Status s = check_same_shape(kOp, "k_out", k_out, "k", k); !s.ok()) return s;
  if (Status s = check_view(kOp, "k_out", k_out); !s.ok()) return s;
  return check_output(kOp, "k_out", k_out, k);
}

// A rotated key in a cache must fit every later query.
Status check_rotations(const AttentionPlan::State& state) {
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    const Encoding& encoding = state.spec.encodings[state.rotary[r]];
    const bool constant = state.tables[r] != nullptr && !follows_length(encoding, state.lengths);
    if (constant && rotates_by_position(encoding)) continue;
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the rotation of %s is not a function of the position alone; cache "
                          "unrotated keys and leave keys_are_turned false",
                          kOp, traits(encoding).name.data());
  }
  return {};
}

void copy_rows(const ConstTensorView& from, const TensorView& to) {
  const std::size_t bytes = static_cast<std::size_t>(from.channels()) * dtype_size(from.dtype);
  for (std::int64_t b = 0; b < from.batch(); ++b) {
    for (std::int64_t h = 0; h < from.heads(); ++h) {
      for (std::int64_t t = 0; t < from.tokens(); ++t) {
        std::memmove(static_cast<std::byte*>(to.data) + to.row_offset(b, h, t),
                     static_cast<const std::byte*>(from.data) + from.row_offset(b, h, t), bytes);
      }
    }
  }
}

Status run(const AttentionPlan::State& state, const ConstTensorView& k, const TensorView& k_out,
           const PositionsView& positions) {
  if (Status s = check_rotations(state); !s.ok() || k.empty()) return s;
  if (state.rotary.empty()) copy_rows(k, k_out);
  ConstTensorView from = k;
  for (const std::unique_ptr<RotaryCache>& tables : state.tables) {
    RopeCall call{.k = from, .k_out = k_out, .tables = tables.get(), .positions = positions};
    call.q = ConstTensorView(nullptr, k.dtype, {k.batch(), 0, k.tokens(), k.channels()}, k.stride);
    call.q_out = {nullptr, k.dtype, call.q.shape, k.stride};
    if (Status s = rope(call); !s.ok()) return s;
    from = k_out;
  }
  return {};
}

}  // namespace

Status rotate_keys(const AttentionPlan& plan, const ConstTensorView& k, const TensorView& k_out,
                   const PositionsView& positions) noexcept {
  const AttentionPlan::State& state = plan.state();
  if (Status s = check_keys(state, k, k_out); !s.ok()) return s;
  return guarded(kOp, [&] { return run(state, k, k_out, positions); });
}

}  // namespace posenc

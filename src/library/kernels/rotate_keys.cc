// Keys on their way into a cache.
#include <cstring>

#include "core/thread_pool.h"
#include "kernels/guarded.h"
#include "kernels/input_angles.h"
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
    const Rope* of_input = rope_of_input(state, r);
    const bool fits = of_input != nullptr ? !of_input->values : rotates_by_position(encoding);
    if (constant && fits) continue;
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the rotation of %s follows the length, is trained or rotates "
                          "values; cache unrotated keys and leave keys_are_turned false",
                          kOp, traits(encoding).name.data());
  }
  return {};
}

// The input of angles of a rotation: as many rows as keys or more, which are those of the tokens before.
Status check_angles(const AttentionPlan::State& state, const SpecInput& wanted,
                    const ConstTensorView& input, const ConstTensorView& k) noexcept {
  const InputInfo& info = wanted.info;
  const char* name = info.name.c_str();
  if (Status s = check_view(kOp, name, input); !s.ok()) return s;
  if (input.dtype != DType::kFloat32) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s must be float32 but got %s", kOp,
                          name, dtype_name(input.dtype));
  }
  const bool fits = input.batch() == k.batch() && input.heads() == state.kv_heads &&
                    input.tokens() >= k.tokens() && input.channels() == info.channels;
  if (fits) return {};
  using Long = long long;
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] %s must be [%lld, %lld, %lld or more, %lld] but got [%lld, %lld, "
                        "%lld, %lld]",
                        kOp, name, static_cast<Long>(k.batch()), static_cast<Long>(state.kv_heads),
                        static_cast<Long>(k.tokens()), static_cast<Long>(info.channels),
                        static_cast<Long>(input.batch()), static_cast<Long>(input.heads()),
                        static_cast<Long>(input.tokens()), static_cast<Long>(input.channels()));
}

Status check_inputs(const AttentionPlan::State& state, const ConstTensorView& k,
                    const RotatedInputs& given) noexcept {
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    if (rope_of_input(state, r) == nullptr) continue;
    if (given.inputs.size() != state.inputs.size()) {
      return Status::format(StatusCode::kInvalidArgument,
                            "[%s] inputs must be %s but got %zu tensors", kOp,
                            state.input_names.c_str(), given.inputs.size());
    }
    const std::size_t input = first_input(state.inputs, state.rotary[r]);
    if (Status s = check_angles(state, state.inputs[input], given.inputs[input], k); !s.ok()) {
      return s;
    }
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

// One row after another: angles are running sums.
void rotate_head(const AttentionPlan::State& state, std::size_t r, const ConstTensorView& k,
                 const TensorView& k_out, const RotatedInputs& given, std::int64_t batch,
                 std::int64_t head) {
  const cpu::RopeRowPlan plan = rope_plan(state.rotations[r], DType::kFloat32);
  AlignedFloats row(static_cast<std::size_t>(k.channels()));
  AlignedFloats cos(plan.pairs);
  AlignedFloats sin(plan.pairs);
  AlignedFloats wide_cos(2 * plan.pairs);
  AlignedFloats wide_sin(2 * plan.pairs);
  const cpu::RopeAngles angles = plan.interleaved
                                     ? cpu::RopeAngles{wide_cos.data(), wide_sin.data()}
                                     : cpu::RopeAngles{cos.data(), sin.data()};
  InputAngleRows rows(state, r, given.inputs, batch, head);
  const std::int64_t tokens = given.inputs[first_input(state.inputs, state.rotary[r])].tokens();
  const std::int64_t before = tokens - k.tokens();
  for (std::int64_t t = rope_of_input(state, r)->running ? 0 : before; t < tokens; ++t) {
    rows.read(t, given.key_mask != nullptr && given.key_mask[batch * tokens + t] == 0);
    if (t < before) continue;
    rows.write(cos.data(), sin.data());
    if (plan.interleaved) {
      cpu::expand_angles(plan, cos.data(), sin.data(), wide_cos.data(), wide_sin.data());
    }
    read_row(k, batch, head, t - before, row.size(), row.data());
    auto* bytes = reinterpret_cast<std::byte*>(row.data());
    cpu::turn_rows(plan, bytes, 0, bytes, 0, 1, angles, 0);
    write_row(k_out, batch, head, t - before, row.data());
  }
}

Status rotate_by_position(const RotaryCache* tables, const ConstTensorView& k,
                          const TensorView& k_out, const PositionsView& positions) {
  RopeCall call{.k = k, .k_out = k_out, .tables = tables, .positions = positions};
  call.q = ConstTensorView(nullptr, k.dtype, {k.batch(), 0, k.tokens(), k.channels()}, k.stride);
  call.q_out = {nullptr, k.dtype, call.q.shape, k.stride};
  return rope(call);
}

Status run(const AttentionPlan::State& state, const ConstTensorView& k, const TensorView& k_out,
           const PositionsView& positions, const RotatedInputs& given) {
  if (Status s = check_rotations(state); !s.ok()) return s;
  if (Status s = check_inputs(state, k, given); !s.ok() || k.empty()) return s;
  if (state.rotary.empty()) copy_rows(k, k_out);
  ConstTensorView from = k;
  for (std::size_t r = 0; r < state.rotary.size(); ++r, from = k_out) {
    if (rope_of_input(state, r) == nullptr) {
      const Status s = rotate_by_position(state.tables[r].get(), from, k_out, positions);
      if (!s.ok()) return s;
      continue;
    }
    parallel_for(k.batch() * k.heads(), [&](std::int64_t matrix, int) {
      rotate_head(state, r, from, k_out, given, matrix / k.heads(), matrix % k.heads());
    });
  }
  return {};
}

}  // namespace

Status rotate_keys(const AttentionPlan& plan, const ConstTensorView& k, const TensorView& k_out,
                   const PositionsView& positions, const RotatedInputs& inputs) noexcept {
  const AttentionPlan::State& state = plan.state();
  if (Status s = check_keys(state, k, k_out); !s.ok()) return s;
  return guarded(kOp, [&] { return run(state, k, k_out, positions, inputs); });
}

}  // namespace posenc

// The checks of an attention call: everything is looked at before anything is written.
#include <algorithm>

#include "core/thread_pool.h"
#include "kernels/attention_cache.h"
#include "kernels/attention_chain.h"
#include "kernels/key_mask.h"
#include "kernels/paged_cache.h"
#include "kernels/view_checks.h"

namespace posenc {
namespace {

constexpr const char* kOp = "attention";
using Long = long long;

Status mismatch(const char* name, const char* what, std::int64_t wanted,
                std::int64_t got) noexcept {
  return Status::format(StatusCode::kInvalidArgument,
                        "[attention] %s must have %lld %s but got %lld", name,
                        static_cast<Long>(wanted), what, static_cast<Long>(got));
}

// The types that a tensor with a row per key may have.
enum class RowType { kOfQueries, kAny, kAnyOrInt8, kFloat32 };

RowType row_type(KeyTypes types, bool float32 = false) noexcept {
  if (float32) return RowType::kFloat32;
  return types == KeyTypes::kAny ? RowType::kAny : RowType::kOfQueries;
}

// A tensor with a row per key.
Status check_keys(const char* name, const ConstTensorView& x, const AttentionCall& call,
                  std::int64_t heads, std::int64_t channels, RowType type) noexcept {
  const bool may_be_int8 = type == RowType::kAnyOrInt8;
  if (Status s = (may_be_int8 ? check_cache_view : check_view)(kOp, name, x); !s.ok()) return s;
  const bool float32 = type == RowType::kFloat32;
  const DType wanted = float32 ? DType::kFloat32 : call.q.dtype;
  if (type != RowType::kAny && !may_be_int8 && x.dtype != wanted) {
    return Status::format(StatusCode::kInvalidArgument, "[attention] %s must be %s%s but got %s",
                          name, dtype_name(wanted), float32 ? "" : " as q is", dtype_name(x.dtype));
  }
  if (x.batch() != call.q.batch())
    return mismatch(name, "batch entries", call.q.batch(), x.batch());
  if (x.heads() != heads) return mismatch(name, "heads", heads, x.heads());
  if (x.tokens() != call.k.tokens()) return mismatch(name, "tokens", call.k.tokens(), x.tokens());
  if (x.channels() != channels) return mismatch(name, "channels", channels, x.channels());
  return {};
}

Status check_token_inputs(const AttentionCall& call, KeyTypes types) noexcept {
  const AttentionPlan::State& state = call.plan->state();
  if (call.inputs.size() != state.inputs.size()) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] inputs must be %s but got %zu tensors",
                          state.input_names.c_str(), call.inputs.size());
  }
  for (std::size_t i = 0; i < state.inputs.size(); ++i) {
    const InputInfo& info = state.inputs[i].info;
    const std::int64_t heads = info.head_count(state.shape.heads, state.kv_heads);
    if (Status s = check_keys(info.name.c_str(), call.inputs[i], call, heads, info.channels,
                              row_type(types, info.float32));
        !s.ok()) {
      return s;
    }
  }
  return {};
}

Status check_inputs(const AttentionCall& call, KeyTypes types) noexcept {
  const AttentionPlan::State& state = call.plan->state();
  if (Status s = check_view(kOp, "q", call.q); !s.ok()) return s;
  if (call.q.heads() != state.shape.heads)
    return mismatch("q", "heads", state.shape.heads, call.q.heads());
  if (call.q.channels() != state.shape.head_dim) {
    return mismatch("q", "channels", state.shape.head_dim, call.q.channels());
  }
  const RowType type = types == KeyTypes::kAny ? RowType::kAnyOrInt8 : RowType::kOfQueries;
  if (Status s = check_keys("k", call.k, call, state.kv_heads, state.shape.head_dim, type); !s.ok())
    return s;
  if (Status s = check_keys("v", call.v, call, state.kv_heads, call.v.channels(), type); !s.ok())
    return s;
  if (call.v.channels() < 1) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] v must have at least 1 channel but got %lld",
                          static_cast<Long>(call.v.channels()));
  }
  return check_token_inputs(call, types);
}

std::int64_t longest_sequence(const AttentionCall& call) noexcept {
  std::int64_t longest = 0;
  const auto keys = call.mask.cu_keys.empty() ? call.mask.cu_queries : call.mask.cu_keys;
  for (std::size_t s = 1; s < keys.size(); ++s) longest = std::max(longest, keys[s] - keys[s - 1]);
  return keys.empty() ? call.k.tokens() : longest;
}

// A rotation that follows the length must have that of the call; keys rotated at an earlier length do
// not fit these queries, and nothing in them shows that length.
Status check_length(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  for (const std::size_t r : state.rotary) {
    const Encoding& rotation = state.spec.encodings[r];
    if (!follows_length(rotation, state.lengths)) continue;
    if (call.keys_are_turned) {
      return Status::format(StatusCode::kUnsupported,
                            "[attention] keys_are_turned needs a rotation that does not follow the "
                            "length, but %s does; give unrotated keys, or a spec fixed at one "
                            "length (at_length)",
                            traits(rotation).name.data());
    }
    const std::int64_t longest = longest_sequence(call);
    if (state.lengths.sequence >= longest) continue;
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] plan must be made for a sequence_length of at least %lld, "
                          "since %s follows the length, but got %lld",
                          static_cast<Long>(longest), traits(rotation).name.data(),
                          static_cast<Long>(state.lengths.sequence));
  }
  return {};
}

// A term that reads keys before their rotation cannot have them from a cache of rotated ones.
Status check_plain_keys(const AttentionCall& call) noexcept {
  const AttentionPlan::State& state = call.plan->state();
  if (!call.keys_are_turned || state.rotary.empty()) return {};
  for (const std::size_t index : state.pairs) {
    const auto* relative = state.config<RelativeQuery>(index);
    if (relative == nullptr || !relative->of_keys()) continue;
    return {StatusCode::kUnsupported,
            "[attention] relative_query(side=key) reads keys before their rotation, but "
            "keys_are_turned is set; give unrotated keys"};
  }
  return {};
}

// Positions of a plane: (y, x) on both sides, or one number on both.
Status check_plane(const AttentionCall& call) noexcept {
  const AttentionPlan::State& state = call.plan->state();
  const bool plane = std::any_of(state.pairs.begin(), state.pairs.end(), [&](std::size_t index) {
    return state.config<Relative2d>(index) != nullptr;
  });
  const PositionsView& q = call.q_positions;
  const PositionsView& k = call.k_positions;
  if (!plane || !q.given() || !k.given() || (q.axis_stride != 0) == (k.axis_stride != 0)) return {};
  const char* two = q.axis_stride != 0 ? "q_positions" : "k_positions";
  return Status::format(StatusCode::kInvalidArgument,
                        "[attention] relative_2d needs as many coordinates of queries as of keys, "
                        "but only %s have two; give both as [B, T, 2]",
                        two);
}

Status check_outputs(const AttentionCall& call) noexcept {
  const bool as_q = call.v.channels() == call.q.channels();
  if (Status s = check_same_shape(kOp, "out", call.out, as_q ? "q" : "q, with the channels of v,",
                                  output_shape(call));
      !s.ok()) {
    return s;
  }
  if (Status s = check_view(kOp, "out", call.out); !s.ok()) return s;
  for (const ConstTensorView* in : {&call.q, &call.k, &call.v}) {
    if (call.out.data != nullptr && call.out.data == in->data) {
      return {StatusCode::kInvalidArgument, "[attention] out must not be one of its inputs"};
    }
    if (call.block_table.given() && in != &call.q) continue;  // check_block_table sees the pools
    if (Status s = check_output(kOp, "out", call.out, *in); !s.ok()) return s;
  }
  const std::int64_t rows = call.q.batch() * call.q.heads() * call.q.tokens();
  if (!call.lse.empty() && std::ssize(call.lse) != rows) {
    return mismatch("lse", "entries", rows, std::ssize(call.lse));
  }
  return {};
}

// The rows of an input of gates, which is float32 (InputInfo), that are not hidden: row n of [B, H, T].
class GateRows {
 public:
  GateRows(const AttentionCall& call, const ConstTensorView& x)
      : call_(call),
        x_(x),
        mask_(call.mask.key_mask),
        channels_(static_cast<std::size_t>(x.channels())) {}

  [[nodiscard]] std::int64_t count() const { return x_.batch() * x_.heads() * x_.tokens(); }
  [[nodiscard]] TokenPlace place(std::int64_t n) const {
    return {n / x_.tokens() / x_.heads(), n / x_.tokens() % x_.heads(), n % x_.tokens()};
  }
  // The first value of rows `first` to `end` that is no gate, and its row: -1 for none.
  struct Wrong {
    std::int64_t row = -1;
    float value = 0.0f;
  };
  [[nodiscard]] Wrong find(std::int64_t first, std::int64_t end) const {
    for (std::int64_t n = first; n < end; ++n) {
      const TokenPlace at = place(n);
      if (at.token >= key_count(call_, at.batch)) continue;
      if (mask_ != nullptr && mask_[at.batch * x_.tokens() + at.token] == 0) continue;
      const auto* row = reinterpret_cast<const float*>(
          static_cast<const std::byte*>(x_.data) +
          key_offset(call_.block_table, x_, at.batch, at.head, at.token));
      bool fine = true;
      for (std::size_t c = 0; c < channels_; ++c) fine &= row[c] <= 0.0f;
      if (fine) continue;
      return {n, *std::find_if(row, row + channels_,
                               [](float x) { return !is_log_gate(static_cast<double>(x)); })};
    }
    return {};
  }
  // Every thread looks at a part of the rows. The first wrong one is the same for any number of threads.
  [[nodiscard]] Wrong find_all() const {
    const std::int64_t share =
        std::max<std::int64_t>(1, kValuesPerTask / static_cast<std::int64_t>(channels_));
    std::vector<Wrong> found(static_cast<std::size_t>((count() + share - 1) / share));
    parallel_for(std::ssize(found), [&](std::int64_t task, int) {
      found[task] = find(task * share, std::min(count(), (task + 1) * share));
    });
    const auto first =
        std::find_if(found.begin(), found.end(), [](const Wrong& w) { return w.row >= 0; });
    return first == found.end() ? Wrong{} : *first;
  }

 private:
  static constexpr std::int64_t kValuesPerTask = 1 << 15;

  const AttentionCall& call_;
  const ConstTensorView& x_;
  const std::uint8_t* mask_;
  std::size_t channels_;
};

// Refuses gates above 1 and NaN.
Status check_gates(const AttentionCall& call) {
  const std::vector<SpecInput>& inputs = call.plan->state().inputs;
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_gate(inputs[i].info) || call.inputs[i].empty()) continue;
      const GateRows rows(call, call.inputs[i]);
      const GateRows::Wrong wrong = rows.find_all();
      if (wrong.row < 0) continue;
      refuse_gate(inputs[i].info, static_cast<double>(wrong.value), rows.place(wrong.row));
    }
  } catch (const std::exception& problem) {
    return {StatusCode::kOutOfRange, problem.what()};
  }
  return {};
}

Status check_parameters(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  const std::size_t encodings = state.spec.encodings.size();
  if (call.parameters == nullptr && encodings > 0) {
    return {StatusCode::kInvalidArgument, "[attention] parameters must not be null"};
  }
  if (encodings > 0 && call.parameters->size() != encodings) {
    return mismatch("parameters", "entries, one per encoding,",
                    static_cast<std::int64_t>(encodings),
                    static_cast<std::int64_t>(call.parameters->size()));
  }
  for (std::size_t e = 0; e < encodings; ++e) {
    const std::vector<ParameterInfo> infos = parameters(state.spec.encodings[e], state.shape);
    const bool fits = (*call.parameters)[e].size() == infos.size();
    for (std::size_t p = 0; p < infos.size(); ++p) {
      const std::size_t got = fits ? (*call.parameters)[e][p].size() : 0;
      if (fits && got == static_cast<std::size_t>(infos[p].count())) continue;
      return Status::format(
          StatusCode::kInvalidArgument,
          "[attention] parameter %s of encoding %zu must have %lld entries but got %zu",
          infos[p].name.c_str(), e, static_cast<Long>(infos[p].count()), got);
    }
  }
  return {};
}

Status check_cumulative(const char* name, std::span<const std::int64_t> cumulative,
                        std::int64_t tokens) noexcept {
  PositionsView as_positions;
  as_positions.cumulative = cumulative;
  return as_positions.check(name, 1, tokens);
}

Status check_window(const char* name, std::int64_t width) noexcept {
  if (width >= -1) return {};
  return Status::format(StatusCode::kOutOfRange,
                        "[attention] %s must be -1 (no bound) or >= 0 but got %lld", name,
                        static_cast<Long>(width));
}

Status check_mask(const AttentionCall& call) noexcept {
  const AttentionMask& mask = call.mask;
  if (Status s = check_window("window_left", mask.window_left); !s.ok()) return s;
  if (Status s = check_window("window_right", mask.window_right); !s.ok()) return s;
  const bool packed = !mask.cu_queries.empty() || !mask.cu_keys.empty();
  const auto queries = mask.cu_queries.empty() ? mask.cu_keys : mask.cu_queries;
  const auto keys = mask.cu_keys.empty() ? mask.cu_queries : mask.cu_keys;
  if (packed) {
    if (Status s = check_cumulative("attention cu_queries", queries, call.q.tokens()); !s.ok())
      return s;
    if (Status s = check_cumulative("attention cu_keys", keys, call.k.tokens()); !s.ok()) return s;
    if (queries.size() != keys.size()) {
      return mismatch("cu_keys", "entries, as cu_queries has,", std::ssize(queries),
                      std::ssize(keys));
    }
  }
  if (!(call.dropout.rate >= 0.0 && call.dropout.rate < 1.0)) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] dropout rate must be in [0, 1) but got %g",
                          call.dropout.rate);
  }
  if (Status s = call.q_positions.check("attention q_positions", call.q.batch(), call.q.tokens());
      !s.ok()) {
    return s;
  }
  return call.k_positions.check("attention k_positions", call.k.batch(), call.k.tokens());
}

// What is behind the pointers of masks and positions, which a device's call does not have here.
Status check_values(const AttentionCall& call) noexcept {
  const std::int64_t axes = call.plan->state().axes;
  if (Status s =
          call.q_positions.check_values(kOp, "q_positions", call.q.batch(), call.q.tokens(), axes);
      !s.ok()) {
    return s;
  }
  if (Status s =
          call.k_positions.check_values(kOp, "k_positions", call.k.batch(), call.k.tokens(), axes);
      !s.ok()) {
    return s;
  }
  if (call.mask.key_mask == nullptr) return {};
  const std::span entries(call.mask.key_mask,
                          static_cast<std::size_t>(call.k.batch() * call.k.tokens()));
  const auto wrong = first_not_a_flag(entries);
  if (wrong == entries.end()) return {};
  return Status::format(StatusCode::kOutOfRange,
                        "[attention] key_mask must be 1, or 0 for padding, but got %d", *wrong);
}

}  // namespace

ConstTensorView output_shape(const AttentionCall& call) noexcept {
  ConstTensorView shape = call.q;
  shape.shape[3] = call.v.channels();
  return shape;
}

Status check_attention_inputs(const AttentionCall& call, KeyTypes types) noexcept {
  if (call.plan == nullptr)
    return {StatusCode::kInvalidArgument, "[attention] plan must not be null"};
  if (Status s = check_inputs(call, types); !s.ok()) return s;
  if (Status s = check_mask(call); !s.ok()) return s;
  if (Status s = check_plain_keys(call); !s.ok()) return s;
  if (Status s = check_plane(call); !s.ok()) return s;
  try {
    require_value_width(kOp, call.plan->state().spec, call.q.channels(), call.v.channels());
    if (Status s = check_cache(call); !s.ok()) return s;
    if (Status s = check_chain(call); !s.ok()) return s;
    return check_length(call);
  } catch (const std::exception& problem) {
    return {StatusCode::kInvalidArgument, problem.what()};
  }
}

Status check_attention(const AttentionCall& call, KeyTypes types) noexcept {
  if (call.block_table.given() && types == KeyTypes::kOfQueries) {
    return {StatusCode::kUnsupported,
            "[attention] block_table is for forward calls, without a backward and slices; gather "
            "the pages into k and v"};
  }
  if (Status s = check_attention_inputs(call, types); !s.ok()) return s;
  if (Status s = check_values(call); !s.ok()) return s;
  if (Status s = check_outputs(call); !s.ok()) return s;
  try {
    if (Status s = check_gates(call); !s.ok()) return s;
    return check_parameters(call);
  } catch (const std::exception& problem) {
    return {StatusCode::kInvalidArgument, problem.what()};
  }
}

}  // namespace posenc

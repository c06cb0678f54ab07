#include "posenc/kernels/capability.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention_reference.h"
#include "kernels/paged_cache.h"
#include "kernels/path_trace.h"

namespace posenc {
namespace {

std::string terms_of(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  std::string text;
  const auto add = [&](const std::string& term) { text += (text.empty() ? "" : ", ") + term; };
  if (!state.rotary.empty()) {
    add(joined_names(state, state.rotary) +
        (call.keys_are_turned ? " on queries (keys are already rotated)" : " while reading rows"));
  }
  if (!state.biases.empty()) {
    add(fmt::format("toeplitz table ({})", joined_names(state, state.biases)));
  }
  if (state.chain) add(fmt::format("a chain of steps ({})", joined_names(state, {*state.chain})));
  if (state.rotates_values) add("values rotated");
  if (state.fire) add("fire");
  if (state.cope) add("cope");
  if (state.token) add(fmt::format("sums over tokens ({})", joined_names(state, {*state.token})));
  if (state.relative_query) add("relative_query");
  if (!state.pairs.empty()) {
    add(fmt::format("pairs a block at a time ({})", joined_names(state, state.pairs)));
  }
  if (!state.temperatures.empty()) add("temperature");
  if (state.softcap) add("softcap");
  if (state.breaks_sticks) add("stick_breaking");
  if (!state.sinks.empty()) add("sink");
  if (call.block_table.given()) {
    add(is_decode(call) ? "pages read in place" : "pages copied into rows");
  }
  return text;
}

}  // namespace

std::string path_name(AttentionPath path) {
  switch (path) {
    case AttentionPath::kFused:
      return "fused";
    case AttentionPath::kDecode:
      return "decode";
    case AttentionPath::kReference:
      return "reference (float64)";
    case AttentionPath::kComposed:
      return "composed";
  }
  return "";
}
namespace {

// Why a pass is not fused, and what that costs.
std::string reason(const Capability::Pass& pass) {
  if (pass.why.empty()) return "";
  return (pass.path == AttentionPath::kComposed ? ", scores as tensors: " : ": ") + pass.why;
}

std::string size_name(std::int64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.1f} GiB", number / 0x1.0p30);
  if (bytes >= std::int64_t{1} << 20) return fmt::format("{:.1f} MiB", number / 0x1.0p20);
  return bytes == 0 ? "0" : fmt::format("{:.1f} KiB", number / 0x1.0p10);
}

// The reference's copies of all tensors in float64.
std::int64_t reference_bytes(const AttentionCall& call) {
  const auto elements = [](const ConstTensorView& x) {
    return x.batch() * x.heads() * x.tokens() * x.channels();
  };
  std::int64_t all =
      elements(call.q) + elements(output_shape(call)) + elements(call.k) + elements(call.v);
  for (const ConstTensorView& input : call.inputs) all += elements(input);
  return 8 * all;
}

}  // namespace

PathTrace& path_trace() {
  static PathTrace trace;
  return trace;
}

std::string obstacle_of(const AttentionCall& call) {
  const AttentionPlan::State& state = call.plan->state();
  if (!state.obstacle.empty()) return state.obstacle;
  const bool explicit_positions =
      call.q_positions.ids != nullptr || call.k_positions.ids != nullptr ||
      !call.q_positions.offsets.empty() || !call.k_positions.offsets.empty();
  if ((!state.biases.empty() || state.fire) && explicit_positions)
    return "biases with explicit positions";
  const bool of_keys = std::any_of(state.pairs.begin(), state.pairs.end(), [&](std::size_t index) {
    return state.config<RelativeQuery>(index) != nullptr;
  });
  if ((state.relative_query || of_keys) && explicit_positions) {
    return "relative_query with explicit positions";
  }
  return "";
}

namespace {

constexpr std::int64_t kFewQueries = 8;

// What rows of keys, read once, have no kernel for.
bool needs_blocks(const AttentionPlan::State& state) noexcept {
  if (state.rotates_values || !state.pairs.empty()) return true;
  return state.relative_query &&
         std::get_if<RelativeQuery>(&state.spec.encodings[*state.relative_query])->vectors;
}

}  // namespace

bool is_decode(const AttentionCall& call) noexcept {
  return call.q.tokens() <= kFewQueries && call.mask.cu_queries.empty() &&
         call.mask.cu_keys.empty() && !needs_blocks(call.plan->state());
}

std::string decode_obstacle(const AttentionCall& call) {
  if (call.q.tokens() > kFewQueries) {
    return "it has " + std::to_string(call.q.tokens()) + " queries, and a decode step has up to " +
           std::to_string(kFewQueries);
  }
  if (!call.mask.cu_queries.empty() || !call.mask.cu_keys.empty()) return "it has packed sequences";
  if (needs_blocks(call.plan->state())) {
    return "terms of " + to_text(call.plan->state().spec) + " need blocks of queries";
  }
  return obstacle_of(call);
}

Status check_path(const char* op, const AttentionCall& call, const std::string& obstacle) {
  if (obstacle.empty()) return {};
  if (call.keys_are_turned && !call.plan->state().rotary.empty()) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] keys_are_turned needs the fused path, but there is an obstacle: "
                          "%s; give plain keys",
                          op, obstacle.c_str());
  }
  if (call.allow_reference) return {};
  return Status::format(
      StatusCode::kUnsupported,
      "[%s] no fused kernel supports this call: %s; set allow_reference to run it "
      "through the float64 reference, which is slow",
      op, obstacle.c_str());
}

namespace {

// Of a call whose tensors have the shape of a cache without pages.
Capability unpaged_capability(const AttentionCall& call) {
  Capability found;
  found.has_backward = !call.block_table.given();
  const std::string obstacle = obstacle_of(call);
  if (!obstacle.empty()) {
    found.forward = {AttentionPath::kReference, obstacle, reference_bytes(call)};
    if (found.has_backward) {
      found.backward = {AttentionPath::kReference, obstacle, 2 * reference_bytes(call)};
    }
    return found;
  }
  const bool decodes = is_decode(call);
  found.forward = {decodes ? AttentionPath::kDecode : AttentionPath::kFused, "",
                   forward_bytes(call, decodes)};
  if (found.has_backward) found.backward = {AttentionPath::kFused, "", backward_bytes(call)};
  found.terms = terms_of(call);
  return found;
}

}  // namespace

Capability capability(const AttentionCall& call) {
  if (!call.block_table.given()) return unpaged_capability(call);
  AttentionCall sized = call;  // may be any call: explain() checks nothing
  const auto batch = std::max<std::int64_t>(call.q.batch(), 0);
  const std::vector<std::int64_t> room(static_cast<std::size_t>(batch),
                                       call.block_table.blocks * call.block_table.page);
  if (std::ssize(call.block_table.lengths) != batch) sized.block_table.lengths = room;
  return unpaged_capability(PagedCall(sized).call);
}

Capability capability(const Spec& spec, const AttentionShapes& shapes) {
  const AttentionPlan plan(spec, {.head_dim = shapes.head_dim, .heads = shapes.heads},
                           shapes.kv_heads, {std::max<std::int64_t>(shapes.keys, 1)},
                           {.mode = CachePolicy::Mode::kOnDemand});
  static constexpr std::int64_t kSome[] = {0};
  AttentionCall call;
  call.plan = &plan;
  call.q.shape = {shapes.batch, shapes.heads, shapes.queries, shapes.head_dim};
  call.k.shape = call.v.shape = {shapes.batch, shapes.kv_heads, shapes.keys, shapes.head_dim};
  if (shapes.value_dim != 0) call.v.shape[3] = shapes.value_dim;
  call.mask.causal = true;
  if (shapes.explicit_positions) call.q_positions.offsets = kSome;
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(shapes.batch), shapes.keys);
  if (shapes.paged) call.block_table = {.page = 1, .lengths = lengths};
  return unpaged_capability(call);
}

std::string to_string(const Capability& capability) {
  const Capability::Pass& forward = capability.forward;
  const Capability::Pass& backward = capability.backward;
  std::string text = path_name(forward.path);
  if (!capability.device.empty()) text += " on " + capability.device;
  text += reason(forward);
  if (!capability.terms.empty()) text += ", " + capability.terms;
  if (!capability.has_backward) {
    text += "; no backward";
    return forward.bytes < 0 ? text : fmt::format("{}; memory {}", text, size_name(forward.bytes));
  }
  text += "; backward: " + path_name(backward.path);
  if (backward.why != forward.why) text += reason(backward);
  if (forward.bytes < 0 || backward.bytes < 0) return text;
  return fmt::format("{}; memory {}, backward {}", text, size_name(forward.bytes),
                     size_name(backward.bytes));
}

std::string explain(const AttentionCall& call) {
  return call.plan == nullptr ? "nothing: plan must not be null" : to_string(capability(call));
}

std::string explain(const Spec& spec, const AttentionShapes& shapes) {
  return to_string(capability(spec, shapes));
}

}  // namespace posenc

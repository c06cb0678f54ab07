#include "kernels/linear_attention_setup.h"

#include <algorithm>

#include "kernels/view_checks.h"

namespace posenc {
namespace {

constexpr const char* kOp = "linear_attention";
constexpr auto kChunk = static_cast<std::int64_t>(cpu::kTokenChunk);

AttentionCall as_attention(const LinearAttentionCall& call) {
  AttentionCall same;
  same.plan = call.plan;
  same.parameters = call.parameters;
  same.q = call.q;
  same.k = call.k;
  same.v = call.v;
  same.out = call.out;
  same.mask = call.mask;
  same.q_positions = call.q_positions;
  same.k_positions = call.k_positions;
  return same;
}

Status check_mask_and_sums(const LinearAttentionCall& call) noexcept {
  if (call.mask.window_left >= 0 || call.mask.window_right >= 0) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] mask.%s must be -1: linear attention has no windows", kOp,
                          call.mask.window_left >= 0 ? "window_left" : "window_right");
  }
  const std::int64_t rows = call.q.batch() * call.q.heads() * call.q.tokens();
  if (call.denominator.empty() || std::ssize(call.denominator) == rows) {
    return {};
  }
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] denominator must have %lld entries but got %zu", kOp,
                        static_cast<long long>(rows), call.denominator.size());
}

// Looks every row up once, so that a position past a table is found before anything is written.
Status find_rows(const LinearSetup& setup, const RotaryCache& tables, const Segment& s, Role role) {
  const std::int64_t tokens = role == Role::kQuery ? s.queries : s.keys;
  RotaryCache::Row row{};
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t a = 0; a < tables.rotary().axes.axes; ++a) {
      const std::int64_t n = position_of(setup, s, role, t, a);
      if (Status found = tables.find_row(role, n, &row); !found.ok()) return found;
    }
  }
  return {};
}

void find_tables(LinearSetup& setup) {
  const AttentionPlan::State& state = *setup.state;
  for (std::size_t r = 0; r < state.rotary.size(); ++r) {
    setup.tables.push_back(
        rotary_tables(*setup.call->plan, r, setup.call->parameters, setup.own_tables));
    setup.axes = std::max(setup.axes, setup.tables.back()->rotary().axes.axes);
  }
}

}  // namespace

Status check_linear_options(const AttentionPlan& plan,
                            const LinearAttentionOptions& options) noexcept {
  for (const Encoding& encoding : plan.state().spec.encodings) {
    const auto& facts = traits(encoding);
    const auto* rope = std::get_if<Rope>(&encoding);
    if (rope != nullptr && !rotates_by_position(encoding)) {
      return Status::format(StatusCode::kUnsupported,
                            "[%s] rope.%s is not for linear attention yet; rotate queries and "
                            "keys by positions",
                            kOp, rope->values ? "values" : "angles");
    }
    if (facts.linear_attention) continue;
    return Status::format(
        StatusCode::kUnsupported,
        "[%s] %.*s needs a row of scores, which linear attention does not have; use "
        "rope or xpos",
        kOp, static_cast<int>(facts.name.size()), facts.name.data());
  }
  if (options.epsilon > 0.0) return {};
  return Status::format(StatusCode::kInvalidArgument, "[%s] epsilon must be > 0 but got %g", kOp,
                        options.epsilon);
}

Status check_linear_values(const AttentionPlan& plan, std::int64_t value_dim) noexcept {
  const std::int64_t wanted = plan.state().shape.head_dim;
  if (value_dim == wanted) return {};
  return Status::format(StatusCode::kInvalidArgument, "[%s] v must have %lld channels but got %lld",
                        kOp, static_cast<long long>(wanted), static_cast<long long>(value_dim));
}

Status check_linear(const LinearAttentionCall& call) noexcept {
  if (call.plan == nullptr) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] plan must not be null", kOp);
  }
  if (Status s = check_linear_options(*call.plan, call.options); !s.ok()) return s;
  if (Status s = check_linear_values(*call.plan, call.v.channels()); !s.ok()) return s;
  if (Status s = check_attention(as_attention(call)); !s.ok()) {
    // The arguments have the same names there; the message says "[attention..".
    return Status::format(s.code(), "[linear_%s", s.message() + 1);
  }
  return check_mask_and_sums(call);
}

Status prepare_linear(const LinearAttentionCall& call, LinearSetup& setup) {
  setup.call = &call;
  setup.state = &call.plan->state();
  setup.dim = static_cast<std::size_t>(call.q.channels());
  setup.segments = segments_of(as_attention(call));
  find_tables(setup);
  for (const RotaryCache* tables : setup.tables) {
    if (tables->policy().mode == CachePolicy::Mode::kOnDemand) continue;
    for (const Segment& s : setup.segments) {
      if (Status found = find_rows(setup, *tables, s, Role::kQuery); !found.ok()) return found;
      if (Status found = find_rows(setup, *tables, s, Role::kKey); !found.ok()) return found;
    }
  }
  return {};
}

std::int64_t sum_heads(const AttentionPlan::State& state) {
  for (const std::size_t index : state.rotary) {
    const auto* rope = state.config<Rope>(index);
    if (rope == nullptr) continue;
    if (state.kv_heads % std::ssize(rope->theta) != 0) {
      return state.shape.heads;
    }
  }
  return state.kv_heads;
}

std::int64_t position_of(const LinearSetup& setup, const Segment& s, Role role, std::int64_t token,
                         std::int64_t axis) {
  const bool query = role == Role::kQuery;
  const PositionsView& given = query ? setup.call->q_positions : setup.call->k_positions;
  if (!given.given()) return query ? token + s.place_offset() : token;
  return given.at(s.batch, (query ? s.first_query : s.first_key) + token, axis);
}

PlaceChunks::PlaceChunks(const Segment& s)
    : first_(std::min<std::int64_t>(0, s.place_offset())),
      end_(s.keys),
      size_((end_ - first_ + kChunk - 1) / kChunk) {}

PlaceChunk PlaceChunks::at(std::int64_t index) const {
  const std::int64_t first = first_ + index * kChunk;
  return {first, static_cast<std::size_t>(std::min(kChunk, end_ - first))};
}

}  // namespace posenc

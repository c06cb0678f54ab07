#include "kernels/attention_plan.h"

#include <algorithm>
#include <limits>

#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

// A window that may be added to a place: none, or one beyond every sequence, is 2^40.
std::int64_t bounded(std::int64_t window) {
  constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;
  return window >= 0 && window < kUnbounded ? window : kUnbounded;
}

}  // namespace

AttentionPlan::AttentionPlan(Spec spec, ModelShape shape, std::int64_t kv_heads, Lengths lengths,
                             CachePolicy policy)
    : state_(std::make_unique<State>()) {
  static_cast<Terms&>(*state_) = compile_terms(std::move(spec), shape, kv_heads, lengths);
  state_->policy = policy;
  for (std::size_t r = 0; r < state_->rotary.size(); ++r) {
    const bool trained = is_learnable(state_->spec.encodings[state_->rotary[r]]);
    state_->tables.push_back(trained ? nullptr
                                     : std::make_unique<RotaryCache>(state_->rotations[r], policy));
  }
}

const Terms& AttentionPlan::terms() const { return *state_; }

void AttentionSetup::share_with_sinks(std::int64_t head, float* row, float& lse) const {
  if (lse == -std::numeric_limits<float>::infinity()) return;  // no key
  for (const std::vector<float>& logits : sinks) {
    const SinkRow<float> rest = add_sink(lse, logits[head]);
    for (std::size_t c = 0; c < value_dim; ++c) row[c] *= rest.share;
    lse = rest.lse;
  }
}

AttentionSetup::AttentionSetup() = default;
AttentionSetup::AttentionSetup(AttentionSetup&&) noexcept = default;
AttentionSetup::~AttentionSetup() = default;

AttentionPlan::~AttentionPlan() = default;
AttentionPlan::AttentionPlan(AttentionPlan&&) noexcept = default;
AttentionPlan& AttentionPlan::operator=(AttentionPlan&&) noexcept = default;

const RotaryCache* rotary_tables(const AttentionPlan& plan, std::size_t r,
                                 const std::vector<Parameters>* parameters,
                                 std::vector<std::unique_ptr<RotaryCache>>& own) {
  const AttentionPlan::State& state = plan.state();
  if (state.tables[r] != nullptr) return state.tables[r].get();
  const std::size_t index = state.rotary[r];
  const auto& rope = *state.config<Rope>(index);
  own.push_back(std::make_unique<RotaryCache>(
      make_rotary(rope, state.shape, state.lengths, (*parameters)[index][0]),
      CachePolicy{.mode = CachePolicy::Mode::kOnDemand}));
  return own.back().get();
}

float AttentionSetup::scale_of(std::int64_t batch, std::int64_t head, std::int64_t query) const {
  if (query_factors.empty()) return scale;
  return scale * query_factors[(batch * call->q.heads() + head) * call->q.tokens() + query];
}

void AttentionSetup::read_relative(const Segment& s, std::int64_t head,
                                   const cpu::QueryBlock& block, AlignedFloats& rows) const {
  const RelativeQuery* config = relative_query();
  if (config == nullptr || !config->has_own_rows()) return;
  const std::size_t stride = relative_form.channel_stride;
  std::fill(rows.begin(), rows.end(), 0.0f);
  for (std::size_t r = 0; r < block.count; ++r) {
    const auto query = static_cast<std::int64_t>(block.first + r);
    float* row = rows.data() + r * stride;
    if (config->vectors) {
      read_row(call->q, s.batch, head, s.first_query + query, stride, row);
      const double* position = (*call->parameters)[*state->relative_query][2].data() +
                               static_cast<std::size_t>(head) * dim;
      for (std::size_t c = 0; c < dim; ++c) row[c] += static_cast<float>(position[c]);
      continue;
    }
    const std::int64_t place = s.place_offset() + query;
    if (place < 0) continue;  // a query before the first key
    const ConstTensorView& u = call->inputs[first_input(state->inputs, *state->relative_query)];
    read_key_row(call->block_table, u, s.batch, head, s.first_key + place, stride, row);
  }
}

const double* AttentionSetup::content_of(std::int64_t head) const {
  const RelativeQuery* config = relative_query();
  if (config == nullptr || !config->vectors) return nullptr;
  return (*call->parameters)[*state->relative_query][1].data() +
         static_cast<std::size_t>(head) * dim;
}

cpu::Workspace::Sizes AttentionSetup::workspace(std::int64_t keys, bool backward) const {
  const bool relative = relative_form.channels > 0;
  return {.padded_dim = padded_dim,
          .padded_value_dim = padded_value_dim,
          .npos_stride = cope_stride,
          .relative_stride = relative_form.stride,
          .relative_rows = relative ? relative_form.rows() : 0,
          .keys = static_cast<std::size_t>(keys),
          .breaks_sticks = state->breaks_sticks,
          .has_pairs = !state->pairs.empty(),
          .chains = state->chain.has_value(),
          .backward = backward};
}

std::vector<Segment> segments_of(const AttentionCall& call) {
  const auto queries = call.mask.cu_queries.empty() ? call.mask.cu_keys : call.mask.cu_queries;
  const auto keys = call.mask.cu_keys.empty() ? call.mask.cu_queries : call.mask.cu_keys;
  std::vector<Segment> segments;
  for (std::int64_t b = 0; b < call.q.batch(); ++b) {
    if (queries.empty()) {
      segments.push_back({b, 0, call.q.tokens(), 0, key_count(call, b)});
      continue;
    }
    for (std::size_t s = 0; s + 1 < queries.size(); ++s) {
      segments.push_back(
          {b, queries[s], queries[s + 1] - queries[s], keys[s], keys[s + 1] - keys[s]});
    }
  }
  return segments;
}

cpu::HeadProblem AttentionSetup::problem(const Segment& s, std::int64_t head) const {
  const std::int64_t kv_head = head / (state->shape.heads / state->kv_heads);
  cpu::HeadProblem p;
  p.dim = dim;
  p.padded_dim = padded_dim;
  p.value_dim = value_dim;
  p.padded_value_dim = padded_value_dim;
  p.keys = static_cast<std::size_t>(s.keys);
  p.k = k_of(s, kv_head);
  p.v = v_of(s, kv_head);
  p.chain = chain_of(s, kv_head);
  p.place_offset = s.place_offset();
  const AttentionMask& mask = call->mask;
  p.window_left = bounded(mask.window_left);
  p.window_right = mask.causal ? 0 : bounded(mask.window_right);
  p.has_pairs = !state->pairs.empty();
  p.breaks_sticks = state->breaks_sticks;
  if (p.breaks_sticks) p.window_right = -1;  // not even its own key
  if (mask.key_mask != nullptr) {
    p.key_mask = mask.key_mask + s.batch * call->k.tokens() + s.first_key;
  }
  p.softcap = static_cast<float>(state->softcap.value_or(0.0));
  if (toeplitz != nullptr) p.toeplitz = toeplitz->at(head);
  if (state->fire) p.fire = fire.problem(head);
  if (const RelativeQuery* config = relative_query()) {
    p.relative = relative_form;
    const std::size_t table = config->per_head ? static_cast<std::size_t>(head) : 0;
    p.relative.table =
        relative_tables.data() + table * relative_form.channels * relative_form.stride;
    p.relative.transposed =
        relative_transposed.data() + table * relative_form.entries() * relative_form.channel_stride;
  }
  if (state->token) {
    const std::int64_t row = s.batch * state->shape.heads + head;
    const std::int64_t at = row * call->k.tokens() + s.first_key;
    p.token_query = token_query.data() + at;
    p.token_key = token_key.data() + at;
    if (slice != nullptr) {  // queries have separate sums
      p.token_query = token_query.data() + row * call->q.tokens() - s.place_offset();
      p.token_first = s.place_offset();
    }
    p.token_running = token_form(state->spec.encodings[*state->token], 1.0)->running;
    p.prunes = !largest_keys.empty();
    if (p.prunes) {
      p.largest_key = largest_keys[(&s - segments.data()) * state->kv_heads + kv_head];
    }
  }
  if (const Cope* config = cope()) {
    p.cope.npos = cope_npos;
    p.cope.stride = cope_stride;
    const bool interpolates = config->variant == Cope::Variant::kInterpolate;
    (interpolates ? p.cope.embedding : p.cope.shared) =
        cope_table.data() + (interpolates ? 0 : static_cast<std::size_t>(head) * cope_stride);
    p.cope.gate_keys = gates_of(s, kv_head);
    p.cope.gate_scale = scale;
    p.cope.sees_bias = config->gates_see_bias;
    p.cope.open = config->gate_source == Cope::GateSource::kOpen;
  }
  p.dropout = call->dropout;
  p.batch = s.batch;
  p.head = head;
  p.first_query = s.first_query + (slice != nullptr ? slice->first_query : 0);
  p.first_key = s.first_key + s.key_place;
  return p;
}

}  // namespace posenc

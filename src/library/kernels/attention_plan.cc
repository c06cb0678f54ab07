#include "kernels/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "posenc/core/error.h"

namespace posenc {
namespace {

// Adds an encoding to the plan, or says what stands in the way of fusing it.
struct Sort {
  AttentionPlan::State& state;
  std::size_t index;

  template <class E>
  void operator()(const E& /*encoding*/) const {
    if constexpr (RotaryEncoding<E>) {
      state.rotary.push_back(index);
    } else if constexpr (BiasEncoding<E>) {
      static_assert(DistanceBias<E>, "a bias that is not Toeplitz needs a modifier of its own");
      state.biases.push_back(index);
    } else if constexpr (TokenTerm<E>) {
      if (state.token) obstacle("more than one term per token");
      state.token = index;
    } else if constexpr (std::same_as<E, Sink>) {
      state.sinks.push_back(index);
    } else {
      static_assert(E::kTraits.site <= Site::kInput, "an encoding that no kernel would know of");
    }
  }
  void operator()(const Fire& /*fire*/) const {
    if (state.fire) obstacle("more than one fire");
    state.fire = index;
  }
  void operator()(const Cope& /*cope*/) const {
    if (state.cope) obstacle("more than one cope");
    state.cope = index;
  }
  void operator()(const Softcap& softcap) const {
    if (state.softcap) obstacle("more than one softcap");
    state.softcap = softcap.cap;
  }
  void obstacle(std::string what) const {
    if (state.obstacle.empty()) state.obstacle = std::move(what);
  }
};

void check_groups(AttentionPlan::State& state) {
  for (const std::size_t index : state.rotary) {
    const auto* rope = std::get_if<Rope>(&state.spec.encodings[index]);
    if (rope == nullptr || state.kv_heads % std::ssize(rope->theta) == 0) continue;
    if (state.obstacle.empty()) state.obstacle = "theta per head with fewer key heads than thetas";
  }
}

// A window that may be added to a place: none, or one beyond every sequence, is 2^40.
std::int64_t bounded(std::int64_t window) {
  constexpr std::int64_t kUnbounded = std::int64_t{1} << 40;
  return window >= 0 && window < kUnbounded ? window : kUnbounded;
}

}  // namespace

AttentionPlan::AttentionPlan(Spec spec, ModelShape shape, std::int64_t kv_heads, Lengths lengths,
                             CachePolicy policy)
    : state_(std::make_unique<State>()) {
  require_attention_part("attention", spec);
  validate(spec, shape);
  if (kv_heads < 1 || shape.heads % kv_heads != 0) {
    throw Error(ErrorKind::kOutOfRange,
                {.scope = "attention",
                 .key = "kv_heads",
                 .rule = fmt::format("must divide the heads ({})", shape.heads),
                 .value = std::to_string(kv_heads),
                 .hint = ""});
  }
  state_->spec = std::move(spec);
  state_->shape = shape;
  state_->kv_heads = kv_heads;
  state_->lengths = lengths;
  state_->policy = policy;
  state_->inputs = token_inputs(state_->spec, shape);
  state_->input_names = names_of(state_->inputs);
  for (std::size_t i = 0; i < state_->spec.encodings.size(); ++i) {
    std::visit(Sort{*state_, i}, state_->spec.encodings[i]);
  }
  check_groups(*state_);
  for (const std::size_t index : state_->rotary) {
    const Encoding& encoding = state_->spec.encodings[index];
    Rotary rotary = rotary_of(encoding, shape, lengths);
    state_->axes = std::max(state_->axes, rotary.axes.axes);
    state_->tables.push_back(is_learnable(encoding)
                                 ? nullptr
                                 : std::make_unique<RotaryCache>(std::move(rotary), policy));
  }
}

void AttentionSetup::share_with_sinks(std::int64_t head, float* row, float& lse) const {
  if (lse == -std::numeric_limits<float>::infinity()) return;  // no key
  for (const std::vector<float>& logits : sinks) {
    const SinkRow<float> rest = add_sink(lse, logits[head]);
    for (std::size_t c = 0; c < dim; ++c) row[c] *= rest.share;
    lse = rest.lse;
  }
}

AttentionPlan::~AttentionPlan() = default;
AttentionPlan::AttentionPlan(AttentionPlan&&) noexcept = default;
AttentionPlan& AttentionPlan::operator=(AttentionPlan&&) noexcept = default;

const RotaryCache* rotary_tables(const AttentionPlan::State& state, std::size_t r,
                                 const std::vector<Parameters>* parameters,
                                 std::vector<std::unique_ptr<RotaryCache>>& own) {
  if (state.tables[r] != nullptr) return state.tables[r].get();
  const std::size_t index = state.rotary[r];
  const auto& rope = std::get<Rope>(state.spec.encodings[index]);
  own.push_back(std::make_unique<RotaryCache>(
      make_rotary(rope, state.shape, state.lengths, (*parameters)[index][0]),
      CachePolicy{.mode = CachePolicy::Mode::kOnDemand}));
  return own.back().get();
}

std::vector<Segment> segments_of(const AttentionCall& call) {
  const auto queries = call.mask.cu_queries.empty() ? call.mask.cu_keys : call.mask.cu_queries;
  const auto keys = call.mask.cu_keys.empty() ? call.mask.cu_queries : call.mask.cu_keys;
  std::vector<Segment> segments;
  for (std::int64_t b = 0; b < call.q.batch(); ++b) {
    if (queries.empty()) {
      segments.push_back({b, 0, call.q.tokens(), 0, call.k.tokens()});
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
  p.keys = static_cast<std::size_t>(s.keys);
  p.k = k_of(s, kv_head);
  p.v = v_of(s, kv_head);
  p.place_offset = s.place_offset();
  const AttentionMask& mask = call->mask;
  p.window_left = bounded(mask.window_left);
  p.window_right = mask.causal ? 0 : bounded(mask.window_right);
  if (mask.key_mask != nullptr) {
    p.key_mask = mask.key_mask + s.batch * call->k.tokens() + s.first_key;
  }
  p.softcap = static_cast<float>(state->softcap.value_or(0.0));
  if (toeplitz != nullptr) p.toeplitz = toeplitz->at(head);
  if (state->fire) p.fire = fire.problem(head);
  if (state->token) {
    const std::int64_t at = (s.batch * state->shape.heads + head) * call->k.tokens() + s.first_key;
    p.token_query = token_query.data() + at;
    p.token_key = token_key.data() + at;
    p.token_running = token_form(state->spec.encodings[*state->token], 1.0)->running;
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
  p.first_query = s.first_query;
  p.first_key = s.first_key;
  return p;
}

}  // namespace posenc

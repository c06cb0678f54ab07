#include "torch/cuda/fused_call.h"

#include <cmath>

#include "kernels/cuda/fire_tables.h"
#include "kernels/cuda/token_prune.h"
#include "torch/composed/paths.h"
#include "torch/cuda/bias_terms.h"
#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

cuda::Element element_of(at::ScalarType type) {
  if (type == at::kFloat) return cuda::Element::kFloat32;
  return type == at::kHalf ? cuda::Element::kFloat16 : cuda::Element::kBFloat16;
}

}  // namespace

cuda::Tensor4 tensor4(const at::Tensor& x) {
  return {x.data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

FusedCall::FusedCall(const CudaCall& call, const at::Tensor& to_out, const at::Tensor& to_lse)
    : call_(call),
      turned(call),
      out(to_out),
      lse(to_lse),
      v_(aligned(to_width(call.composed().v, call.composed().q.size(3)))) {
  const ComposedCall& c = call.composed();
  fill_shapes();
  p.scale =
      static_cast<float>(c.scale.value_or(default_scale(p.head_dim)) * turned.softmax_factor());
  p.q = tensor4(turned.q);
  p.k = tensor4(turned.k);
  p.v = tensor4(v_);
  p.out = tensor4(out);
  p.lse = lse.data_ptr<float>();
  parameters = parameter_tensors(*c.prepared, c.parameters);
  fill_mask();
  fill_segments();
  fill_range();
  fill_table();
  fill_fire();
  fill_cope();
  fill_tokens();
  fill_relative();
  fill_sinks();
  fill_dropout();
  p.softcap = static_cast<float>(call.terms().softcap.value_or(0.0));
}

void FusedCall::give_workspace(std::size_t bytes) {
  if (bytes == 0) return;
  workspace_ = at::empty({static_cast<std::int64_t>(bytes)},
                         at::TensorOptions(call_.device()).dtype(at::kByte));
  p.workspace = workspace_.data_ptr();
  p.workspace_bytes = bytes;
}

void FusedCall::fill_shapes() {
  const ComposedCall& c = call_.composed();
  p.element = element_of(c.q.scalar_type());
  p.float_parts = float_parts(call_.terms(), call_.problem());
  p.batch = static_cast<std::int32_t>(c.q.size(0));
  p.heads = static_cast<std::int32_t>(c.q.size(1));
  p.kv_heads = static_cast<std::int32_t>(c.k.size(1));
  p.queries = static_cast<std::int32_t>(c.q.size(2));
  p.keys = static_cast<std::int32_t>(c.k.size(2));
  p.head_dim = static_cast<std::int32_t>(c.q.size(3));
  p.breaks_sticks = call_.terms().breaks_sticks;
}

void FusedCall::fill_mask() {
  const AttentionMask mask = call_.tokens().mask();
  p.window_left = mask.window_left;
  p.window_right = mask.causal ? 0 : mask.window_right;
  p.key_mask = mask.key_mask;
  p.max_queries = p.queries;
  p.max_keys = p.keys;
  range.lowest_place = std::min(p.keys - p.queries, 0);
}

void FusedCall::fill_segments() {
  if (!call_.tokens().packed()) return;
  AttentionCall shapes;
  shapes.q.shape = {p.batch, p.heads, p.queries, p.head_dim};
  shapes.k.shape = {p.batch, p.kv_heads, p.keys, p.head_dim};
  shapes.mask = call_.tokens().mask();
  p.max_queries = p.max_keys = 0;
  range.lowest_place = 0;
  std::vector<std::int32_t> entries;
  for (const Segment& s : segments_of(shapes)) {
    for (const std::int64_t n : {s.batch, s.first_query, s.queries, s.first_key, s.keys}) {
      entries.push_back(static_cast<std::int32_t>(n));
    }
    p.max_queries = std::max(p.max_queries, static_cast<std::int32_t>(s.queries));
    p.max_keys = std::max(p.max_keys, static_cast<std::int32_t>(s.keys));
    range.lowest_place = std::min(range.lowest_place, s.place_offset());
  }
  static_assert(sizeof(cuda::SegmentEntry) == 5 * sizeof(std::int32_t));
  segments_ = at::tensor(entries, at::kInt).to(call_.device());
  p.segments = reinterpret_cast<const cuda::SegmentEntry*>(segments_.data_ptr<std::int32_t>());
  p.segment_count = static_cast<std::int32_t>(entries.size() / 5);
}

// Distances that some query sees, from -before on, and places that some query has.
void FusedCall::fill_range() {
  const auto bounded = [](std::int64_t most, std::int64_t window) {
    return window >= 0 ? std::min(most, window) : most;
  };
  BiasTable& distances = range.distances;
  distances.before = bounded(std::max(p.max_queries - 1, 0), p.window_right);
  const std::int64_t farthest = bounded(std::max(p.max_keys - 1, 0), p.window_left);
  distances.span = distances.before + farthest + 1;
  range.places = p.max_keys - range.lowest_place;
}

void FusedCall::fill_table() {
  if (!has_table()) return;
  const BiasTable& distances = range.distances;
  table_ = bias_table_cuda(*call_.composed().prepared, parameters, distances, call_.device());
  p.toeplitz = {table_.data_ptr<float>(), distances.span, distances.before, distances.span};
}

void FusedCall::fill_fire() {
  if (!call_.terms().fire) return;
  const std::size_t index = *call_.terms().fire;
  const auto& config = *call_.terms().config<Fire>(index);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& x : parameters[index]) flat.push_back(x.reshape({-1}));
  const at::Tensor values = at::cat(flat).to(at::kDouble);
  const cuda::FireTablesCall tables{
      values.data_ptr<double>(), config.width,         config.init_threshold, p.heads,
      range.distances.before,    range.distances.span, range.lowest_place,    range.places};
  fire_tables_ = at::empty({static_cast<std::int64_t>(cuda::fire_tables_bytes(tables))},
                           at::TensorOptions(call_.device()).dtype(at::kByte));
  cuda::fill_fire_tables(tables, fire_tables_.data_ptr(), p.fire, current_stream(call_.device()))
      .throw_if_error();
}

void FusedCall::fill_cope() {
  const Cope* config = call_.terms().config<Cope>(call_.terms().cope);
  if (config == nullptr) return;
  cope_table_ = parameters[*call_.terms().cope][0].to(at::kFloat).contiguous();
  p.cope.npos_max = static_cast<int>(config->npos_max);
  const bool interpolates = config->variant == Cope::Variant::kInterpolate;
  (interpolates ? p.cope.pos_emb : p.cope.slopes) = cope_table_.data_ptr<float>();
  p.cope.logit_scale = static_cast<float>(logit_factor(*config, p.head_dim));
  p.cope.gates_see_bias = config->gates_see_bias;
  const bool own_gates = has_gate_vectors(*config);
  if (own_gates) {
    const bool from_values = config->gate_source == Cope::GateSource::kValue;
    const auto& terms = call_.terms();
    gates_ =
        from_values ? v_ : aligned(call_.composed().inputs[first_input(terms.inputs, *terms.cope)]);
    p.cope.gate_k = tensor4(gates_);
  }
  // Slopes with gates from the scores use only the rotated queries.
  if (!turned.any() || !(interpolates || own_gates)) return;
  plain_q_ = aligned(call_.composed().q);
  p.cope.plain_q = tensor4(plain_q_);
}

void FusedCall::fill_tokens() {
  const Terms& terms = call_.terms();
  if (!terms.token) return;
  token_input_ =
      call_.composed().inputs[first_input(terms.inputs, *terms.token)].to(at::kFloat).contiguous();
  token_scan = {
      .form = *token_form(terms.spec.encodings[*terms.token], static_cast<double>(p.scale)),
      .x = token_input_.data_ptr<float>(),
      .batch = p.batch,
      .heads = p.heads,
      .input_heads = static_cast<std::int32_t>(token_input_.size(1)),
      .queries = p.queries,
      .keys = p.keys,
      .key_mask = p.key_mask,
      .segments = p.segments,
      .segment_count = p.segment_count};
  const auto doubles = at::TensorOptions(call_.device()).dtype(at::kDouble);
  token_queries_ = at::empty({p.batch, p.heads, p.queries}, doubles);
  token_keys_ = at::empty({p.batch, p.heads, p.keys}, doubles);
  p.tokens = {token_queries_.data_ptr<double>(), token_keys_.data_ptr<double>()};
  cuda::launch_token_sums(token_scan, token_queries_.data_ptr<double>(),
                          token_keys_.data_ptr<double>(), current_stream(call_.device()))
      .throw_if_error();
  if (prunes_keys(terms) && p.key_mask == nullptr && p.scale > 0.0f) fill_kept();
}

void FusedCall::fill_kept() {
  kept_ = at::empty({static_cast<std::int64_t>(cuda::token_prune_bytes(p))},
                    at::TensorOptions(call_.device()).dtype(at::kByte));
  cuda::fill_token_prune(p, kept_.data_ptr(), p.tokens, current_stream(call_.device()))
      .throw_if_error();
}

// Rows of the queries' own tokens. Where there are as many tokens as queries, they are in order.
at::Tensor FusedCall::rows_of_queries(at::Tensor u) {
  own_tokens = call_.composed().tokens->own_key_index();
  if (p.queries != p.keys || call_.tokens().packed()) {
    u = u.index_select(2, own_tokens.clamp_min(0))
            .masked_fill((own_tokens < 0).reshape({1, 1, -1, 1}), 0.0);
  }
  const std::int64_t missing = (8 - u.size(3) % 8) % 8;
  return aligned(missing == 0 ? u : at::constant_pad_nd(u, {0, missing}));
}

// The kernels read a row of u for every query, in the type of queries and in whole words of 16 bytes.
void FusedCall::fill_relative() {
  const Terms& terms = call_.terms();
  if (!terms.relative_query) return;
  const std::size_t index = *terms.relative_query;
  const auto& config = *terms.config<RelativeQuery>(index);
  const ComposedCall& c = call_.composed();
  relative_table_ = parameters[index][0].to(at::kFloat).contiguous();
  cuda::RelativeTable& to = p.relative;
  to.entries = static_cast<int>(config.entries());
  to.lowest = static_cast<int>(config.lowest());
  to.clips = config.beyond == RelativeQuery::Beyond::kClip;
  to.rank = static_cast<int>(config.channels(p.head_dim));
  to.table = relative_table_.data_ptr<float>();
  to.head_stride = config.table_of(1, p.head_dim);
  to.factor = static_cast<float>(config.factor(static_cast<double>(p.scale)));
  if (config.reads_input()) {
    relative_u_ = rows_of_queries(c.inputs[first_input(terms.inputs, index)].to(c.q.scalar_type()));
  } else if (turned.any()) {
    relative_u_ = aligned(c.q);
  }
  if (relative_u_.defined()) to.u = tensor4(relative_u_);
}

void FusedCall::fill_sinks() {
  for (const std::size_t index : call_.terms().sinks) {
    const at::Tensor one = parameters[index][0].to(at::kFloat).contiguous();
    sinks_ = sinks_.defined() ? at::logaddexp(sinks_, one) : one;
  }
  if (sinks_.defined()) p.sinks = sinks_.data_ptr<float>();
}

void FusedCall::fill_dropout() {
  const Dropout& dropout = call_.composed().dropout;
  if (!dropout.active()) return;
  p.dropout_threshold = dropout.threshold();
  p.dropout_scale = static_cast<float>(1.0 / (1.0 - dropout.rate));
  p.dropout_seed = dropout.seed;
}

}  // namespace posenc::ops

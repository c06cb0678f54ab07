#include "cases/attention_data.h"

#include <algorithm>
#include <cmath>

#include "posenc/kernels/quantize.h"

namespace posenc::cases {
namespace {

// Of tokens that stand at the end of `length` places: offsets, or ids that rise by more than one.
std::vector<std::int64_t> given_positions(const Case& c, std::int64_t tokens, std::int64_t length) {
  if (c.positions == PositionForm::kOffsets) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(c.batch), c.offset + length - tokens);
  }
  std::vector<std::int64_t> ids;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t t = length - tokens; t < length; ++t) {
      ids.push_back(c.offset + 2 * std::max<std::int64_t>(t, 0) + (t % 3 == 0 ? 1 : 0) + b);
    }
  }
  return ids;
}

// Random rows; those of an int8 cache with their scales.
void fill_rows(Rng& rng, double shift, Tensor& rows, Tensor& scales) {
  if (rows.view().dtype != DType::kInt8) return rows.fill_random(rng, 1.0, shift);
  const TensorShape shape = rows.view().shape;
  Tensor wide(shape, DType::kFloat32);
  wide.fill_random(rng, 1.0, shift);
  scales = Tensor({shape[0], shape[1], shape[2], 1}, DType::kFloat32);
  quantize_rows(wide.view(), rows.view(), scales.view()).throw_if_error();
}

// What the rows stand for.
std::vector<double> values_of(const Tensor& rows, const Tensor& scales) {
  std::vector<double> values = rows.values();
  const std::vector<double> factors = scales.values();
  const std::size_t channels = factors.empty() ? 1 : values.size() / factors.size();
  for (std::size_t n = 0; n < values.size() && !factors.empty(); ++n) {
    values[n] *= factors[n / channels];
  }
  return values;
}

}  // namespace

void fit_input(const InputInfo& info, std::vector<double>& values) {
  using Activation = InputInfo::Activation;
  const auto channels = static_cast<std::size_t>(info.channels);
  for (std::size_t n = 0; n < values.size(); ++n) {
    double& x = values[n];
    if (info.activation == Activation::kLogSigmoid) x = -softplus(-x);
    if (info.activation == Activation::kTwiceSigmoid) x = 2.0 / (1.0 + std::exp(-x));
    if (info.activation != Activation::kUnitNorm || (n + 1) % channels != 0) continue;
    double square = 0.0;
    for (std::size_t c = n + 1 - channels; c <= n; ++c) square += values[c] * values[c];
    for (std::size_t c = n + 1 - channels; c <= n; ++c) values[c] /= std::sqrt(square);
  }
}

AttentionData::AttentionData(const Case& config)
    : c(config),
      spec(parse_spec(c.spec)),
      shape{.head_dim = c.head_dim, .heads = c.heads},
      token_inputs(posenc::token_inputs(spec, shape)),
      plan(spec, shape, c.kv_heads, {std::max<std::int64_t>(c.keys, 1)}, c.policy),
      q({c.batch, c.heads, c.queries, c.head_dim}, c.dtype, c.order),
      k({c.batch, c.kv_heads, c.keys, c.head_dim}, c.cache_dtype.value_or(c.dtype), c.order),
      v({c.batch, c.kv_heads, c.keys, c.value_width()}, c.cache_dtype.value_or(c.dtype), c.order),
      out({c.batch, c.heads, c.queries, c.value_width()}, c.dtype, c.order),
      grad_out(out),
      dq(q),
      dk(k),
      dv(v) {
  c.causal = c.causal || chain_of(spec);
  Rng rng(c.seed);
  q.fill_random(rng, 1.0, c.query_shift);
  fill_rows(rng, c.gate_shift, k, k_scales);
  fill_rows(rng, 0.0, v, v_scales);
  grad_out.fill_random(rng);
  for (const SpecInput& input : token_inputs) {
    const std::int64_t heads = input.info.head_count(c.heads, c.kv_heads);
    const bool of_cache = c.cache_dtype && *c.cache_dtype != DType::kInt8;
    inputs.emplace_back(std::array{c.batch, heads, c.keys, input.info.channels},
                        input.info.float32 ? DType::kFloat32
                        : of_cache         ? *c.cache_dtype
                                           : c.dtype,
                        c.order);
    dinputs.push_back(inputs.back());
    inputs.back().fill_random(rng);
    std::vector<double> values = inputs.back().values();
    fit_input(input.info, values);
    inputs.back().assign(values);
    dinputs.back().fill(NAN);
  }
  for (Tensor* t : {&out, &dq, &dk, &dv}) t->fill(NAN);
  parameters = random_parameters(spec, shape, rng);
  row_sums.assign(c.batch * c.heads * c.queries, NAN);
  key_mask.assign(c.batch * c.keys, 1);
  for (std::uint8_t& m : key_mask) m = c.padding && rng.uniform() < 0.3 ? 0 : 1;
  if (c.positions != PositionForm::kPlaces) {
    q_ids = given_positions(c, c.queries, c.keys);
    k_ids = given_positions(c, c.keys, c.keys);
    q_ids32.assign(q_ids.begin(), q_ids.end());
    k_ids32.assign(k_ids.begin(), k_ids.end());
  }
}

AttentionMask AttentionData::mask() const {
  AttentionMask mask;
  mask.causal = c.causal;
  mask.window_left = c.window_left;
  mask.window_right = c.window_right;
  if (c.padding) mask.key_mask = key_mask.data();
  mask.cu_queries = c.cumulative;
  mask.cu_keys = c.cumulative_keys;
  return mask;
}

PositionsView AttentionData::positions(bool of_queries) const {
  PositionsView view;
  const auto& wide = of_queries ? q_ids : k_ids;
  if (c.positions == PositionForm::kOffsets) view.offsets = wide;
  if (c.positions == PositionForm::kIds64) view.ids = wide.data();
  if (c.positions == PositionForm::kIds32) {
    view.ids = (of_queries ? q_ids32 : k_ids32).data();
    view.ids_are_64_bit = false;
  }
  view.batch_stride = of_queries ? c.queries : c.keys;
  return view;
}

ExactAttention AttentionData::exact() const {
  ExactAttention exact{
      q.values(), values_of(k, k_scales), values_of(v, v_scales), grad_out.values(), {},
      parameters};
  for (const Tensor& input : inputs) exact.of_encodings.push_back(input.values());
  return exact;
}

ref::AttentionShape AttentionData::ref_shape() const {
  return {c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.head_dim, c.value_dim};
}

ref::Masking AttentionData::ref_masking() const {
  ref::Masking masking{c.causal, c.window_left, c.window_right,
                       {},       c.cumulative,  c.cumulative_keys};
  if (c.padding) masking.key_mask = key_mask;
  return masking;
}

ref::TokenPositions AttentionData::ref_positions() const {
  ref::TokenPositions positions;
  if (c.positions == PositionForm::kPlaces) return positions;
  positions.query = q_ids;
  positions.key = k_ids;
  if (c.positions == PositionForm::kOffsets) {
    positions.query = ref::offset_positions(q_ids, c.queries);
    positions.key = ref::offset_positions(k_ids, c.keys);
  }
  return positions;
}

// ALiBi's slopes sum distances times gradients of scores, which cancel.
double AttentionData::terms() const { return std::max(1.0, 0.01 * static_cast<double>(c.keys)); }

std::vector<Result> AttentionData::results(const char* sums, bool with_backward) const {
  std::vector<Result> all = {
      {"out", ResultKind::kValue, out.values()},
      {sums, ResultKind::kRowSum, std::vector<double>(row_sums.begin(), row_sums.end())}};
  if (!with_backward) return all;
  all.push_back({"dq", ResultKind::kGradient, dq.values()});
  all.push_back({"dk", ResultKind::kGradient, dk.values()});
  all.push_back({"dv", ResultKind::kGradient, dv.values()});
  for (std::size_t i = 0; i < dinputs.size(); ++i) {
    all.push_back({"d" + token_inputs[i].info.name, ResultKind::kGradient, dinputs[i].values()});
  }
  append_parameter_gradients(spec, dparameters, terms(), all);
  return all;
}

std::vector<Result> AttentionData::expected_gradients(const ref::AttentionGradients& g) const {
  std::vector<Result> all = {{"dq", ResultKind::kGradient, g.q},
                             {"dk", ResultKind::kGradient, g.k},
                             {"dv", ResultKind::kGradient, g.v}};
  for (std::size_t i = 0; i < token_inputs.size(); ++i) {
    all.push_back({"d" + token_inputs[i].info.name, ResultKind::kGradient, g.of_encodings[i]});
  }
  append_parameter_gradients(spec, g.parameters, terms(), all);
  return all;
}

std::vector<Variable> variables_of(ExactAttention& exact, const AttentionData& data) {
  std::vector<Variable> all = {{"q", &exact.q}, {"k", &exact.k}, {"v", &exact.v}};
  for (std::size_t i = 0; i < exact.of_encodings.size(); ++i) {
    all.push_back({data.token_inputs[i].info.name, &exact.of_encodings[i]});
  }
  for (std::size_t e = 0; e < exact.parameters.size(); ++e) {
    for (std::size_t p = 0; p < exact.parameters[e].size(); ++p) {
      all.push_back({parameter_label(data.spec, e, p), &exact.parameters[e][p]});
    }
  }
  return all;
}

}  // namespace posenc::cases

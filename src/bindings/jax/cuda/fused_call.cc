#include "jax/cuda/fused_call.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/bias_table.h"
#include "kernels/cuda/fire_tables.h"
#include "kernels/cuda/paths.h"

namespace posenc::jax {
namespace {

constexpr std::int64_t kMostExactChannels = 128;

bool is_packed(const AttentionMask& mask) {
  return !mask.cu_queries.empty() || !mask.cu_keys.empty();
}

// Sums of three bfloat16 numbers are exact; there are kernels for them up to 128 channels.
CudaProblem problem_of(const AttentionArguments& arguments) {
  const TensorView& q = arguments.q;
  const bool exact = q.channels() <= kMostExactChannels;
  const auto of_floats = exact ? CudaNumbers::kExactFloat32 : CudaNumbers::kSplitFloat32;
  return {.numbers = q.dtype == DType::kFloat32 ? of_floats : CudaNumbers::kHalf,
          .head_dim = q.channels(),
          .value_dim = arguments.v.channels(),
          .batch = q.batch(),
          .queries = q.tokens(),
          .keys = arguments.k.tokens(),
          .explicit_positions = arguments.q_positions || arguments.k_positions};
}

// What PyTorch's operators compute around the kernels with tensors.
std::string obstacle_of(const Terms& terms) {
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    if (rope_of_input(terms, r) != nullptr) return "no kernel for rope with angles from an input";
  }
  if (!terms.temperatures.empty()) return "no kernel for temperature";
  const RelativeQuery* relative = terms.config<RelativeQuery>(terms.relative_query);
  if (relative != nullptr && relative->reads_input()) {
    return "no kernel for relative_query with an input";
  }
  return "";
}

template <class E>
std::vector<std::int64_t> entries_of(const E& formula, std::int64_t before, std::int64_t span) {
  std::vector<std::int64_t> entries;
  if constexpr (ReadsEntries<E>) {
    for (std::int64_t n = 0; n < span; ++n) entries.push_back(formula.entry(n - before));
  }
  return entries;
}

cuda::Element element_of(DType type) {
  if (type == DType::kFloat32) return cuda::Element::kFloat32;
  return type == DType::kFloat16 ? cuda::Element::kFloat16 : cuda::Element::kBFloat16;
}

// Packed sequences. Rotations count within them; without them a batch entry is a sequence.
std::vector<Segment> packed_segments(const AttentionCall& call) {
  return is_packed(call.mask) ? segments_of(call) : std::vector<Segment>();
}

}  // namespace

cuda::Tensor4 tensor4(const TensorView& x) {
  return {x.data, x.stride[0], x.stride[1], x.stride[2]};
}

FusedCall::FusedCall(Device& on, const AttentionArguments& of, const TensorView& out, float* lse,
                     bool backward)
    : device(on),
      arguments(of),
      call(of.call()),
      segments((check_attention_inputs(call).throw_if_error(), require_kernel(backward),
                packed_segments(call))),
      rotated(on, of, call.keys_are_turned, segments) {
  fill_shapes();
  p.scale =
      static_cast<float>(call.scale.value_or(default_scale(p.head_dim)) * rotated.softmax_factor());
  p.q = tensor4(rotated.q);
  p.k = tensor4(rotated.k);
  p.v = tensor4(arguments.v);
  p.out = tensor4(out);
  p.lse = lse;
  fill_segments();
  fill_range();
  fill_table();
  fill_fire();
  fill_cope();
  fill_tokens();
  fill_relative();
  fill_sinks();
}

void FusedCall::require_kernel(bool backward) const {
  const CudaProblem problem = problem_of(arguments);
  std::string why = obstacle_of(terms());
  if (why.empty() && problem.value_dim != problem.head_dim) {
    why = "values of another width than queries";
  }
  if (why.empty()) {
    why = backward ? cuda_backward_obstacle(terms(), problem) : cuda_obstacle(terms(), problem);
  }
  if (why.empty()) return;
  throw Error(ErrorKind::kUnsupported,
              {.scope = "attention", .rule = "does not run on a GPU in JAX: " + why});
}

void FusedCall::give_workspace(std::size_t bytes) {
  if (bytes == 0) return;
  p.workspace = device.bytes(bytes);
  p.workspace_bytes = bytes;
}

float* FusedCall::floats(std::size_t encoding, std::size_t index) {
  const std::vector<double>& from = values()[encoding][index];
  return device.upload(std::vector<float>(from.begin(), from.end()));
}

void FusedCall::fill_shapes() {
  p.element = element_of(arguments.q.dtype);
  p.float_parts = float_parts(terms(), problem_of(arguments));
  p.batch = static_cast<std::int32_t>(arguments.q.batch());
  p.heads = static_cast<std::int32_t>(arguments.q.heads());
  p.kv_heads = static_cast<std::int32_t>(arguments.k.heads());
  p.queries = static_cast<std::int32_t>(arguments.q.tokens());
  p.keys = static_cast<std::int32_t>(arguments.k.tokens());
  p.head_dim = static_cast<std::int32_t>(arguments.q.channels());
  p.breaks_sticks = terms().breaks_sticks;
  p.softcap = static_cast<float>(terms().softcap.value_or(0.0));
  p.window_left = call.mask.window_left;
  p.window_right = call.mask.causal ? 0 : call.mask.window_right;
  p.key_mask = call.mask.key_mask;
  if (!call.dropout.active()) return;
  p.dropout_threshold = call.dropout.threshold();
  p.dropout_scale = static_cast<float>(1.0 / (1.0 - call.dropout.rate));
  p.dropout_seed = call.dropout.seed;
}

void FusedCall::fill_segments() {
  p.max_queries = p.queries;
  p.max_keys = p.keys;
  range.lowest_place = std::min(p.keys - p.queries, 0);
  if (segments.empty()) return;
  p.max_queries = p.max_keys = 0;
  range.lowest_place = 0;
  std::vector<cuda::SegmentEntry> entries;
  for (const Segment& s : segments) {
    const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    entries.push_back({narrow(s.batch), narrow(s.first_query), narrow(s.queries),
                       narrow(s.first_key), narrow(s.keys)});
    p.max_queries = std::max(p.max_queries, narrow(s.queries));
    p.max_keys = std::max(p.max_keys, narrow(s.keys));
    range.lowest_place = std::min(range.lowest_place, s.place_offset());
  }
  p.segments = device.upload(entries);
  p.segment_count = static_cast<std::int32_t>(entries.size());
}

void FusedCall::fill_range() {
  const auto bounded = [](std::int64_t most, std::int64_t window) {
    return window >= 0 ? std::min(most, window) : most;
  };
  range.before = bounded(std::max(p.max_queries - 1, 0), p.window_right);
  range.span = range.before + bounded(std::max(p.max_keys - 1, 0), p.window_left) + 1;
  range.places = p.max_keys - range.lowest_place;
}

void FusedCall::fill_table() {
  if (terms().biases.empty()) return;
  const cuda::DistanceTable table{.values = device.make<float>(p.heads * range.span),
                                  .heads = p.heads,
                                  .before = range.before,
                                  .span = range.span};
  bool first = true;
  for (const std::size_t index : terms().biases) {
    const Encoding& encoding = arguments.prepared->spec.encodings[index];
    cuda::BiasReads reads;
    for (std::size_t n = 0; n < values()[index].size(); ++n) {
      reads.parameters.at(n) = floats(index, n);
    }
    const auto entries = std::visit(
        [&]<class E>(const E& e) { return entries_of(e, range.before, range.span); }, encoding);
    if (!entries.empty()) reads.entries = device.upload(entries);
    cuda::add_to_table(encoding, reads, table, first, device.stream()).throw_if_error();
    first = false;
  }
  p.toeplitz = {table.values, range.span, range.before, range.span};
}

void FusedCall::fill_fire() {
  if (!terms().fire) return;
  const auto& config = *terms().config<Fire>(terms().fire);
  std::vector<double> flat;
  for (const std::vector<double>& x : values()[*terms().fire]) {
    flat.insert(flat.end(), x.begin(), x.end());
  }
  const cuda::FireTablesCall tables{
      device.upload(flat), config.width, config.init_threshold, p.heads,
      range.before,        range.span,   range.lowest_place,    range.places};
  cuda::fill_fire_tables(tables, device.bytes(cuda::fire_tables_bytes(tables)), p.fire,
                         device.stream())
      .throw_if_error();
}

void FusedCall::fill_cope() {
  const Cope* config = terms().config<Cope>(terms().cope);
  if (config == nullptr) return;
  const bool interpolates = config->variant == Cope::Variant::kInterpolate;
  p.cope.npos_max = static_cast<int>(config->npos_max);
  (interpolates ? p.cope.pos_emb : p.cope.slopes) = floats(*terms().cope, 0);
  p.cope.logit_scale = static_cast<float>(logit_factor(*config, p.head_dim));
  p.cope.gates_see_bias = config->gates_see_bias;
  const bool own_gates = has_gate_vectors(*config);
  if (own_gates) {
    const bool from_values = config->gate_source == Cope::GateSource::kValue;
    p.cope.gate_k = tensor4(
        from_values ? arguments.v : arguments.inputs[first_input(terms().inputs, *terms().cope)]);
  }
  if (rotated.any() && (interpolates || own_gates)) p.cope.plain_q = tensor4(arguments.q);
}

void FusedCall::fill_tokens() {
  if (!terms().token) return;
  const TensorView& x = arguments.inputs[first_input(terms().inputs, *terms().token)];
  if (x.dtype != DType::kFloat32) {
    refuse("attention", "inputs", "of a term per token must be float32 on a GPU",
           dtype_name(x.dtype));
  }
  token_scan = {.form = *token_form(arguments.prepared->spec.encodings[*terms().token],
                                    static_cast<double>(p.scale)),
                .x = static_cast<const float*>(x.data),
                .batch = p.batch,
                .heads = p.heads,
                .input_heads = static_cast<std::int32_t>(x.heads()),
                .queries = p.queries,
                .keys = p.keys,
                .key_mask = p.key_mask,
                .segments = p.segments,
                .segment_count = p.segment_count};
  auto* at_query = device.make<double>(std::int64_t{p.batch} * p.heads * p.queries);
  auto* at_key = device.make<double>(std::int64_t{p.batch} * p.heads * p.keys);
  p.tokens = {at_query, at_key};
  cuda::launch_token_sums(token_scan, at_query, at_key, device.stream()).throw_if_error();
}

void FusedCall::fill_relative() {
  if (!terms().relative_query) return;
  const auto& config = *terms().config<RelativeQuery>(terms().relative_query);
  cuda::RelativeTable& to = p.relative;
  to.entries = static_cast<int>(config.entries());
  to.lowest = static_cast<int>(config.lowest());
  to.clips = config.beyond == RelativeQuery::Beyond::kClip;
  to.rank = static_cast<int>(config.channels(p.head_dim));
  to.table = floats(*terms().relative_query, 0);
  to.head_stride = config.table_of(1, p.head_dim);
  to.factor = static_cast<float>(config.factor(static_cast<double>(p.scale)));
  if (rotated.any()) to.u = tensor4(arguments.q);
}

void FusedCall::fill_sinks() {
  if (terms().sinks.empty()) return;
  std::vector<float> sum(static_cast<std::size_t>(p.heads), -INFINITY);
  for (const std::size_t index : terms().sinks) {
    for (std::size_t h = 0; h < sum.size(); ++h) {
      const auto x = static_cast<float>(values()[index][0][h]);
      const float high = std::max(sum[h], x);
      sum[h] =
          std::isinf(high) ? high : high + std::log(std::exp(sum[h] - high) + std::exp(x - high));
    }
  }
  p.sinks = device.upload(sum);
}

}  // namespace posenc::jax

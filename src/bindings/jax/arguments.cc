#include "jax/arguments.h"

#include <algorithm>

namespace posenc::jax {
namespace {

std::shared_ptr<const PreparedSpec> prepare(std::string_view spec, const TensorView& q,
                                            std::int64_t kv_heads, std::int64_t length) {
  static PreparedCache<PreparedSpec> cache;
  return cache.get(std::string(spec), {.head_dim = q.channels(), .heads = q.heads()}, kv_heads,
                   length);
}

// The parameters that `count` arrays are: all of them, or all but the constants.
std::vector<SpecParameter> listed(const char* op, const PreparedSpec& prepared,
                                  std::int64_t count) {
  const bool all = count == static_cast<std::int64_t>(prepared.parameters.size());
  std::vector<SpecParameter> infos;
  std::string names;
  for (const SpecParameter& p : prepared.parameters) {
    if (!all && !p.info.trainable) continue;
    infos.push_back(p);
    names += (names.empty() ? "" : ", ") + p.info.name;
  }
  if (static_cast<std::int64_t>(infos.size()) != count) {
    refuse(op, "params", "must be those of " + to_text(prepared.spec) + " (" + names + ")",
           std::to_string(count) + " arrays");
  }
  return infos;
}

const std::uint8_t* key_mask_of(const char* op, const ffi::AnyBuffer& buffer, const TensorView& k) {
  if (buffer.element_type() != ffi::PRED) {
    refuse(op, "key_mask", "must be bool, true where a key is seen", "another type");
  }
  const std::int64_t keys = k.batch() * k.tokens();
  if (static_cast<std::int64_t>(buffer.element_count()) != keys) {
    refuse(op, "key_mask", "must be [batch, keys] with " + std::to_string(keys) + " entries",
           std::to_string(buffer.element_count()));
  }
  return static_cast<const std::uint8_t*>(buffer.untyped_data());
}

std::uint64_t seed_of(const char* op, const ffi::AnyBuffer& buffer, const HostRead& read) {
  if (buffer.element_type() != ffi::U32 || buffer.element_count() != 1) {
    refuse(op, "seed", "must be one uint32", std::to_string(buffer.element_count()) + " numbers");
  }
  return *static_cast<const std::uint32_t*>(read(buffer));
}

}  // namespace

GivenParameters parameters_of(Buffers& operands, const PreparedSpec& prepared, std::int64_t count,
                              const HostRead& read) {
  GivenParameters given;
  given.infos = listed(operands.op(), prepared, count);
  given.values = prepared.start;
  for (const SpecParameter& p : given.infos) {
    const ffi::AnyBuffer buffer = operands.next(p.info.name);
    floats_of(operands.op(), p.info.name, buffer, p.info.count());
    const auto* values = static_cast<const float*>(read(buffer));
    given.values[p.encoding][p.index].assign(values, values + p.info.count());
    given.buffers.push_back(buffer);
  }
  return given;
}

std::vector<std::span<float>> parameter_results(Buffers& results, const GivenParameters& given) {
  std::vector<std::span<float>> spans;
  for (const SpecParameter& p : given.infos) {
    spans.push_back(results.floats("d" + p.info.name, p.info.count()));
  }
  return spans;
}

void write_parameters(const GivenParameters& given, const std::vector<Parameters>& gradients,
                      const std::vector<std::span<float>>& results) {
  for (std::size_t i = 0; i < given.infos.size(); ++i) {
    const std::vector<double>& from = gradients[given.infos[i].encoding][given.infos[i].index];
    std::transform(from.begin(), from.end(), results[i].begin(),
                   [](double x) { return static_cast<float>(x); });
  }
}

AttentionArguments::AttentionArguments(Buffers& operands, const AttentionOptions& options,
                                       const HostRead& read)
    : options_(options) {
  q = operands.tensor("q");
  k = operands.tensor("k");
  v = operands.tensor("v");
  prepared = prepare(options.spec, q, k.heads(), k.tokens());
  parameters = parameters_of(operands, *prepared, options.parameters, read);
  for (const SpecInput& input : prepared->plan.terms().inputs) {
    inputs.push_back(operands.tensor(input.info.name));
    input_views_.emplace_back(inputs.back());
  }
  read_optional(operands, read);
}

void AttentionArguments::read_optional(Buffers& operands, const HostRead& read) {
  const char* op = operands.op();
  const auto given = [&](Given which) { return (options_.given & which) != 0; };
  const std::int64_t axes = prepared->plan.terms().axes;
  if (given(kKeyMask)) key_mask_ = key_mask_of(op, operands.next("key_mask"), k);
  if (given(kCuQueries)) {
    cu_queries_ = integers_of(op, "cu_queries", operands.next("cu_queries"), read);
  }
  if (given(kCuKeys)) cu_keys_ = integers_of(op, "cu_keys", operands.next("cu_keys"), read);
  if (given(kQueryPositions)) {
    q_positions = positions_of(op, "q_positions", operands.next("q_positions"), q.batch(),
                               q.tokens(), axes, read);
  }
  if (given(kKeyPositions)) {
    k_positions = positions_of(op, "k_positions", operands.next("k_positions"), k.batch(),
                               k.tokens(), axes, read);
  }
  if (given(kSeed)) seed_ = seed_of(op, operands.next("seed"), read);
}

AttentionCall AttentionArguments::call() const {
  AttentionCall call;
  call.plan = &prepared->plan;
  call.allow_reference = true;
  call.parameters = &parameters.values;
  call.q = q;
  call.k = k;
  call.v = v;
  call.inputs = input_views_;
  call.mask.causal = options_.causal != 0;
  call.mask.window_left = options_.window_left;
  call.mask.window_right = options_.window_right;
  call.mask.key_mask = key_mask_;
  call.mask.cu_queries = cu_queries_;
  call.mask.cu_keys = cu_keys_;
  if (q_positions) call.q_positions = q_positions->view;
  if (k_positions) call.k_positions = k_positions->view;
  if (options_.scale != 0.0) call.scale = options_.scale;
  call.dropout = {options_.dropout, seed_};
  call.keys_are_turned = options_.keys_are_turned != 0;
  return call;
}

RopeArguments::RopeArguments(Buffers& operands, const RopeOptions& options, const HostRead& read) {
  const char* op = operands.op();
  q = operands.tensor("q");
  k = operands.tensor("k");
  // The spec says how many parameters come before the positions, and those how long the sequence is.
  prepared = prepare(options.spec, q, q.heads(), q.tokens());
  const auto& encodings = prepared->spec.encodings;
  if (encodings.size() != 1 || !rotates_by_position(encodings[0])) {
    refuse(op, "spec",
           "must be one rope or xpos with angles from positions, and without values=true",
           to_text(prepared->spec));
  }
  parameters = parameters_of(operands, *prepared, options.parameters, read);
  if (options.has_positions == 0) return;
  const std::int64_t axes = prepared->plan.terms().axes;
  positions =
      positions_of(op, "positions", operands.next("positions"), q.batch(), q.tokens(), axes, read);
  if (q.empty()) return;
  const auto range = positions->host.range(q.batch(), q.tokens(), positions->axes);
  prepared = prepare(options.spec, q, q.heads(), std::max<std::int64_t>(range.most + 1, 1));
}

}  // namespace posenc::jax

#include "jax/cuda/gradients.h"

#include <cmath>

#include "kernels/cuda/add.h"
#include "kernels/cuda/attention_sums.h"
#include "kernels/fire_tables.h"

namespace posenc::jax {

FusedGradients::FusedGradients(FusedCall& fused, const TensorView& grad_out, const Results& results)
    : fused_(fused), device_(fused.device), to_(results) {
  b_.forward = fused.p;
  b_.grad_out = tensor4(grad_out);
  fill_rows();
  if (wants_parameters()) fill_tables();
}

void FusedGradients::fill_rows() {
  const AttentionArguments& arguments = fused_.arguments;
  const cuda::AttentionParams& p = b_.forward;
  b_.dq = tensor4(to_.dq);
  b_.dk = tensor4(to_.dk);
  b_.dv = tensor4(to_.dv);
  if (p.cope.plain_q.data != nullptr) {
    dplain_ = device_.like(arguments.q);
    b_.dplain_q = tensor4(dplain_);
  }
  if (p.cope.gate_k.data != nullptr) {
    const Cope& cope = *terms().config<Cope>(terms().cope);
    dgate_ = cope.gate_source == Cope::GateSource::kValue
                 ? device_.like(arguments.v)
                 : to_.dinputs[first_input(terms().inputs, *terms().cope)];
    b_.dgate_k = tensor4(dgate_);
  }
  if (p.relative.u.data != nullptr) {
    drelative_ = device_.like(arguments.q);
    b_.drelative_u = tensor4(drelative_);
  }
  if (p.tokens.at_key != nullptr) {
    const std::int64_t heads = std::int64_t{p.batch} * p.heads;
    b_.dtoken_queries = device_.make<float>(heads * p.queries);
    b_.dtoken_keys = device_.make<float>(heads * p.keys);
  }
}

void FusedGradients::fill_tables() {
  const cuda::AttentionParams& p = b_.forward;
  const auto entries_of = [&](std::size_t encoding) {
    return std::ssize(fused_.values()[encoding][0]);
  };
  if (!terms().biases.empty()) b_.dtoeplitz = device_.make<float>(p.heads * fused_.range.span);
  if (p.fire.segments > 0) {
    b_.dfire_segments = device_.make<float>(std::int64_t{p.heads} * p.fire.segments * 2);
    b_.dfire_rows = device_.make<float>(std::int64_t{p.batch} * p.heads * p.queries * 2);
  }
  if (terms().relative_query) {
    b_.drelative_table = device_.make<float>(entries_of(*terms().relative_query));
  }
  if (terms().cope) b_.dpos_emb = device_.make<float>(entries_of(*terms().cope));
}

Status FusedGradients::run() {
  fused_.give_workspace(cuda::backward_workspace_bytes(b_));
  b_.forward.workspace = fused_.p.workspace;
  b_.forward.workspace_bytes = fused_.p.workspace_bytes;
  const Status status = cuda::launch_attention_backward(b_, device_.stream());
  if (status.ok()) finish();
  return status;
}

void FusedGradients::add(const TensorView& from, const TensorView& to) const {
  cuda::add(to.dtype, from.data, to.data, count_of(to), device_.stream()).throw_if_error();
}

void FusedGradients::finish() {
  std::vector<Parameters> gradients;
  for (const Encoding& encoding : terms().spec.encodings) {
    gradients.push_back(zero_parameters(parameters(encoding, terms().shape)));
  }
  fused_.rotated.backward(to_.dq, to_.dk, wants_parameters() ? &gradients : nullptr);
  if (dplain_.present()) add(dplain_, to_.dq);
  if (drelative_.present()) add(drelative_, to_.dq);  // of the plain queries
  const Cope* cope = terms().config<Cope>(terms().cope);
  if (dgate_.present() && cope->gate_source == Cope::GateSource::kValue) add(dgate_, to_.dv);
  if (b_.dtoken_keys != nullptr) {
    const TensorView& dx = to_.dinputs[first_input(terms().inputs, *terms().token)];
    cuda::launch_token_sums_backward(fused_.token_scan, b_.dtoken_queries, b_.dtoken_keys,
                                     static_cast<float*>(dx.data), device_.stream())
        .throw_if_error();
  }
  if (!wants_parameters()) return;
  if (b_.dtoeplitz != nullptr) add_biases(gradients);
  if (b_.dfire_rows != nullptr) add_fire(gradients);
  if (b_.dpos_emb != nullptr) copy_table(b_.dpos_emb, *terms().cope, gradients);
  if (b_.drelative_table != nullptr) {
    copy_table(b_.drelative_table, *terms().relative_query, gradients);
  }
  add_sinks(gradients);
  const GivenParameters& given = fused_.arguments.parameters;
  for (std::size_t i = 0; i < given.infos.size(); ++i) {
    const std::vector<double>& from = gradients[given.infos[i].encoding][given.infos[i].index];
    device_.upload(std::vector<float>(from.begin(), from.end()), to_.parameters[i].data());
  }
}

void FusedGradients::copy_table(const float* table, std::size_t encoding,
                                std::vector<Parameters>& gradients) const {
  std::vector<double>& to = gradients[encoding][0];
  const std::vector<float> from = device_.download(table, std::ssize(to));
  to.assign(from.begin(), from.end());
}

void FusedGradients::add_biases(std::vector<Parameters>& gradients) const {
  const auto& range = fused_.range;
  const std::vector<float> table = device_.download(b_.dtoeplitz, b_.forward.heads * range.span);
  for (std::int64_t h = 0; h < b_.forward.heads; ++h) {
    const auto first = table.begin() + h * range.span;
    const std::vector<double> of_head(first, first + range.span);
    add_distance_gradients(terms(), fused_.values(), h, range.before, of_head, gradients);
  }
}

void FusedGradients::add_fire(std::vector<Parameters>& gradients) const {
  const cuda::AttentionParams& p = b_.forward;
  const Fire& config = *terms().config<Fire>(terms().fire);
  const Parameters& parameters = fused_.values()[*terms().fire];
  Parameters& gradient = gradients[*terms().fire];
  const FireTables tables(config, parameters, p.heads, {.before = 0, .places = 1});
  const auto sums =
      device_.download(b_.dfire_segments, std::int64_t{p.heads} * p.fire.segments * 2);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    std::vector<double> dslopes, dintercepts;
    for (std::int64_t s = 0; s < p.fire.segments; ++s) {
      dslopes.push_back(sums[(h * p.fire.segments + s) * 2]);
      dintercepts.push_back(sums[(h * p.fire.segments + s) * 2 + 1]);
    }
    tables.add_network_gradient(parameters, h, dslopes.data(), dintercepts.data(), gradient);
  }
  const std::int64_t heads = std::int64_t{p.batch} * p.heads;
  const auto rows = device_.download(b_.dfire_rows, heads * p.queries * 2);
  for (const Segment& s : segments_of(fused_.call)) {
    for (std::int64_t n = 0; n < s.queries * p.heads; ++n) {
      const std::int64_t query = s.first_query + n % s.queries;
      const std::int64_t row = (s.batch * p.heads + n / s.queries) * p.queries + query;
      tables.add_row_gradient(config, parameters, s.place_offset() + n % s.queries, rows[2 * row],
                              rows[2 * row + 1], gradient);
    }
  }
}

// Rows without a key have an output of 0 and no log-sum-exp.
void FusedGradients::add_sinks(std::vector<Parameters>& gradients) const {
  if (terms().sinks.empty()) return;
  const cuda::AttentionParams& p = b_.forward;
  const std::int64_t count = std::int64_t{p.batch} * p.heads * p.queries;
  auto* on_device = device_.make<float>(count);
  require(cuda::sum_products(b_, on_device, static_cast<cudaStream_t>(device_.stream())));
  const std::vector<float> delta = device_.download(on_device, count);
  const std::vector<float> lse = device_.download(p.lse, count);
  for (const std::size_t index : terms().sinks) {
    for (std::int64_t row = 0; row < count; ++row) {
      if (std::isinf(lse[row]) && lse[row] < 0.0f) continue;
      const std::int64_t h = row / p.queries % p.heads;
      const double weight = std::exp(fused_.values()[index][0][h] - static_cast<double>(lse[row]));
      gradients[index][0][h] -= weight * static_cast<double>(delta[row]);
    }
  }
}

}  // namespace posenc::jax

// Forward of the reference: rows of weights, then their mean of the values.
#include "kernels/ref/attention_row.h"
#include "kernels/ref/vectors.h"

namespace posenc::ref {
namespace {

void write_output(const AttentionCall& call, const Head& head, const Row& row, std::int64_t query,
                  AttentionOutput& output) {
  const std::int64_t index = head.query_matrix * call.shape.queries + query;
  const std::int64_t width = call.shape.value_width();
  const auto out = vector_at(std::span(output.out), index, width);
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    const auto key = static_cast<std::size_t>(j);
    if (!row.visible[key]) continue;
    add_scaled(row.weight[key] * row.dropout[key], vector_at(head.values(), j, width), out);
  }
  call.transforms.apply_to_value(query_token(call, head, row, query), true, out);
  output.lse[index] = row.lse;
}

void append(const std::vector<double>& row, std::vector<double>& all) {
  all.insert(all.end(), row.begin(), row.end());
}

// Rows come in the order of the tensors, so that what is kept can be appended.
void keep_inspection(const AttentionOptions& options, const Row& row, AttentionOutput& output) {
  if (options.keep_weights) append(row.weight, output.weights);
  if (options.keep_parts) {
    append(row.raw, output.raw);
    append(row.bias, output.bias);
    append(row.content_sum, output.content);
  }
  if (!options.keep_cope_positions) return;
  output.cope_positions.resize(row.content.size());
  output.cope_gates.resize(row.content.size());
  for (std::size_t c = 0; c < row.content.size(); ++c) {
    const CopeRow& cope = row.content[c].row;
    for (std::size_t j = 0; j < row.visible.size(); ++j) {
      output.cope_positions[c].push_back(row.visible[j] ? cope.position[j] : 0.0);
      output.cope_gates[c].push_back(cope.gate[j]);
    }
  }
}

}  // namespace

AttentionOutput attention(const Spec& spec, const SpecParameters& parameters,
                          const AttentionShape& shape, const AttentionInputs& inputs,
                          const AttentionOptions& options) {
  const AttentionCall call(spec, parameters, shape, inputs, options);
  AttentionOutput output;
  output.out.assign(shape.out_size(), 0.0);
  output.lse.assign(shape.batch * shape.heads * shape.queries, 0.0);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const Head head(call, b, h);
      for (std::int64_t i = 0; i < shape.queries; ++i) {
        const Row row = evaluate_row(call, head, i);
        write_output(call, head, row, i, output);
        keep_inspection(options, row, output);
      }
    }
  }
  return output;
}

}  // namespace posenc::ref

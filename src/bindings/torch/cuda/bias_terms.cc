#include "torch/cuda/bias_terms.h"

#include "kernels/attention_call.h"
#include "kernels/cuda/bias_table.h"
#include "torch/cuda/stream.h"

namespace posenc::ops {

at::Tensor bias_table_cuda(const Prepared& prepared,
                           const std::vector<std::vector<at::Tensor>>& parameters,
                           const BiasTable& range, const at::Device& device) {
  const std::int64_t heads = prepared.shape.heads;
  const at::Tensor values =
      at::empty({heads, range.span}, at::TensorOptions(device).dtype(at::kFloat));
  const cuda::DistanceTable table{.values = values.data_ptr<float>(),
                                  .heads = static_cast<int>(heads),
                                  .before = range.before,
                                  .span = range.span};
  bool first = true;
  for (const std::size_t index : prepared.plan.terms().biases) {
    std::vector<at::Tensor> kept;  // until the launch is queued
    cuda::BiasReads reads;
    for (std::size_t n = 0; n < parameters[index].size(); ++n) {
      kept.push_back(parameters[index][n].to(at::kFloat).contiguous());
      reads.parameters.at(n) = kept.back().data_ptr<float>();
    }
    const at::Tensor entries = bias_entries(prepared, index, range, device);
    if (entries.defined()) {
      kept.push_back(entries.contiguous());
      reads.entries = kept.back().data_ptr<std::int64_t>();
    }
    cuda::add_to_table(prepared.spec.encodings[index], reads, table, first, current_stream(device))
        .throw_if_error();
    first = false;
  }
  return values;
}

}  // namespace posenc::ops

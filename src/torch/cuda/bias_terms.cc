#include "torch/cuda/bias_terms.h"

#include "kernels/attention_plan.h"
#include "kernels/cuda/bias_table.h"
#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

using Form = cuda::BiasTerm::Form;

// One encoding as a term; its tensors are kept as long as the launch is not queued.
struct Terms {
  cuda::BiasTableFill fill;
  std::vector<at::Tensor> kept;

  const float* floats(const at::Tensor& x) {
    kept.push_back(x.to(at::kFloat).contiguous());
    return kept.back().data_ptr<float>();
  }
  void add(const Alibi& e, const std::vector<at::Tensor>& parameters, const at::Tensor& /*read*/) {
    cuda::BiasTerm& term = next(Form::kAlibi);
    term.one_sided = !e.bidirectional;
    term.first = floats(parameters[0]);
  }
  void add(const Kerple& e, const std::vector<at::Tensor>& parameters, const at::Tensor& /*read*/) {
    cuda::BiasTerm& term =
        next(e.kernel == Kerple::Kernel::kLog ? Form::kKerpleLog : Form::kKerplePower);
    term.first = floats(parameters[0]);
    term.second = floats(parameters[1]);
  }
  void add(const T5& /*e*/, const std::vector<at::Tensor>& parameters, const at::Tensor& read) {
    add_entries(parameters[0], read, parameters[0].size(1), 1);  // [buckets, heads]
  }
  void add(const Relative& /*e*/, const std::vector<at::Tensor>& parameters,
           const at::Tensor& read) {
    add_entries(parameters[0], read, 1, parameters[0].size(1));  // [heads, entries]
  }
  template <class E>
  void add(const E& /*e*/, const std::vector<at::Tensor>& /*parameters*/,
           const at::Tensor& /*read*/) {
    static_assert(!DistanceBias<E>, "a distance bias needs its term here");
  }

 private:
  cuda::BiasTerm& next(Form form) {
    cuda::BiasTerm& term = fill.terms[static_cast<std::size_t>(fill.count++)];
    term.form = form;
    return term;
  }
  void add_entries(const at::Tensor& weights, const at::Tensor& read, std::int64_t entry_stride,
                   std::int64_t head_stride) {
    cuda::BiasTerm& term = next(Form::kEntries);
    term.first = floats(weights);
    kept.push_back(read.contiguous());
    term.entries = kept.back().data_ptr<std::int64_t>();
    term.entry_stride = entry_stride;
    term.head_stride = head_stride;
  }
};

}  // namespace

at::Tensor bias_table_cuda(const Prepared& prepared,
                           const std::vector<std::vector<at::Tensor>>& parameters,
                           const BiasTable& range, const at::Device& device) {
  const auto& biases = prepared.plan.state().biases;
  if (biases.size() > static_cast<std::size_t>(cuda::kMostBiasTerms)) {
    return bias_table(prepared, parameters, range, device).to(at::kFloat).contiguous();
  }
  Terms terms;
  for (const std::size_t index : biases) {
    const at::Tensor read = bias_reading(prepared, index, range, device);
    std::visit([&](const auto& e) { terms.add(e, parameters[index], read); },
               prepared.spec.encodings[index]);
  }
  const at::Tensor table =
      at::empty({prepared.shape.heads, range.span}, at::TensorOptions(device).dtype(at::kFloat));
  terms.fill.heads = static_cast<int>(prepared.shape.heads);
  terms.fill.before = range.before;
  terms.fill.span = range.span;
  terms.fill.table = table.data_ptr<float>();
  cuda::fill_bias_table(terms.fill, current_stream(device)).throw_if_error();
  return table;
}

}  // namespace posenc::ops

#include "train/attention_observer.h"

#include <algorithm>

#include "posenc/encodings/spec.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::train {
namespace {

class ObservedAttention : public nn::AttentionImpl {
 public:
  ObservedAttention(nn::AttentionConfig config, nn::EncodingParameters shared,
                    ObservedLayers layers)
      : nn::AttentionImpl(std::move(config), std::move(shared)), layers_(std::move(layers)) {}

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::AttentionOptions& options) override {
    at::Tensor out = nn::AttentionImpl::attend(q, k, v, options);
    layers_->push_back({.spec = config().spec,
                        .parameters = pos->tensors(),
                        .causal = options.causal,
                        .window_left = options.window_left,
                        .q = q,
                        .k = k,
                        .v = v,
                        .inputs = options.inputs,
                        .key_mask = options.key_mask,
                        .fused = out});
    return out;
  }

 private:
  ObservedLayers layers_;
};

std::vector<double> doubles(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::Tensor dense = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* data = dense.data_ptr<double>();
  return {data, data + dense.numel()};
}

std::vector<float> floats(const std::vector<double>& values) {
  std::vector<float> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](double x) { return static_cast<float>(x); });
  return narrow;
}

ref::SpecParameters parameters_of(const ObservedLayer& layer, const Spec& spec,
                                  const ref::AttentionShape& shape) {
  ref::SpecParameters values(spec.encodings.size());
  std::size_t next = 0;
  for (const SpecParameter& p :
       parameters(spec, {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0})) {
    values[p.encoding].push_back(doubles(layer.parameters.at(next++)));
  }
  return values;
}

}  // namespace

model::AttentionFactory observing(const ObservedLayers& layers) {
  return [layers](nn::AttentionConfig config, nn::EncodingParameters shared) {
    return std::make_shared<ObservedAttention>(std::move(config), std::move(shared), layers);
  };
}

runs::AttentionLayer exact_attention(const ObservedLayer& layer, at::Tensor* out) {
  const Spec spec = parse_spec(layer.spec);
  const ref::AttentionShape shape{.batch = layer.q.size(0),
                                  .heads = layer.q.size(1),
                                  .kv_heads = layer.k.size(1),
                                  .queries = layer.q.size(2),
                                  .keys = layer.k.size(2),
                                  .head_dim = layer.q.size(3)};
  const auto q = doubles(layer.q);
  const auto k = doubles(layer.k);
  const auto v = doubles(layer.v);
  std::vector<std::vector<double>> inputs;
  for (const at::Tensor& input : layer.inputs) inputs.push_back(doubles(input));
  ref::AttentionOptions options;
  options.masking.causal = layer.causal;
  options.masking.window_left = layer.window_left;
  if (layer.key_mask.defined()) {
    const at::Tensor mask = layer.key_mask.to(at::kCPU, at::kByte).contiguous();
    const auto* seen = mask.data_ptr<std::uint8_t>();
    options.masking.key_mask.assign(seen, seen + mask.numel());
  }
  options.keep_weights = options.keep_cope_positions = true;
  const ref::AttentionOutput found = ref::attention(
      spec, parameters_of(layer, spec, shape), shape,
      {.q = q, .k = k, .v = v, .of_encodings = {inputs.begin(), inputs.end()}}, options);
  if (out != nullptr) {
    *out = at::tensor(found.out, at::kDouble).reshape(layer.q.sizes());
  }
  runs::AttentionLayer maps{.weights = floats(found.weights), .gates = {}, .positions = {}};
  if (!found.cope_positions.empty()) {
    maps.gates = floats(found.cope_gates.front());
    maps.positions = floats(found.cope_positions.front());
  }
  return maps;
}

}  // namespace posenc::train

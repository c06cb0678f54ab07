// What attention computes between its projections, layer by layer, and its weights in float64. The fused
// kernels never store all weights, so they are recomputed from the queries and keys.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "runs/attention_record.h"

namespace posenc::train {

struct ObservedLayer {
  std::string spec;
  std::vector<at::Tensor> parameters;  // of the spec, in the order of posenc::parameters
  bool causal = true;
  std::int64_t window_left = -1;
  at::Tensor q;                    // [1, H, T, D]
  at::Tensor k, v;                 // [1, Hkv, T, D]
  std::vector<at::Tensor> inputs;  // of the encodings
  at::Tensor key_mask;             // [1, T], or undefined: every key is seen
  at::Tensor fused;                // [1, H, T, D]: what the model went on with
};

// The layers of the last call of a model, in order.
using ObservedLayers = std::shared_ptr<std::vector<ObservedLayer>>;
// Makes layers that compute as ever and note what they computed. Positions are 0, 1, ....
model::AttentionFactory observing(const ObservedLayers& layers);

// Weights, gates and positions of a layer by the reference (posenc/kernels/ref/attention.h). `out`, where
// it is given, gets the weights times the values.
runs::AttentionLayer exact_attention(const ObservedLayer& layer, at::Tensor* out = nullptr);

}  // namespace posenc::train

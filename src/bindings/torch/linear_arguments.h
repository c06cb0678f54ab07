// The arguments of linear attention's operators, in a single list.
#pragma once

#include "torch/arguments.h"

namespace posenc::ops {

#define POSENC_LINEAR_PARAMETERS                                                                   \
  std::string spec, std::string form, double epsilon, bool causal, const OptionalTensor &key_mask, \
      const OptionalTensor &cu_queries, const OptionalTensor &cu_keys,                             \
      const OptionalTensor &q_positions, const OptionalTensor &k_positions
#define POSENC_LINEAR_NAMES \
  spec, form, epsilon, causal, key_mask, cu_queries, cu_keys, q_positions, k_positions

// "elu" and "relu" are feature maps of the rotated numerator; "cosine" is the other form.
inline LinearAttentionOptions linear_options(const std::string& form, double epsilon) {
  TORCH_CHECK(form == "elu" || form == "relu" || form == "cosine",
              "[linear_attention] form must be elu, relu or cosine but got '", form, "'");
  LinearAttentionOptions options;
  options.form = form == "cosine" ? LinearAttentionOptions::Form::kCosine
                                  : LinearAttentionOptions::Form::kRotatedNumerator;
  options.feature_map = form == "relu" ? LinearAttentionOptions::FeatureMap::kRelu
                                       : LinearAttentionOptions::FeatureMap::kElu;
  options.epsilon = epsilon;
  return options;
}

}  // namespace posenc::ops

#include "posenc/encodings/key_bias.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const KeyBias& /*config*/, const ModelShape& shape) {
  require_positive("key_bias", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const KeyBias& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

std::vector<InputInfo> token_inputs(const KeyBias& /*config*/, const ModelShape& /*shape*/) {
  return {{.name = "value",
           .heads = InputInfo::Heads::kQuery,
           .channels = 1,
           .float32 = true,
           .projection = "key_bias_proj",
           .activation = InputInfo::Activation::kNone}};
}

}  // namespace posenc

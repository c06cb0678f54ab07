#include "posenc/encodings/fox.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const Fox& /*config*/, const ModelShape& shape) {
  require_positive("fox", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Fox& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

std::vector<InputInfo> token_inputs(const Fox& /*config*/, const ModelShape& /*shape*/) {
  return {{.name = "log_f",
           .heads = InputInfo::Heads::kQuery,
           .channels = 1,
           .float32 = true,
           .projection = "forget_proj",
           .activation = InputInfo::Activation::kLogSigmoid}};
}

}  // namespace posenc

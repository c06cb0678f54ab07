#include "posenc/encodings/kerple.h"

#include "encodings/shape_checks.h"

namespace posenc {
void validate(const Kerple& /*config*/, const ModelShape& shape) {
  require_positive("kerple", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const Kerple& /*config*/, const ModelShape& shape) {
  const auto uniform = [](double high) {
    return Init{.kind = Init::Kind::kUniform, .a = Kerple::kSmallest, .b = high, .values = {}};
  };
  return {{"p", {shape.heads}, uniform(2.0)}, {"a", {shape.heads}, uniform(1.0)}};
}

}  // namespace posenc

#include "posenc/encodings/relative_query.h"

#include "encodings/shape_checks.h"

namespace posenc {

void validate(const RelativeQuery& config, const ModelShape& shape) {
  require_positive("relative_query", "heads", shape.heads);
  require_positive("relative_query", "channels", config.channels(shape.head_dim));
}

std::vector<ParameterInfo> parameters(const RelativeQuery& config, const ModelShape& shape) {
  std::vector<std::int64_t> sizes = {config.channels(shape.head_dim), config.entries()};
  if (config.per_head) sizes.insert(sizes.begin(), shape.heads);
  return {{"table", std::move(sizes),
           Init{.kind = Init::Kind::kNormal, .a = config.init_std, .b = 0, .values = {}}}};
}

std::vector<InputInfo> token_inputs(const RelativeQuery& config, const ModelShape& /*shape*/) {
  if (!config.reads_input()) return {};
  return {{.name = "u",
           .heads = InputInfo::Heads::kQuery,
           .channels = config.rank,
           .float32 = false,
           .projection = "relative_query_proj",
           .activation = InputInfo::Activation::kNone}};
}

}  // namespace posenc

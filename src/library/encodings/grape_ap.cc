#include "posenc/encodings/grape_ap.h"

#include "encodings/shape_checks.h"
#include "posenc/encodings/alibi.h"

namespace posenc {

void validate(const GrapeAp& /*config*/, const ModelShape& shape) {
  require_positive("grape_ap", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const GrapeAp& /*config*/, const ModelShape& shape) {
  return {{"m",
           {shape.heads},
           Init{.kind = Init::Kind::kValues,
                .a = 0,
                .b = 0,
                .values = alibi_slopes(Alibi{}, shape.heads)}}};
}

std::vector<InputInfo> token_inputs(const GrapeAp& config, const ModelShape& /*shape*/) {
  const InputInfo of_query{.name = "p",
                           .heads = InputInfo::Heads::kQuery,
                           .channels = config.rank,
                           .float32 = false,
                           .projection = "grape_proj",
                           .activation = InputInfo::Activation::kNone,
                           .readers = {.own_query = true, .other_queries = !config.separate}};
  if (!config.separate) return {of_query};
  InputInfo of_step = of_query;
  of_step.readers = {};
  of_step.name = "e";
  of_step.projection = "grape_step_proj";
  return {of_query, of_step};
}

}  // namespace posenc

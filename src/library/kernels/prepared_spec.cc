#include "kernels/prepared_spec.h"

namespace posenc {

PreparedSpec::PreparedSpec(const Spec& parsed, const ModelShape& model, std::int64_t kv_heads,
                           Lengths lengths)
    : spec(parsed),
      shape(model),
      parameters(posenc::parameters(parsed, model)),
      plan(parsed, model, kv_heads, lengths) {
  for (const SpecParameter& p : parameters) {
    parameter_count += p.info.count();
    if (p.info.trainable) trainable_count += p.info.count();
  }
  start = initial_parameters(spec, shape, 0);
}

std::string prepared_key(const std::string& spec, const ModelShape& shape, std::int64_t kv_heads) {
  std::string key;
  for (const std::int64_t n : {shape.head_dim, shape.heads, shape.model_dim, kv_heads}) {
    key += std::to_string(n) + " ";
  }
  return key + spec;
}

}  // namespace posenc

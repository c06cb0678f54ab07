// What python/posenc/jax.py asks of a spec.
#include <nlohmann/json.hpp>

#include "jax/handlers.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/capability.h"

namespace posenc::jax {
namespace {

// Text whose memory lives until the next call of the thread.
template <class Body>
const char* kept_json(const Body& body) noexcept {
  thread_local std::string kept;
  try {
    kept = body().dump();
  } catch (const std::exception& problem) {
    kept = nlohmann::json{{"error", problem.what()}}.dump();
  }
  return kept.c_str();
}

Spec attention_spec(const char* text) {
  Spec spec = parse_any_spec(text);
  require_attention_part("attention", spec);
  return spec;
}

nlohmann::json description(const Spec& spec, const ModelShape& shape) {
  validate(spec, shape);
  nlohmann::json all = {{"parameters", nlohmann::json::array()},
                        {"inputs", nlohmann::json::array()}};
  for (const SpecParameter& p : parameters(spec, shape)) {
    all["parameters"].push_back(
        {{"name", p.info.name}, {"shape", p.info.shape}, {"trainable", p.info.trainable}});
  }
  for (const SpecInput& i : token_inputs(spec, shape)) {
    all["inputs"].push_back({{"name", i.info.name},
                             {"by_query_head", i.info.heads == InputInfo::Heads::kQuery},
                             {"channels", i.info.channels},
                             {"float32", i.info.float32}});
  }
  return all;
}

}  // namespace
}  // namespace posenc::jax

const char* posenc_jax_describe(const char* spec, std::int64_t head_dim,
                                std::int64_t heads) noexcept {
  return posenc::jax::kept_json([&] {
    return posenc::jax::description(posenc::jax::attention_spec(spec),
                                    {.head_dim = head_dim, .heads = heads});
  });
}

const char* posenc_jax_initial_parameters(const char* spec, std::int64_t head_dim,
                                          std::int64_t heads, std::uint64_t seed) noexcept {
  return posenc::jax::kept_json([&] {
    nlohmann::json values = nlohmann::json::array();
    const posenc::Spec parsed = posenc::jax::attention_spec(spec);
    for (const auto& of_encoding :
         posenc::initial_parameters(parsed, {.head_dim = head_dim, .heads = heads}, seed)) {
      for (const std::vector<double>& of_parameter : of_encoding) values.push_back(of_parameter);
    }
    return nlohmann::json{{"values", values}};
  });
}

const char* posenc_jax_explain(const char* spec, const std::int64_t* sizes,
                               bool explicit_positions) noexcept {
  return posenc::jax::kept_json([&] {
    const posenc::Capability found = posenc::capability(posenc::jax::attention_spec(spec),
                                                        {.batch = sizes[0],
                                                         .heads = sizes[1],
                                                         .kv_heads = sizes[2],
                                                         .queries = sizes[3],
                                                         .keys = sizes[4],
                                                         .head_dim = sizes[5],
                                                         .explicit_positions = explicit_positions,
                                                         .value_dim = sizes[6]});
    return nlohmann::json{{"slow", found.is_slow()}, {"path", to_string(found)}};
  });
}

#include "posenc/encodings/relative_query.h"

#include "encodings/shape_checks.h"
#include "encodings/tables.h"
#include "posenc/core/error.h"

namespace posenc {

void validate(const RelativeQuery& config, const ModelShape& shape) {
  require_positive("relative_query", "heads", shape.heads);
  require_positive("relative_query", "channels", config.channels(shape.head_dim));
  const auto conflict = [](const char* key, const char* rule, const char* hint) {
    throw Error(ErrorKind::kConflict, {.scope = "relative_query",
                                       .key = key,
                                       .rule = rule,
                                       .value = "source=input",
                                       .hint = hint});
  };
  if (config.reads_input() && config.of_keys()) {
    conflict("side", "must be query if entries are multiplied with an input",
             "leave source out to multiply them with keys");
  }
  if (config.reads_input() && config.vectors) {
    conflict("vectors", "must be false unless entries are multiplied with the query",
             "add the vectors to the input itself");
  }
  if (config.of_keys() && config.vectors) {
    throw Error(ErrorKind::kConflict, {.scope = "relative_query",
                                       .key = "vectors",
                                       .rule = "must be false with side=key",
                                       .value = "true",
                                       .hint = "they are added to queries"});
  }
  if (config.buckets == RelativeQuery::Buckets::kNone) return;
  if (config.max_distance <= config.extent) {
    throw Error(ErrorKind::kConflict, {.scope = "relative_query",
                                       .key = "max_distance",
                                       .rule = "must be above extent with buckets=log",
                                       .value = std::to_string(config.max_distance),
                                       .hint = "without buckets every distance has an entry"});
  }
  if (config.extent < 4 || config.extent % 2 != 0) {
    throw Error(ErrorKind::kConflict, {.scope = "relative_query",
                                       .key = "extent",
                                       .rule = "must be even and at least 4 with buckets=log",
                                       .value = std::to_string(config.extent),
                                       .hint = ""});
  }
}

std::vector<ParameterInfo> parameters(const RelativeQuery& config, const ModelShape& shape) {
  std::vector<std::int64_t> sizes = {config.channels(shape.head_dim), config.entries()};
  if (config.per_head) sizes.insert(sizes.begin(), shape.heads);
  std::vector<ParameterInfo> all = {normal_table("table", std::move(sizes), config.init_std)};
  if (!config.vectors) return all;
  for (const char* name : {"content", "position"}) {
    all.push_back(normal_table(name, {shape.heads, shape.head_dim}, config.init_std));
  }
  return all;
}

std::vector<InputInfo> token_inputs(const RelativeQuery& config, const ModelShape& /*shape*/) {
  if (!config.reads_input()) return {};
  return {{.name = "u",
           .heads = InputInfo::Heads::kQuery,
           .channels = config.rank,
           .float32 = false,
           .projection = "relative_query_proj",
           .activation = InputInfo::Activation::kNone,
           .readers = {.own_query = true, .other_queries = false}}};
}

}  // namespace posenc

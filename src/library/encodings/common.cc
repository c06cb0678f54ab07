#include "posenc/encodings/common.h"

#include <functional>
#include <numeric>

#include "posenc/core/error.h"

namespace posenc {

void require_exact_position(std::string_view scope, std::string_view key, std::int64_t position) {
  if (is_exact_position(position)) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = std::string(scope),
                                       .key = std::string(key),
                                       .rule = std::string(kPositionRule),
                                       .value = std::to_string(position),
                                       .hint = ""});
}

std::int64_t ParameterInfo::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Parameters initial_parameters(const std::vector<ParameterInfo>& infos, Rng& rng) {
  Parameters values = zero_parameters(infos);
  for (std::size_t p = 0; p < infos.size(); ++p) {
    const Init& init = infos[p].init;
    if (init.kind == Init::Kind::kValues) {
      values[p] = init.values;
      continue;
    }
    for (double& x : values[p]) {
      if (init.kind == Init::Kind::kConstant) x = init.a;
      if (init.kind == Init::Kind::kNormal) x = init.a * rng.normal();
      if (init.kind == Init::Kind::kUniform) x = rng.uniform(init.a, init.b);
    }
  }
  return values;
}

Parameters zero_parameters(const std::vector<ParameterInfo>& infos) {
  Parameters values;
  for (const ParameterInfo& info : infos) {
    values.emplace_back(static_cast<std::size_t>(info.count()), 0.0);
  }
  return values;
}

}  // namespace posenc

// Learned tables of encodings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "posenc/encodings/common.h"

namespace posenc {

// Entries that are added to, or multiplied into what is added to, scores or embeddings.
inline ParameterInfo table_parameter(std::string name, std::vector<std::int64_t> shape, Init init) {
  return {std::move(name), std::move(shape), std::move(init), /*trainable=*/true,
          /*identity_at_zero=*/true};
}

inline ParameterInfo normal_table(std::string name, std::vector<std::int64_t> shape,
                                  double deviation) {
  return table_parameter(std::move(name), std::move(shape),
                         {.kind = Init::Kind::kNormal, .a = deviation, .b = 0, .values = {}});
}

}  // namespace posenc

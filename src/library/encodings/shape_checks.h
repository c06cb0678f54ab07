// Checks on a model's shape that several encodings share.
#pragma once

#include <string>
#include <string_view>

#include "posenc/core/error.h"
#include "posenc/encodings/common.h"

namespace posenc {

inline void require_positive(std::string_view scope, const char* key, std::int64_t value) {
  if (value >= 1) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = std::string(scope),
                                       .key = key,
                                       .rule = "must be >= 1",
                                       .value = std::to_string(value),
                                       .hint = ""});
}

}  // namespace posenc

// The page has no reader of YAML, which the library takes from yaml-cpp.
#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc {

Spec parse_spec_yaml(std::string_view /*yaml*/) {
  throw Error(ErrorKind::kUnsupported, {.scope = "spec",
                                        .key = "",
                                        .rule = "must be text or JSON here",
                                        .value = "YAML",
                                        .hint = "posenc inspect reads YAML"});
}

}  // namespace posenc

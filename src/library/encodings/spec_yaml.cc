// Apart from spec.cc, so that builds without yaml-cpp (the explorer page) leave this file out.
#include "encodings/spec_tree.h"

namespace posenc {

Spec parse_spec_yaml(std::string_view yaml) { return bind_spec(parse_yaml(yaml, "spec")); }
std::string to_yaml(const Spec& spec) { return to_yaml(canonical_tree(spec)); }

}  // namespace posenc

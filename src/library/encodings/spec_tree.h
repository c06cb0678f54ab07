// A spec and the tree that its three written forms share.
#pragma once

#include "core/value.h"
#include "posenc/encodings/spec.h"

namespace posenc {

// Any of the three forms, once it is a tree: one term, or a list of terms; a term may itself be text.
Spec bind_spec(const Value& value);
// The canonical form: a list of terms, without fields that have their defaults.
Value canonical_tree(const Spec& spec);

}  // namespace posenc

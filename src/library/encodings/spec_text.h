// The text form of a spec, read into the same tree as YAML and JSON.
#pragma once

#include <string>
#include <string_view>

#include "core/value.h"

namespace posenc {

// spec  = term { "+" term }
// term  = name [ "(" [ name "=" value { "," name "=" value } ] ")" ]
// value = number | true | false | null | term | "[" [ value { "," value } ] "]"
// name  = letter { letter | digit | "_" | "-" | "." }
Value parse_spec_text(std::string_view text);
// The text of a tree in canonical form: a list of terms.
std::string spec_text(const Value& terms);

}  // namespace posenc

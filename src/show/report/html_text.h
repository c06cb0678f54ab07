// Text into HTML and scripts: whatever a file says, it stays text.
#pragma once

#include <string>
#include <string_view>

#include "core/value.h"
#include "draw/markup.h"

namespace posenc::report {

// For element content and quoted attributes.
using draw::escaped;

// JSON inside <script>: no <, > or &, so that nothing in it can end the element. Numbers that are not
// finite: runs/numbers.h.
std::string script_json(const Value& value);

// For Content-Security-Policy: the one script that may run.
std::string script_hash(std::string_view script);

}  // namespace posenc::report

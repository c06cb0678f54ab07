// The catalogue as JSON. `posenc list --json`, posenc.catalog() of Python and the explorer page show the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "posenc/core/fields.h"

namespace posenc {

// {"encodings", "schedules", "axes": [{name, title, formula, tex, where, paper, fields, ...}]}
nlohmann::ordered_json catalog_json();

// [{name, type, default, range, doc, min, max, ...}]. What a field does not have is null: a bound, a usual range.
nlohmann::ordered_json fields_json(const std::vector<FieldDoc>& fields);

}  // namespace posenc

// NaN and infinity in JSON, which has neither: written as null, with their names in another field.
//
//   {"loss": nan, "norms": [1.5, inf]}  is written as
//   {"loss": null, "norms": [1.5, null], "not_finite": {"loss": "nan", "norms[1]": "inf"}}
//
// Programs that ignore `not_finite` see missing values; posenc restores the numbers.
#pragma once

#include "core/value.h"

namespace posenc::runs {

inline constexpr const char* kNotFinite = "not_finite";

Value without_non_finite(const Value& value);
Value with_non_finite(const Value& value);

}  // namespace posenc::runs

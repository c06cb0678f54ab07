// Values of the records that the lab writes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/value.h"

namespace posenc::train {

inline Value number(double x) { return {Value::Data(x)}; }
inline Value integer(std::int64_t x) { return {Value::Data(x)}; }
inline Value text(std::string x) { return Value::of_string(std::move(x)); }

}  // namespace posenc::train

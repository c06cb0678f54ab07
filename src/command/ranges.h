// Ranges of numeric options. CLI11's own accept NaN and print bounds of 300 digits.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace posenc::command {

// "--columns: must be in [1, 12] but got 13". Both ends are allowed.
CLI::Validator integer_in(std::int64_t least, std::int64_t most);
// "--first: must be >= 0 but got -1"
CLI::Validator integer_from(std::int64_t least);

// The same for floating-point options; NaN and infinity are refused.
CLI::Validator number_in(double least, double most);
CLI::Validator number_from(double least);
// "--minutes: must be > 0 but got 0"
CLI::Validator number_above(double bound);

}  // namespace posenc::command

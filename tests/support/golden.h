// Golden values: figures computed by the original systems (tests/golden/README.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace posenc::testing {

using Json = nlohmann::json;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

// The content of tests/golden/<name>; fails the program when it is not there.
Json load_golden(const std::string& name);

// |got - want| / |want|, or |got| where a zero is wanted.
double relative_error(double got, double want);
// The largest of the differences between two rows of the same length (infinite when it differs).
double largest_difference(const Row& got, const Row& want);
double largest_relative_error(const Row& got, const Row& want);

}  // namespace posenc::testing

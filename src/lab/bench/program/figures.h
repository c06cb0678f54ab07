// Figures of benchmarks, for programs and for people.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace posenc::bench {

using Json = nlohmann::ordered_json;

template <class Number>
Json or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}

inline std::string number(const std::optional<double>& x, int digits) {
  return x ? fmt::format("{:.{}f}", *x, digits) : "-";
}

inline std::string mebibytes(const std::optional<std::int64_t>& bytes) {
  return number(bytes ? std::optional(static_cast<double>(*bytes) / (1 << 20)) : std::nullopt, 1);
}

}  // namespace posenc::bench

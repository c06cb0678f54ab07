// Length-dependent rotations: dynamic NTK and LongRoPE by the current length, xPos without a center.
// Their cos and sin change as a sequence grows, so keys rotated earlier do not match later queries:
// a key/value cache has to store such keys unrotated.
//
// A length-dependent config declares two members in addition to its fields:
//
//   bool follows_length(const Lengths&) const;   whether it depends on the length with these fields
//   auto at(const Lengths&) const;               the same rotation, fixed at this length
//
// A config without them is evaluated without the sequence length (schedule.h), so it cannot depend
// on it by accident.
#pragma once

#include <concepts>
#include <cstdint>
#include <variant>

namespace posenc {

// The lengths that a schedule may depend on.
struct Lengths {
  std::int64_t sequence = 0;  // the current length
  std::int64_t context = 0;   // the maximum length; 0: the current length
};

template <class Config>
concept LengthFollower = requires(const Config& config, const Lengths& lengths) {
  { config.follows_length(lengths) } -> std::same_as<bool>;
  config.at(lengths);
};

template <class... Configs>
bool follows_length(const std::variant<Configs...>& any, const Lengths& lengths = {}) {
  return std::visit(
      [&]<class Config>(const Config& config) {
        if constexpr (LengthFollower<Config>) return config.follows_length(lengths);
        return false;
      },
      any);
}

// The config fixed at a length; unchanged if it does not depend on the length.
template <class... Configs>
std::variant<Configs...> at_length(const std::variant<Configs...>& any, const Lengths& lengths) {
  return std::visit(
      [&]<class Config>(const Config& config) -> std::variant<Configs...> {
        if constexpr (LengthFollower<Config>) {
          if (config.follows_length(lengths)) return config.at(lengths);
        }
        return config;
      },
      any);
}

}  // namespace posenc

// SPDX-License-Identifier: MIT

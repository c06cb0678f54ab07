// Rotations that follow the length: dynamic NTK and LongRoPE by the current length, xPos without a
// centre. Their cos and sin change while a sequence grows, so keys rotated earlier do not fit later
// queries: a key/value cache keeps such keys unrotated.
//
// A config that follows the length declares two members, next to its fields:
//
//   bool follows_length(const Lengths&) const;   whether it does with the fields that it has
//   auto at(const Lengths&) const;               the same rotation at this length, made constant
//
// One that declares neither is evaluated without the length of the sequence (schedule.h), so it cannot
// follow the length without saying so.
#pragma once

#include <concepts>
#include <cstdint>
#include <variant>

namespace posenc {

// The lengths that a schedule may ask for.
struct Lengths {
  std::int64_t sequence = 0;  // how long the sequence is now
  std::int64_t context = 0;   // how long it may get; 0 means: as long as it is now
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

// The config itself where it does not follow the length.
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

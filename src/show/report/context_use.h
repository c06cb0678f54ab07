// How much of its context a language model uses.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

// A bucket whose loss is within this share of the mean loss after it is flat: 0.02 bits of 2.
inline constexpr double kFlatShare = 0.01;

// The number of positions after which bits by position no longer fall: from there on every bucket is flat. At
// least the first bucket, within which nothing is known. Nothing where they still fall past the first
// half of the trained length, or where there is no curve.
//
// A model that uses 16 of 128 trained positions has the same loss at any length, because it never looks
// further back. That says nothing about length.
std::optional<std::int64_t> used_positions(const std::vector<PositionResult>& curve,
                                           std::int64_t trained_length);

// Whether the loss at every longer length is that of the trained one. Bits can also stop falling in a model that
// breaks down past the trained length: its loss changes there, because it does look further back.
bool keeps_loss(const Entry& entry);

}  // namespace posenc::report

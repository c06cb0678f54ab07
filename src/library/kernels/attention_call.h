// Shared by all backends of a call and its plan: the terms, the sequences, argument checks, rotation tables.
#pragma once

#include <memory>
#include <vector>

#include "kernels/terms.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/kernels/attention.h"

namespace posenc {

// One sequence of a batch entry.
struct Segment {
  std::int64_t batch;
  std::int64_t first_query;
  std::int64_t queries;
  std::int64_t first_key;
  std::int64_t keys;
  // Of a slice (attention_slices.h): the place of its key 0, and how far its queries are from the end of its keys.
  std::int64_t key_place = 0;
  std::int64_t shift = 0;
  [[nodiscard]] std::int64_t place_offset() const { return keys - queries + shift; }
};
std::vector<Segment> segments_of(const AttentionCall& call);

// Whether keys, values and inputs must have the type of the queries, as gradients and devices need, or may have another.
enum class KeyTypes : std::uint8_t { kOfQueries, kAny };

// The checks of a call that look at neither outputs nor parameters, nor follow a pointer to tokens: for calls whose
// tensors are on another device.
Status check_attention_inputs(const AttentionCall& call,
                              KeyTypes types = KeyTypes::kOfQueries) noexcept;

// The type and shape of the output: those of q, with the channels of v. Of the rest of the view nothing holds.
ConstTensorView output_shape(const AttentionCall& call) noexcept;

// Tables of the r-th site-2 encoding: the plan's, or ones made for this call's trained frequencies and
// kept in `own`.
const RotaryCache* rotary_tables(const AttentionPlan& plan, std::size_t r,
                                 const std::vector<Parameters>* parameters,
                                 std::vector<std::unique_ptr<RotaryCache>>& own);

}  // namespace posenc

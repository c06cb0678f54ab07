// Shapes, masks and positions of the attention references.
//
// Every token has a *place*, its index in its sequence:
//
//   key j       its index j (from the start of its sequence if sequences are packed)
//   query i     i + Tk - Tq, so that the last query is aligned to the last key (per sequence)
//
// Masks compare places. Encodings use positions, which are the places unless others are given.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace posenc::ref {

// Tensors are row-major: q [B, H, Tq, D]; k and gate keys [B, Hkv, Tk, D]; v [B, Hkv, Tk, Dv]; out [B, H, Tq, Dv].
struct AttentionShape {
  std::int64_t batch = 1;      // B
  std::int64_t heads = 1;      // H, heads of the queries
  std::int64_t kv_heads = 1;   // Hkv divides H; query head h reads key head h / (H / Hkv)
  std::int64_t queries = 0;    // Tq
  std::int64_t keys = 0;       // Tk
  std::int64_t head_dim = 1;   // D
  std::int64_t value_dim = 0;  // Dv; 0: D

  [[nodiscard]] std::int64_t query_size() const { return batch * heads * queries * head_dim; }
  [[nodiscard]] std::int64_t key_size() const { return batch * kv_heads * keys * head_dim; }
  [[nodiscard]] std::int64_t value_width() const { return value_dim == 0 ? head_dim : value_dim; }
  [[nodiscard]] std::int64_t value_size() const { return batch * kv_heads * keys * value_width(); }
  [[nodiscard]] std::int64_t out_size() const { return batch * heads * queries * value_width(); }
  [[nodiscard]] std::int64_t kv_head_of(std::int64_t head) const {
    return head / (heads / kv_heads);
  }
};

// A query at place n attends to a key of its sequence at place m if all conditions hold:
//   causal          m <= n
//   window          n - window_left <= m <= n + window_right      -1: no limit on that side
//   key_mask[b, j]  is not 0
struct Masking {
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  std::vector<std::uint8_t> key_mask = {};  // [B, Tk], 0 for padding; empty: every key is real
  // Packed sequences: cumulative lengths {0, n_1, n_1 + n_2, .., T}, the same for every batch entry
  // (usually B = 1). One may be empty if both are equal. Both empty: one sequence.
  std::vector<std::int64_t> cu_queries = {};
  std::vector<std::int64_t> cu_keys = {};
};

// User-given positions with `axes` coordinates per token. An empty vector means the places. A single
// coordinate is used for every axis of a multi-axis encoding; encodings with one axis, such as
// biases, use coordinate 0.
struct TokenPositions {
  std::int64_t axes = 1;
  std::vector<std::int64_t> query = {};  // [B, Tq, axes]
  std::vector<std::int64_t> key = {};    // [B, Tk, axes]
};

// Positions [B, T] of sequences that start at the given offsets (one per sequence).
std::vector<std::int64_t> offset_positions(std::span<const std::int64_t> offsets,
                                           std::int64_t tokens);
// Positions [T] of packed sequences: each starts at 0.
std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> cumulative);

}  // namespace posenc::ref

// SPDX-License-Identifier: MIT

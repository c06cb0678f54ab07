// Masks and positions of an attention call as tensors on the device of its queries. The only copies from
// the device to the host are those of arguments that the host needs: lengths of packed sequences, a check that
// an integer mask only holds 0 and 1, and the range of positions if a spec rotates.
#pragma once

#include "kernels/attention_call.h"
#include "torch/attention_arguments.h"

namespace posenc::ops {

// The options of a call as they came.
struct TokenOptions {
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  OptionalTensor key_mask;
  OptionalTensor cu_queries;
  OptionalTensor cu_keys;
  OptionalTensor q_positions;
  OptionalTensor k_positions;
  at::Tensor lengths =
      {};  // int64 [B] on the device: keys of each sequence of a paged cache, at most those of k
};

// Positions of one side of a call.
struct SidePositions {
  at::Tensor ids;          // int64 [B, T, axes], or undefined: places
  std::int64_t least = 0;  // bounds of all of them
  std::int64_t most = 0;
};

class Tokens {
 public:
  // `op` signs the messages and outlives this.
  Tokens(const char* op, const at::Tensor& q, const at::Tensor& k, const TokenOptions& options);

  // Throws where positions have another number of coordinates than 1 or `axes`.
  void check_axes(std::int64_t axes) const;

  // Throws where both sides have positions, of different numbers of coordinates.
  void check_same_axes() const;

  [[nodiscard]] bool packed() const { return !cu_queries_.empty() || !cu_keys_.empty(); }
  [[nodiscard]] const std::vector<std::int64_t>& cu_queries() const { return cu_queries_; }
  [[nodiscard]] const std::vector<std::int64_t>& cu_keys() const { return cu_keys_; }
  // All that the framework-free checks look at; pointers are the device's and are not followed.
  [[nodiscard]] AttentionMask mask() const;
  [[nodiscard]] bool explicit_positions() const { return q_given_.defined() || k_given_.defined(); }

  // Place of each token in its sequence, int64 [T]; queries are aligned with the last keys.
  [[nodiscard]] at::Tensor q_places() const;
  [[nodiscard]] at::Tensor k_places() const;
  // The caller's positions, or places: [B or 1, T, axes].
  [[nodiscard]] at::Tensor q_positions() const;
  [[nodiscard]] at::Tensor k_positions() const;
  // Whether a key is at the place of a query or key, or before it in the same sequence: 1 or 0 in float64,
  // [Tq or Tk, Tk].
  [[nodiscard]] at::Tensor key_counts(Role role) const;
  // Whether a key is the query's own token, likewise [Tq, Tk].
  [[nodiscard]] at::Tensor own_keys() const;
  // The key that is a query's own token, int64 [Tq], or -1; and the first key of the sequence of every key, [Tk].
  [[nodiscard]] std::vector<std::int64_t> own_keys_on_host() const;
  [[nodiscard]] at::Tensor own_key_index() const;
  [[nodiscard]] at::Tensor first_of_sequence() const;
  // Whether a query sees a key, [B or 1, 1, Tq, Tk].
  [[nodiscard]] at::Tensor visible() const;

  [[nodiscard]] at::Tensor key_mask() const { return key_mask_; }  // uint8 [B, Tk], or undefined
  // Ids and their bounds for rotations. Bounds of ids on the device are read back, and refused where
  // they are not exact in float64.
  [[nodiscard]] SidePositions side(Role role) const;

 private:
  struct Side {
    std::vector<std::int64_t> place;
    std::vector<std::int64_t> sequence;
  };
  [[nodiscard]] Side side_of(bool queries) const;
  [[nodiscard]] at::Tensor same_sequence(bool queries) const;
  [[nodiscard]] at::Tensor on_device(const std::vector<std::int64_t>& values) const;

  const char* op_;
  TokenOptions options_;
  at::Device device_;
  std::int64_t batch_;
  std::int64_t queries_;
  std::int64_t keys_;
  std::vector<std::int64_t> cu_queries_;
  std::vector<std::int64_t> cu_keys_;
  at::Tensor q_given_;  // int64 [B, T, axes], where it was given
  at::Tensor k_given_;
  at::Tensor key_mask_;
};

}  // namespace posenc::ops

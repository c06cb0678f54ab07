// Selects the path of an attention call. attention() and attention_backward() take the path that capability() returns, and
// explain() prints it.
#pragma once

#include <string>

#include "posenc/kernels/attention.h"

namespace posenc {

enum class AttentionPath : std::uint8_t {
  kFused,      // kernels whose memory is linear in the length
  kDecode,     // a kernel for few queries
  kReference,  // the float64 reference on the CPU: scalar and slow
  kComposed,   // framework operations on another device, which store scores as Tq x Tk tensors
};

struct Capability {
  struct Pass {
    AttentionPath path = AttentionPath::kFused;
    std::string why;  // why it is not fused; empty if it is
    // An upper bound of the memory that grows with the lengths, in addition to the arguments (for 512-bit vectors).
    // Excludes tiles per thread and parameter tables. -1: unknown.
    std::int64_t bytes = -1;
  };
  Pass forward;
  Pass backward;
  std::string terms;         // terms that are fused: "rope while reading rows, cope"
  std::string device;        // "cuda", or empty for the CPU
  bool has_backward = true;  // false for a paged cache

  [[nodiscard]] bool is_slow() const { return !forward.why.empty() || !backward.why.empty(); }
};

// Only the shapes, types and strides of the tensors are read.
Capability capability(const AttentionCall& call);
// The same without tensors, assuming contiguous float32. Throws Error if the spec does not fit the shapes.
Capability capability(const Spec& spec, const AttentionShapes& shapes);

// The text that explain() returns.
std::string to_string(const Capability& capability);

}  // namespace posenc

// SPDX-License-Identifier: MIT

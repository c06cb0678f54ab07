// Which path serves an attention call, decided in one place: attention() and attention_backward() go where it says, and
// explain() prints it.
#pragma once

#include <string>

#include "posenc/kernels/attention.h"

namespace posenc {

enum class AttentionPath : std::uint8_t {
  kFused,      // kernels whose memory is linear in the length
  kDecode,     // a kernel for few queries
  kReference,  // the float64 reference on the CPU: scalar code, pair by pair, slow
  kComposed,   // operations of a framework on another device: scores as tensors of Tq x Tk
};

struct Capability {
  struct Pass {
    AttentionPath path = AttentionPath::kFused;
    std::string why;  // it is not fused; else empty
    // Memory besides the arguments that grows with the lengths, at most (with vectors of 512 bits); tiles of threads
    // and tables of parameters are not counted. -1: not known.
    std::int64_t bytes = -1;
  };
  Pass forward;
  Pass backward;
  std::string terms;   // what a fused path does besides: "rope while reading rows, cope"
  std::string device;  // "cuda", or empty for the CPU

  [[nodiscard]] bool is_slow() const { return !forward.why.empty() || !backward.why.empty(); }
};

// Of the tensors only shapes, types and strides are read.
Capability capability(const AttentionCall& call);
// The same before there are tensors, of contiguous float32 ones. Throws Error where the spec does not fit the shapes.
Capability capability(const Spec& spec, const AttentionShapes& shapes);

// What explain() returns.
std::string to_string(const Capability& capability);

}  // namespace posenc

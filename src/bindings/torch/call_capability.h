// The path of an operator's call, for explain() and for the warning if no fused kernel supports it.
#pragma once

#include "posenc/kernels/capability.h"
#include "torch/arguments.h"

namespace posenc::ops {

Capability call_capability(const std::string& spec, const AttentionShapes& shapes, bool cuda,
                           at::ScalarType type);

// What makes a call slow or take memory of Tq x Tk; empty where it is fused, was asked about before, or is refused by
// the operator itself. Calls of one spec, type and shape but for the lengths, which a cache changes at every step, are
// asked about once. Float64 on a CPU asks for the reference and has no warning.
std::string slow_path(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, bool explicit_positions);

// The same as a warning of libtorch. Python asks first and warns in its own way: libtorch's warnings do not reach it from
// an operator.
void warn_if_slow(const std::string& spec, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v, bool explicit_positions);

}  // namespace posenc::ops

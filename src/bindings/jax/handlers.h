// What the library exports: handlers of XLA's FFI, registered by python/posenc/jax.py, and what a spec holds as JSON.
//
// attention           q, k, v, parameters, inputs, optional arrays (arguments.h) -> out, lse
// attention_backward  grad_out, out, lse, and the operands of attention
//                     -> dq, dk, dv, gradients of the given parameters and of the inputs
// rope                q, k, parameters, positions -> q_out, k_out; transposed it is its own gradient
// rope_frequencies    dq_out, dk_out, and the operands of rope -> gradients of the given parameters
#pragma once

#include <cstdint>

#include "xla/ffi/api/c_api.h"

#define POSENC_JAX_EXPORT extern "C" __attribute__((visibility("default")))

POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_attention_cpu(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_attention_backward_cpu(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_rope_cpu(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_rope_frequencies_cpu(XLA_FFI_CallFrame* frame);

// In builds with CUDA.
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_attention_cuda(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_attention_backward_cuda(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_rope_cuda(XLA_FFI_CallFrame* frame);
POSENC_JAX_EXPORT XLA_FFI_Error* posenc_jax_rope_frequencies_cuda(XLA_FFI_CallFrame* frame);

// {"parameters": [{name, shape, trainable}], "inputs": [{name, by_query_head, channels, float32}]} of a spec of attention, or
// {"error": message}. Valid until the next call on this thread.
POSENC_JAX_EXPORT const char* posenc_jax_describe(const char* spec, std::int64_t head_dim,
                                                  std::int64_t heads) noexcept;
// {"values": a list of numbers per parameter}, or {"error": message}.
POSENC_JAX_EXPORT const char* posenc_jax_initial_parameters(const char* spec, std::int64_t head_dim,
                                                            std::int64_t heads,
                                                            std::uint64_t seed) noexcept;
// {"slow": whether a causal float32 call on a CPU has no fused path, forward and backward, "path": which one}, or
// {"error": message}. Sizes are batch, heads, heads of keys, queries, keys, channels of queries, channels of values.
POSENC_JAX_EXPORT const char* posenc_jax_explain(const char* spec, const std::int64_t* sizes,
                                                 bool explicit_positions) noexcept;

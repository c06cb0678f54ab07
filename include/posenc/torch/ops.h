// posenc's operators for C++ with libtorch: tensors in, tensors out, differentiable. The same operators
// are torch.ops.posenc.* in Python, with the same gradients.
//
//   q [B, H, Tq, D];  k, v [B, Hkv, Tk, D];  out as q          Hkv divides H
//   attention and attention_decode: v may have fewer or more channels than q and k; out has the channels of v
//
// float32, bfloat16 and float16 run the fused kernels (posenc/kernels/attention.h) with float32
// arithmetic; float64 runs the reference, for gradient checks. `parameters` are the encodings' parameters
// in the order of posenc::parameters(spec, shape), usually float32 for any type of q; constants (ALiBi's
// fixed slopes) may be omitted, all of them together. A spec is text, JSON or YAML. Specs of attention have
// encodings of sites 2 to 5; for site 1 use nn::PositionalEmbedding. Double backward is an error, except
// for rope with respect to q and k, in which it is linear.
//
// Link posenc::torch; loading the library registers the operators. Kernels use libtorch's thread count
// (at::set_num_threads).
#pragma once

// With clang and C++20, the headers of PyTorch 1.13 only compile in this order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace posenc::ops {

// Masks, positions and dropout; see posenc/kernels/attention.h. Undefined tensors are not given.
struct AttentionOptions {
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  at::Tensor
      key_mask;  // [B, Tk], false for padding: bool, or integers 0 and 1 (checking them syncs a GPU)
  at::Tensor cu_queries;  // cumulative lengths of packed sequences
  at::Tensor cu_keys;
  at::Tensor q_positions;  // [T], [B, T] or [B, T, axes], integers up to 2^53
  at::Tensor k_positions;
  std::vector<at::Tensor> inputs;  // in the order of posenc::token_inputs(spec, shape)
  std::optional<double> scale;
  double dropout = 0.0;
  std::int64_t seed = 0;         // of dropout
  bool keys_are_turned = false;  // keys are already rotated; not for length-dependent rotations
  at::Tensor k_scales;           // of int8 keys and values: attention_decode alone reads them
  at::Tensor v_scales;
  // A paged cache, of attention_decode alone: k, v, scales and inputs are pools [blocks, page, heads, channels].
  at::Tensor block_table;    // int32 [B, blocks]
  at::Tensor cache_lengths;  // [B], tokens of each sequence: whole numbers
};

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::string& spec, at::TensorList parameters = {},
                     const AttentionOptions& options = {});

// Causal attention of a few queries to a key/value cache. window_right, packed sequences and dropout are
// not supported and an error. On a CPU, k and v may be float32, bfloat16, float16 or int8 whatever q is; int8 rows come
// from quantize_rows, with their scales in the options, and are read by decode steps of up to eight queries. A CPU reads
// the pages of a block table in place; on a GPU they are gathered first, one call for the sequences of each length.
at::Tensor attention_decode(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters = {},
                            const AttentionOptions& options = {});

// Rows [B, H, T, C] as int8 and their scales, float32 [B, H, T, 1] (posenc/kernels/quantize.h), on a CPU.
std::tuple<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& x);

// Linear attention (posenc/kernels/linear_attention.h): form is elu, relu or cosine. Supports masks,
// packed sequences and positions; other options are an error.
at::Tensor linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters = {},
                            const AttentionOptions& options = {}, const std::string& form = "elu",
                            double epsilon = 1e-3);

// Rotates queries and keys in one pass; spec is a single rope or xpos. `transposed` applies the transpose,
// which is the inverse for unit magnitude.
std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const std::string& spec = "rope",
                                        at::TensorList parameters = {},
                                        const at::Tensor& positions = {}, bool transposed = false);

// Moves rotated keys from one set of positions to another, and to another schedule if to_spec is given.
at::Tensor rerotate(const at::Tensor& k, const std::string& spec, const at::Tensor& from_positions,
                    const at::Tensor& to_positions, const std::string& to_spec = "");

// E(n) of a sinusoidal encoding for each position, float64 [..., model_dim].
at::Tensor sinusoidal_vectors(const at::Tensor& positions, std::int64_t model_dim,
                              const std::string& spec = "sinusoidal");

}  // namespace posenc::ops

// SPDX-License-Identifier: MIT

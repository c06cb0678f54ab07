// posenc's operators for C++ with libtorch: tensors in, tensors out, differentiable. The same operators
// are torch.ops.posenc.* in Python, with the same gradients.
//
//   q [B, H, Tq, D];  k, v [B, Hkv, Tk, D];  out as q          Hkv divides H
//   attention and attention_decode: v may have fewer channels than q and k, and out then has those of v
//
// float32, bfloat16 and float16 run the fused kernels (posenc/kernels/attention.h), with float32
// arithmetic; float64 runs the reference, for checks of gradients. Parameters of the encodings are
// tensors in the order of posenc::parameters(spec, shape), float32 as a rule whatever q is; those that do
// not train (ALiBi's fixed slopes) may be left out together. A spec is text or JSON; one of attention has
// encodings of sites 2 to 5, and one of site 1 is refused (nn::PositionalEmbedding). A second derivative is refused, except of rope in q and k, which is linear in them.
//
// Link posenc::torch; loading the library registers the operators. Kernels run on libtorch's threads
// (at::set_num_threads).
#pragma once

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace posenc::ops {

// What a query sees and where tokens stand; see posenc/kernels/attention.h. Undefined: not given.
struct AttentionOptions {
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  at::Tensor
      key_mask;  // [B, Tk], false for padding: bool, or integers 0 and 1 (read back to check)
  at::Tensor cu_queries;  // cumulative lengths of packed sequences
  at::Tensor cu_keys;
  at::Tensor q_positions;  // [T], [B, T] or [B, T, axes], whole numbers up to 2^53
  at::Tensor k_positions;
  std::vector<at::Tensor> inputs;  // in the order of posenc::token_inputs(spec, shape)
  std::optional<double> scale;
  double dropout = 0.0;
  std::int64_t seed = 0;         // of the dropout
  bool keys_are_turned = false;  // refused for rotations that follow the length
};

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::string& spec, at::TensorList parameters = {},
                     const AttentionOptions& options = {});

// One query or few against a cache, causal. Refuses options that it does not read: window_right, packing
// and dropout.
at::Tensor attention_decode(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters = {},
                            const AttentionOptions& options = {});

// Of linear attention (posenc/kernels/linear_attention.h): form is elu, relu or cosine. Reads the mask,
// the packing and the positions of the options, and refuses the others.
at::Tensor linear_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::string& spec, at::TensorList parameters = {},
                            const AttentionOptions& options = {}, const std::string& form = "elu",
                            double epsilon = 1e-3);

// Queries and keys turned in one pass; spec is one rope or xpos. `transposed` turns by the transpose,
// the inverse where magnitudes are one.
std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const std::string& spec = "rope",
                                        at::TensorList parameters = {},
                                        const at::Tensor& positions = {}, bool transposed = false);

// Cached keys moved from one set of positions to another, and to another schedule if to_spec is given.
at::Tensor rerotate(const at::Tensor& k, const std::string& spec, const at::Tensor& from_positions,
                    const at::Tensor& to_positions, const std::string& to_spec = "");

// E(n) of a sinusoidal encoding for each position, float64 [..., model_dim].
at::Tensor sinusoidal_vectors(const at::Tensor& positions, std::int64_t model_dim,
                              const std::string& spec = "sinusoidal");

}  // namespace posenc::ops

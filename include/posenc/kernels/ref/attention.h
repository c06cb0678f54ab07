// The reference of attention with any spec: scalar float64, O(Tq Tk). It defines the expected results
// of the fast kernels.
//
//   scale = (options.scale, else 1/sqrt(D)) * PROD_b softmax_factor_b
//   q'_i  = PROD_b T_b(i) q_i,  k'_j = PROD_b T_b(j) k_j         site 2, in the order of the spec
//   r_ij  = scale <q'_i, k'_j>
//   s_ij  = r_ij + SUM_c B_c(h, i, j) + SUM_d C_d(q_i, r_i*)_j   sites 3 and 4
//   w_ij  = softmax of s_ij over the unmasked keys of i          masking: tokens.h
//   a_ij  = w_ij * dropout_factor(b, h, i, j)                    core/dropout.h
//   o_i   = SUM_j a_ij v_j,   lse_i = ln SUM_j exp(s_ij)
//
// Transforms apply in the order of the spec. Transforms with different channel pairs do not commute,
// and their product then depends on more than i - j. With grouped-query attention, a key is rotated by
// the frequencies of the query's head.
//
// CoPE uses q_i before rotation. Its gate logit is r_ij (gate_source=key), scale <q_i, kg_j> with the
// input kg (separate) or scale <q_i, v_j> (value), the latter two without rotation; gates_see_bias adds the
// biases of site 3.
//
// Encodings of site 1 are an error: they are added to the input (embedding.h). A query whose keys are all
// masked has output 0, lse -infinity and no gradient.
#pragma once

#include <optional>

#include "posenc/core/dropout.h"
#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/ref/tokens.h"

namespace posenc::ref {

// Values or gradients of all parameters of a spec, one entry per encoding.
using SpecParameters = std::vector<Parameters>;

struct AttentionInputs {
  std::span<const double> q = {};                     // [B, H, Tq, D]
  std::span<const double> k = {};                     // [B, Hkv, Tk, D]
  std::span<const double> v = {};                     // [B, Hkv, Tk, Dv]
  std::vector<std::span<const double>> of_encodings;  // in the order of token_inputs(spec, shape)
};

struct AttentionOptions {
  std::optional<double> scale = {};
  Masking masking = {};
  TokenPositions positions = {};
  // Lengths for schedules; a sequence of 0 means the largest position plus one.
  Lengths lengths = {};
  Dropout dropout = {};
  bool keep_weights = false;         // fill AttentionOutput::weights
  bool keep_parts = false;           // fill AttentionOutput::raw, bias and content
  bool keep_cope_positions = false;  // fill AttentionOutput::cope_positions and cope_gates
};

struct AttentionOutput {
  std::vector<double> out;      // [B, H, Tq, Dv]
  std::vector<double> lse;      // [B, H, Tq]
  std::vector<double> weights;  // w, before dropout: [B, H, Tq, Tk], 0 where masked
  // r, the sum of the B and the sum of the C (terms per token included): [B, H, Tq, Tk], 0 where masked.
  std::vector<double> raw;
  std::vector<double> bias;
  std::vector<double> content;
  // p_ij of each CoPE of the spec, in order: [B, H, Tq, Tk], 0 where masked.
  std::vector<std::vector<double>> cope_positions;
  std::vector<std::vector<double>> cope_gates;  // g_ij, likewise
};

struct AttentionGradients {
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<std::vector<double>> of_encodings;  // in the order of the inputs
  SpecParameters parameters;  // with the shapes of the values; includes constants
};

// Both throw Error, which names the argument, if shapes, parameters or options are invalid.
AttentionOutput attention(const Spec& spec, const SpecParameters& parameters,
                          const AttentionShape& shape, const AttentionInputs& inputs,
                          const AttentionOptions& options = {});

// Gradients of SUM grad_out * out with respect to everything. Recomputes the forward.
AttentionGradients attention_backward(const Spec& spec, const SpecParameters& parameters,
                                      const AttentionShape& shape, const AttentionInputs& inputs,
                                      std::span<const double> grad_out,
                                      const AttentionOptions& options = {});

}  // namespace posenc::ref

// SPDX-License-Identifier: MIT

// The reference of linear attention with site-2 encodings: scalar float64, evaluated pair by pair. The
// fast kernels compute the same with running sums.
//
//   o_i = SUM_j n_ij v_j / SUM_j d_ij                    over the unmasked keys of i (tokens.h)
//
//   form=rotated_numerator:  n_ij = <T(i) phi(q_i), T(j) phi(k_j)>,   d_ij = <phi(q_i), phi(k_j)>
//   form=cosine:             n_ij = d_ij = 1 + <u(T(i) q_i), u(T(j) k_j)>,   u(x) = x / |x|
//
// The first (Su et al. 2021, arXiv 2104.09864, equation 19) rotates only the numerator, so that the
// denominator stays positive; phi is elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236) or
// relu(x) + epsilon (Choromanski et al. 2020, arXiv 2009.14794). The second normalises after the
// transforms, so it is in [0, 2] even if they change norms. A vector with a norm below kShortest has
// u = 0 and no gradient.
//
// There is no softmax, so scale and softmax_factor do not apply. Windows and encodings of sites 3 and
// 4, which need rows of scores, are errors. A query whose denominator is zero (all of its keys are
// masked) has output 0 and no gradient.
#pragma once

#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

struct LinearAttentionOptions {
  enum class Form { kRotatedNumerator, kCosine };
  enum class FeatureMap { kElu, kRelu };
  static constexpr double kShortest = 1e-12;

  Form form = Form::kRotatedNumerator;
  FeatureMap feature_map = FeatureMap::kElu;
  double epsilon = 1e-3;  // for kRelu
  Masking masking = {};   // without windows
  TokenPositions positions = {};
  Lengths lengths = {};  // as in AttentionOptions
};

struct LinearAttentionOutput {
  std::vector<double> out;          // [B, H, Tq, D]
  std::vector<double> denominator;  // [B, H, Tq]
};

// Shapes, errors and gradients as in attention.h; `of_encodings` is ignored.
LinearAttentionOutput linear_attention(const Spec& spec, const SpecParameters& parameters,
                                       const AttentionShape& shape, const AttentionInputs& inputs,
                                       const LinearAttentionOptions& options = {});

AttentionGradients linear_attention_backward(const Spec& spec, const SpecParameters& parameters,
                                             const AttentionShape& shape,
                                             const AttentionInputs& inputs,
                                             std::span<const double> grad_out,
                                             const LinearAttentionOptions& options = {});

}  // namespace posenc::ref

// SPDX-License-Identifier: MIT

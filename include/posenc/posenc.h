// posenc: positional encodings in attention.
//
// Position can enter attention at five sites. Every encoding belongs to one of them.
//
//   x_t  = token_t + SUM_a E_a(t)                          site 1  input      learned, sinusoidal
//   q'_i = PROD_b T_b(i) q_i,  k'_j = PROD_b T_b(j) k_j    site 2  query/key  rope, xpos,
//                                                                             temperature
//   r_ij = scale * <q'_i, k'_j>                            the raw score; path and wall (site 2)
//          or scale * k'_j^T M_{j+1} ... M_i q'_i          apply a matrix M per token in between
//   s_ij = r_ij + SUM_c B_c(h, i, j)                       site 3  bias       alibi, t5, kerple,
//                                                                             fire, relative,
//                                                                             relative_2d
//               + C(q_i, r_i*, i, j)                       site 4  content    cope, fox, key_bias,
//                                                                             relative_query,
//                                                                             grape_ap
//   o_i  = SUM_j exp(S(s_ij)) v_j
//          / (SUM_j exp(S(s_ij)) + SUM_d exp(z_d))         site 5  softmax    softcap, sink,
//                                                                             stick_breaking
//
// where j runs over the unmasked keys.
//
// Sites apply in this order. Terms add at sites 1 and 3, and transforms multiply at site 2, so any
// list of encodings composes: parse_spec("rope + alibi") returns {Rope, Alibi}.
#pragma once

#include "posenc/core/error.h"
#include "posenc/core/rng.h"
#include "posenc/core/status.h"
#include "posenc/core/threads.h"
#include "posenc/core/version.h"
#include "posenc/encodings/analysis.h"
#include "posenc/encodings/encoding.h"
#include "posenc/encodings/hf_config.h"
#include "posenc/encodings/rotary.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/attention.h"
#include "posenc/kernels/attention_slices.h"
#include "posenc/kernels/block_table.h"
#include "posenc/kernels/embedding.h"
#include "posenc/kernels/linear_attention.h"
#include "posenc/kernels/quantize.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"

// SPDX-License-Identifier: MIT

// int8 rows for a cache of keys and values: a quarter of the memory of float32.
//
//   scale_r = max_c |x_rc| / 127,   n_rc = round(x_rc / scale_r)       x_rc is read as scale_r n_rc
//
// Every row (a token of a head) has a scale, so a token is written without looking at the others, and an entry is off by
// at most half of its row's scale. Attention computes with scale_r n_rc as it would with float32 rows of these values
// (AttentionCall::k_scales).
//
//   std::vector<std::int8_t> keys(2 * 4096 * 64);     [1, 2, 4096, 64]
//   std::vector<float> scales(2 * 4096);              [1, 2, 4096, 1]
//   quantize_rows(new_keys, cache.token_range(length, 1), cache_scales.token_range(length, 1));
#pragma once

#include "posenc/core/status.h"
#include "posenc/core/tensor_view.h"

namespace posenc {

// From rows [B, H, T, C] in float32, bfloat16 or float16 to int8 rows of that shape and float32 scales [B, H, T, 1].
// Ties are rounded to even. A row of zeros has scale 0; a row with a NaN or an infinity has a NaN as its scale, so that
// it shows in the result. All arguments are checked first: on error nothing is written.
Status quantize_rows(const ConstTensorView& x, const TensorView& quantized,
                     const TensorView& scales) noexcept;

// scale_r n_rc as float32, bfloat16 or float16, for calls that do not read int8.
Status dequantize_rows(const ConstTensorView& quantized, const ConstTensorView& scales,
                       const TensorView& x) noexcept;

}  // namespace posenc

// SPDX-License-Identifier: MIT

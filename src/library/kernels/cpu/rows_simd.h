// Rows of channels between their storage and float32.
#pragma once

#include <cstddef>

#include "posenc/core/tensor_view.h"

namespace posenc::cpu {

void row_to_float(DType dtype, const void* from, std::size_t size, float* to) noexcept;
void row_from_float(DType dtype, const float* from, std::size_t size, void* to) noexcept;

}  // namespace posenc::cpu

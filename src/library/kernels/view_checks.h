// Checks of tensor views that every kernel makes before it writes.
#pragma once

#include "posenc/core/status.h"
#include "posenc/core/tensor_view.h"

namespace posenc {

// Present, positive channels, contiguous last dimension, no negative sizes; floating-point.
Status check_view(const char* op, const char* name, const ConstTensorView& view) noexcept;
// The same of a tensor that may be int8 too.
Status check_cache_view(const char* op, const char* name, const ConstTensorView& view) noexcept;
// Same shape and type as another.
Status check_same_shape(const char* op, const char* name, const ConstTensorView& view,
                        const char* other_name, const ConstTensorView& other) noexcept;
// An output may be the input itself (same place, same strides) or lie apart from it.
Status check_output(const char* op, const char* name, const TensorView& out,
                    const ConstTensorView& in) noexcept;

}  // namespace posenc

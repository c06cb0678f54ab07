// Tensors of safetensors files as float32 numbers.
#pragma once

#include <vector>

#include "posenc/weights/safetensors.h"

namespace posenc::pretrained {

// Of float32, bfloat16 and float16, exactly; an Error names any other type.
std::vector<float> read_floats(const weights::Reader& reader, const weights::TensorInfo& tensor);

}  // namespace posenc::pretrained

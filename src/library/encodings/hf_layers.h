// The rotations of a model's layers, for all supported forms of config.json.
#pragma once

#include <vector>

#include "encodings/hf_family.h"
#include "encodings/hf_keys.h"
#include "posenc/encodings/hf_config.h"

namespace posenc {

std::vector<HfLayer> read_rope_layers(const HfKeys& top, const HfFamily& family,
                                      const ModelShape& shape);

}  // namespace posenc

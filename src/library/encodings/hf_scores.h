// Settings of scores in a config.json other than rotations and biases.
#pragma once

#include <optional>

#include "encodings/hf_family.h"
#include "encodings/hf_keys.h"
#include "posenc/encodings/softcap.h"
#include "posenc/encodings/temperature.h"

namespace posenc {

// Llama 4 scales the queries of layers without rotation.
std::optional<Temperature> read_llama4_temperature(const HfKeys& top, const HfFamily& family);
// Ministral 3 and Mistral 4 scale those of all layers, by a key among the rotation parameters.
std::optional<Temperature> read_mistral_temperature(const HfKeys& top);
std::optional<Softcap> read_softcap(const HfKeys& top, const HfFamily& family);
// What multiplies scores, where it is not 1 / sqrt(head_dim).
std::optional<double> read_scale(const HfKeys& top, const HfFamily& family, std::int64_t head_dim);

}  // namespace posenc

// Powers in float32, bitwise identical to PyTorch: the only step of Hugging Face's frequencies and
// slopes whose rounding depends on the math library.
//
// On a CPU with AVX-512 PyTorch raises a scalar to a tensor of exponents in blocks of 32 with a
// vector pow of about one unit in the last place, and what remains with the C library's. One unit
// more or less in a frequency moves cos by 1e-5 at position 1,000, so parity needs the same bits.
#pragma once

#include <span>
#include <vector>

namespace posenc {

std::vector<float> hf_powers(float base, std::span<const float> exponents);

}  // namespace posenc

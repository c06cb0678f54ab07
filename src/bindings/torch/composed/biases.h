// The biases of site 3 as tensor operations for any device: as a table of distances, or for every
// query and key if attention is not fused. Differentiable with respect to the parameters.
#pragma once

#include "torch/arguments.h"

namespace posenc::ops {

// The parameters of a spec as tensors, per encoding, from the joined ones that an operator gets.
// Constants that were left out are those of the spec. Differentiable in `flat`.
std::vector<std::vector<at::Tensor>> parameter_tensors(const Prepared& prepared,
                                                       const at::Tensor& flat);

// Values [heads, ...] of a Toeplitz bias at distances i - j (int64, any shape).
at::Tensor toeplitz_bias(const Encoding& encoding, const std::vector<at::Tensor>& parameters,
                         const at::Tensor& distance);

// FIRE's [B or 1, heads, Tq, Tk] at positions [B or 1, T].
at::Tensor fire_bias(const Fire& config, const std::vector<at::Tensor>& parameters,
                     const at::Tensor& q_positions, const at::Tensor& k_positions);

// Relative2d's [B or 1, heads, Tq, Tk] at positions [B or 1, T, 1 or 2].
at::Tensor plane_bias(const Relative2d& config, const std::vector<at::Tensor>& parameters,
                      const at::Tensor& q_positions, const at::Tensor& k_positions);

// Distances -before .. span - before - 1, and the sum of a spec's Toeplitz biases there: [heads, span]
// in the parameters' type.
struct BiasTable {
  std::int64_t before = 0;
  std::int64_t span = 0;
};
at::Tensor bias_table(const Prepared& prepared,
                      const std::vector<std::vector<at::Tensor>>& parameters,
                      const BiasTable& range, const at::Device& device);
// The entries (int64) that an encoding reads at these distances; undefined where it has one value per head. Kept on
// the device.
at::Tensor bias_entries(const Prepared& prepared, std::size_t index, const BiasTable& range,
                        const at::Device& device);
// From the table's gradient to those of the parameters, shaped as they are; undefined for encodings
// without a Toeplitz bias. Sums run in a fixed order.
std::vector<std::vector<at::Tensor>> bias_table_gradient(
    const Prepared& prepared, const std::vector<std::vector<at::Tensor>>& parameters,
    const BiasTable& range, const at::Tensor& dtable);

// One after the other again, shaped as `flat`; zeros where a gradient is undefined.
at::Tensor join_gradients(const Prepared& prepared,
                          const std::vector<std::vector<at::Tensor>>& gradients,
                          const at::Tensor& flat);

}  // namespace posenc::ops

#include "kernels/ref/checks.h"
#include "kernels/ref/transforms.h"
#include "kernels/ref/vectors.h"
#include "posenc/kernels/ref/rope.h"

namespace posenc::ref {
namespace {

constexpr const char* kScope = "rope";

// Coordinates per token, after every check.
std::int64_t checked_axes(const Rotary& rotary, const RopeShape& shape, std::size_t x_size,
                          std::size_t positions_size) {
  require_at_least(kScope, "batch", shape.batch, 0);
  require_at_least(kScope, "heads", shape.heads, 1);
  require_at_least(kScope, "tokens", shape.tokens, 0);
  require_size(kScope, "x", x_size, shape.batch * shape.heads * shape.tokens * shape.head_dim,
               "[B, H, T, D]");
  if (shape.head_dim != rotary.head_dim || shape.heads % rotary.groups() != 0) {
    throw Error(ErrorKind::kConflict,
                {.scope = kScope,
                 .key = "shape",
                 .rule = "must have the Rotary's head_dim (" + std::to_string(rotary.head_dim) +
                         ") and a multiple of its groups (" + std::to_string(rotary.groups()) + ")",
                 .value = std::to_string(shape.head_dim) + " and " + std::to_string(shape.heads),
                 .hint = ""});
  }
  const std::int64_t tokens = shape.batch * shape.tokens;
  if (positions_size == static_cast<std::size_t>(tokens)) return 1;
  require_size(kScope, "positions", positions_size, tokens * rotary.axes.axes, "[B, T, axes]");
  return rotary.axes.axes;
}

// Calls visit(group, position, index of the vector) for every vector of the tensor.
template <class Visit>
void for_each_vector(const Rotary& rotary, const RopeShape& shape,
                     std::span<const std::int64_t> positions, std::int64_t axes, Visit&& visit) {
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        visit(rotary.group_of(h, shape.heads), vector_at(positions, b * shape.tokens + t, axes),
              (b * shape.heads + h) * shape.tokens + t);
      }
    }
  }
}

}  // namespace

std::vector<double> rope(const Rotary& rotary, Role role, const RopeShape& shape,
                         std::span<const double> x, std::span<const std::int64_t> positions) {
  const std::int64_t axes = checked_axes(rotary, shape, x.size(), positions.size());
  std::vector<double> y(x.begin(), x.end());
  for_each_vector(rotary, shape, positions, axes,
                  [&](std::int64_t group, std::span<const std::int64_t> n, std::int64_t index) {
                    turn(rotary, role, group, n, vector_at(std::span(y), index, shape.head_dim));
                  });
  return y;
}

RopeGradients rope_backward(const Rotary& rotary, Role role, const RopeShape& shape,
                            std::span<const double> x, std::span<const std::int64_t> positions,
                            std::span<const double> grad_out) {
  const std::vector<double> y = rope(rotary, role, shape, x, positions);
  const std::int64_t axes = checked_axes(rotary, shape, x.size(), positions.size());
  require_size(kScope, "grad_out", grad_out.size(), std::ssize(x), "[B, H, T, D]");
  RopeGradients gradients{
      {grad_out.begin(), grad_out.end()},
      std::vector<double>(static_cast<std::size_t>(rotary.groups() * rotary.pairs()), 0.0)};
  for_each_vector(rotary, shape, positions, axes,
                  [&](std::int64_t group, std::span<const std::int64_t> n, std::int64_t index) {
                    turn_backward(rotary, role, group, n,
                                  vector_at(std::span(y), index, shape.head_dim),
                                  vector_at(std::span(gradients.x), index, shape.head_dim),
                                  vector_at(std::span(gradients.inv_freq), group, rotary.pairs()));
                  });
  return gradients;
}

std::vector<double> alpha_gradient(const Rotary& rotary, std::span<const double> dinv_freq) {
  require_size(kScope, "dinv_freq", dinv_freq.size(), rotary.groups() * rotary.pairs(),
               "[groups, pairs]");
  std::vector<double> dalpha(rotary.pairs(), 0.0);
  for (std::int64_t g = 0; g < rotary.groups(); ++g) {
    const auto dgroup = vector_at(dinv_freq, g, rotary.pairs());
    const std::vector<double>& group = rotary.inv_freq[g];
    for (std::size_t p = 0; p < dalpha.size(); ++p) dalpha[p] += group[p] * dgroup[p];
  }
  return dalpha;
}

}  // namespace posenc::ref

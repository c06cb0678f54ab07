// Site 2: the transforms of queries and keys that a spec asks for, one after the other.
#pragma once

#include <string>

#include "posenc/encodings/rotary.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

// One transform of one head's vector, in place; a single coordinate serves every axis.
void turn(const Rotary& rotary, Role role, std::int64_t group,
          std::span<const std::int64_t> position, std::span<double> x);

// Its backward: `y` is what turn left, `dy` the gradient there, which becomes the gradient at x;
// the gradient of the group's frequencies is added to.
void turn_backward(const Rotary& rotary, Role role, std::int64_t group,
                   std::span<const std::int64_t> position, std::span<const double> y,
                   std::span<double> dy, std::span<double> dinv_freq);

// Throws where positions have several coordinates and the Rotary wants another number of them.
void check_axes(const std::string& scope, const Rotary& rotary, std::int64_t axes);

class Transforms {
 public:
  // `axes`: coordinates of the positions that will come.
  Transforms(const std::string& scope, const Spec& spec, const SpecParameters& parameters,
             const ModelShape& shape, const Lengths& lengths, std::int64_t axes);

  // Product over the transforms.
  [[nodiscard]] double softmax_factor() const;

  void apply(Role role, std::int64_t head, std::span<const std::int64_t> position,
             std::span<double> x) const;
  // `x` is the vector before apply; `dy` is the gradient after it and becomes the gradient before.
  void backward(Role role, std::int64_t head, std::span<const std::int64_t> position,
                std::span<const double> x, std::span<double> dy, SpecParameters& gradient) const;

 private:
  struct Stage {
    Rotary rotary;
    std::size_t encoding;  // index into the spec
  };

  std::vector<Stage> stages_;
  std::int64_t heads_;
};

}  // namespace posenc::ref

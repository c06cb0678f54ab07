// Site 2: applies the transforms of a spec to queries and keys, in order.
#pragma once

#include <optional>
#include <string>

#include "posenc/encodings/encoding.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

// One transform of one head's vector, in place; a single coordinate serves every axis.
void turn(const Rotary& rotary, Role role, std::int64_t group,
          std::span<const std::int64_t> position, std::span<double> x);

// Its backward: `y` is the result of turn(), `dy` its gradient, which becomes the gradient of x. Adds to
// the gradient of the group's frequencies.
void turn_backward(const Rotary& rotary, Role role, std::int64_t group,
                   std::span<const std::int64_t> position, std::span<const double> y,
                   std::span<double> dy, std::span<double> dinv_freq);

// Throws where positions have several coordinates and the Rotary wants another number of them.
void check_axes(const std::string& scope, const Rotary& rotary, std::int64_t axes);

// A token of a head. `rows` are its rows in the inputs of the spec, or the gradients of these; empty where it has none.
struct HeadToken {
  std::int64_t head = 0;
  std::span<const std::int64_t> position;
  std::vector<std::span<const double>> rows = {};
};
using GradientRows = std::vector<std::span<double>>;

class Transforms {
 public:
  // `axes`: coordinates of the positions that will come.
  Transforms(const std::string& scope, const Spec& spec, const SpecParameters& parameters,
             const ModelShape& shape, const Lengths& lengths, std::int64_t axes);

  // Product over the transforms.
  [[nodiscard]] double softmax_factor() const;

  void apply(Role role, const HeadToken& token, std::span<double> x) const;
  // `x` is the vector before apply; `dy` is the gradient after it and becomes the gradient before.
  void backward(Role role, const HeadToken& token, std::span<const double> x, std::span<double> dy,
                SpecParameters& gradient, const GradientRows& drows = {}) const;

  // Rotations with values=true: of a value, or with `back` of the output at a query.
  [[nodiscard]] bool rotates_values() const { return !value_stages_.empty(); }
  void apply_to_value(const HeadToken& token, bool back, std::span<double> x) const;
  void value_backward(const HeadToken& token, bool back, std::span<const double> x,
                      std::span<double> dy, SpecParameters& gradient,
                      const GradientRows& drows) const;

 private:
  struct Stage {
    Rotary rotary;
    std::size_t encoding;                             // index into the spec
    std::optional<std::size_t> input = std::nullopt;  // that gives its angles
    bool input_positions = false;                     // which the frequencies multiply
  };
  using Stages = std::vector<Stage>;
  [[nodiscard]] std::int64_t group_of(const Stage& stage, const HeadToken& token) const {
    return stage.rotary.group_of(token.head, heads_);
  }
  void turn_by(const Stage& stage, Role role, const HeadToken& token, std::span<double> x) const;
  void stages_backward(const Stages& stages, Role role, const HeadToken& token,
                       const std::vector<std::vector<double>>& left, std::span<double> dy,
                       SpecParameters& gradient, const GradientRows& drows) const;
  // What each stage leaves of x, after x itself.
  [[nodiscard]] std::vector<std::vector<double>> all_left(const Stages& stages, Role role,
                                                          const HeadToken& token,
                                                          std::span<const double> x) const;
  [[nodiscard]] Stages value_stages(bool back) const;
  struct Factor {
    Temperature config;
    std::size_t encoding;
    std::vector<double> trained;  // per head; empty where nothing is
  };
  // What the first factors but `without` multiply a query by.
  [[nodiscard]] double factor(std::int64_t head, std::int64_t position,
                              const Factor* without = nullptr) const;
  void factors_backward(std::int64_t head, std::int64_t position, std::span<const double> y,
                        std::span<double> dy, SpecParameters& gradient) const;

  Stages stages_;
  Stages value_stages_;          // with unit magnitude
  std::vector<Factor> factors_;  // of queries, after the rotations
  std::int64_t heads_;
};

}  // namespace posenc::ref

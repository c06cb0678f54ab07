// KERPLE (site 3): conditionally positive definite kernels of the distance, learned per head.
//
//   log:    B(h, i, j) = -p_h ln(1 + a_h |i - j|)
//   power:  B(h, i, j) = -a_h |i - j|^p_h
//
// with p, a > 0 (and p <= 2 for power). Both are trained as they stand and read as max(value,
// 0.01), as the authors' code clamps them; below the clamp the gradient is zero.
//
// Chi et al. 2022, arXiv 2205.09921, equations 5 and 6. Parameters: p [heads], a [heads].
#pragma once

#include "posenc/encodings/common.h"

namespace posenc {

struct Kerple {
  enum class Kernel { kLog, kPower };

  Kernel kernel = Kernel::kLog;

  static constexpr Traits kTraits{
      .name = "kerple",
      .site = Site::kBias,
      .title = "kernelized relative positions",
      .formula = "B = -p_h ln(1 + a_h |i - j|), or -a_h |i - j|^p_h",
      .paper = "Chi et al. 2022, arXiv 2205.09921",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kernel", self.kernel, FieldRule{.doc = "logarithmic or power"});
  }
  bool operator==(const Kerple&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(Kerple::Kernel /*tag*/) {
  return {"log", "power"};
}

void validate(const Kerple& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Kerple& config, const ModelShape& shape);

double bias(const Kerple& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j);
void add_bias_gradient(const Kerple& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient);
constexpr bool is_toeplitz(const Kerple& /*config*/) { return true; }

}  // namespace posenc

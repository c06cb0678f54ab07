// A case of the table as calls of the handlers of attention.
#pragma once

#include "cases/attention_data.h"
#include "jax/ffi_host.h"

namespace posenc::testing {

class AttentionFrames {
 public:
  // `constants`: parameters that do not train are arrays as well.
  explicit AttentionFrames(const cases::Case& c, bool constants = true);

  FfiFrame forward();
  FfiFrame backward();
  // From the results of backward() to those of the case.
  void store_parameter_gradients();

  cases::AttentionProblem problem;

 private:
  void operands(FfiFrame& frame);

  std::vector<SpecParameter> given_;
  std::vector<std::vector<float>> parameters_, dparameters_;
  std::uint32_t seed_ = 0;
};

// Values and gradients of the handlers compared with the float64 reference: what differs, or nothing.
std::string mismatch_of(const cases::Case& c);

}  // namespace posenc::testing

// Random numbers as values that an input of an encoding may have.
#pragma once

#include <ATen/ATen.h>

#include "cases/attention_data.h"

namespace posenc::testing {

inline at::Tensor fitted_input(const InputInfo& info, const at::Tensor& normal) {
  const at::Tensor wide = normal.to(at::kDouble).contiguous();
  std::vector<double> values(wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
  cases::fit_input(info, values);
  return at::tensor(values, at::kDouble).reshape(wide.sizes());
}

}  // namespace posenc::testing

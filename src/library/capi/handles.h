// The contents of the opaque handles.
#pragma once

#include <memory>
#include <vector>

#include "posenc/encodings/spec.h"
#include "posenc/kernels/attention.h"
#include "posenc/kernels/linear_attention.h"
#include "posenc/posenc_c.h"

namespace posenc::capi {
using Values = std::vector<Parameters>;  // per encoding of a spec
}  // namespace posenc::capi

struct posenc_spec {
  posenc::Spec spec;
};

struct posenc_parameters {
  posenc::Spec spec;
  posenc::ModelShape shape;
  std::vector<posenc::SpecParameter> infos;
  std::shared_ptr<posenc::capi::Values> values;  // shared with states, which outlive the handle
};

struct posenc_plan {
  std::shared_ptr<const posenc::AttentionPlan> plan;
  std::shared_ptr<posenc::capi::Values> no_values;  // for specs without parameters
  std::size_t parameters = 0;                       // how many the spec has
  std::int64_t axes = 1;                            // coordinates of a position
};

struct posenc_linear_state {
  std::shared_ptr<const posenc::AttentionPlan> plan;
  std::shared_ptr<posenc::capi::Values> values;
  std::int64_t axes = 1;
  posenc::LinearAttentionState state;
};

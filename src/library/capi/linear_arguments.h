// Shared by the call and the state of linear attention.
#pragma once

#include "capi/arguments.h"

namespace posenc::capi {

LinearAttentionOptions linear_options_of(const posenc_linear_options& options);

}  // namespace posenc::capi

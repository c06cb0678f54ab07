// Records the path that ran last, for tests that compare it with capability().
#pragma once

#include <atomic>

#include "posenc/kernels/capability.h"

namespace posenc {

struct PathTrace {
  std::atomic<AttentionPath> forward{AttentionPath::kFused};
  std::atomic<AttentionPath> backward{AttentionPath::kFused};
};
PathTrace& path_trace();

// As explain() writes it.
std::string path_name(AttentionPath path);

}  // namespace posenc

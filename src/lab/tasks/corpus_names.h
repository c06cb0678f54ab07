// Corpora that `posenc data NAME` knows how to fetch, so that an error can say what it would do.
#pragma once

#include <string>
#include <string_view>

namespace posenc::tasks {

// "run posenc data sotu, which fetches 10.8 MB from ...", or the known names for an unknown one.
std::string corpus_hint(std::string_view name);

}  // namespace posenc::tasks

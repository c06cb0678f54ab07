// The runs and packs below a folder, and what a list of them shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/value.h"

namespace posenc::runs {

// Folders that hold a run, and files with the name of an archive, by path. Folders of runs are not
// searched further. Links and temporaries are skipped. Throws where a folder cannot be read.
std::vector<std::filesystem::path> find_run_paths(const std::filesystem::path& folder);

// "rope | alibi": model.encoding of a config, as results.json writes it; empty where it has none.
std::string encoding_in(const Value& config);
// A spec, or a list of specs: "rope + alibi", "sinusoidal | rope"; JSON where it is more than that.
std::string spec_text(const Value& value);
std::optional<std::int64_t> seed_in(const Value& config);

// A line of `posenc runs list`.
struct RunSummary {
  std::string encoding;
  std::optional<std::int64_t> seed;
  std::string state;  // of its status, or "killed"
  std::int64_t step = 0;
  std::int64_t bytes = 0;  // of its files
};
RunSummary summarize_run(const std::filesystem::path& run);

}  // namespace posenc::runs

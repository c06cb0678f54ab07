// Packs: run directories in one compact file, for archiving and sharing results.
//
//   counting.tar.zst
//     pack.json              size and SHA-256 of every file (pack_index.h)
//     seed0-rope-1a2b/       a run: config.yaml, environment.json, status.json, results.json, scores.bin,
//                            metrics.jsonl with fewer rows, attention of one sample, weights on request
//
// Packing the same runs twice gives the same bytes. Absolute paths of the machine are left out of
// environment.json and of the message in status.json; config.yaml is copied as it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace posenc::runs {

struct PackOptions {
  bool weights = false;                     // model.safetensors of the last checkpoint
  std::int64_t attention = 1;               // records, of the shortest length
  std::int64_t metrics = 200;               // rows of metrics.jsonl
  const std::atomic<bool>* stop = nullptr;  // gives up before the pack is put in place
};

struct Packed {
  std::int64_t runs = 0;
  std::int64_t bytes = 0;             // of the files in it
  std::int64_t archive_bytes = 0;     // of the pack
  std::vector<std::string> messages;  // damaged checkpoints that were skipped
};

// Packs every run below the folders into `pack`, which is replaced atomically. Throws before it writes where a
// folder has no run, a process writes to one, or two runs would have the same name.
Packed pack_runs(const std::vector<std::filesystem::path>& folders,
                 const std::filesystem::path& pack, const PackOptions& options = {});

}  // namespace posenc::runs

// Reads packs (pack.h). A pack is verified completely before any of it is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runs/pack_index.h"
#include "system/scratch_folder.h"

namespace posenc::runs {

// False for an archive of something else. A file that cannot be decompressed may be a pack: it is damaged.
bool may_be_pack(const std::filesystem::path& file);

// The runs of a pack in a temporary folder, which goes with this object. Throws an Error that names the pack
// where it is damaged: cut off, altered, with files missing or too many, or of more than `most_bytes`.
class UnpackedPack {
 public:
  // The folder is created next to `sibling`.
  UnpackedPack(const std::filesystem::path& pack, const std::filesystem::path& sibling,
               std::int64_t most_bytes = kLargestPack);
  // In the system's folder for temporary files.
  explicit UnpackedPack(const std::filesystem::path& pack);

  [[nodiscard]] const std::filesystem::path& pack() const { return pack_; }
  // Names, in order.
  [[nodiscard]] std::vector<std::string> runs() const { return run_names(index_); }
  [[nodiscard]] std::filesystem::path folder(const std::string& run) const { return files_ / run; }
  // Of the files.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  void read(std::int64_t most_bytes);

  std::filesystem::path pack_;
  ScratchFolder scratch_;
  std::filesystem::path files_;
  PackIndex index_;
};

struct Unpacked {
  std::vector<std::string> runs;     // moved into place
  std::vector<std::string> skipped;  // there already, with the same config
};

// Moves the runs of all packs into `to`, which is made if need be. Throws before anything is moved where a pack
// is damaged, where a run would take the place of something else, or where `stop` is set.
Unpacked unpack_runs(const std::vector<std::filesystem::path>& packs,
                     const std::filesystem::path& to, std::int64_t most_bytes = kLargestPack,
                     const std::atomic<bool>* stop = nullptr);

}  // namespace posenc::runs

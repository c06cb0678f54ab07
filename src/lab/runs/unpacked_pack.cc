#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runs/archive.h"
#include "runs/tar_entries.h"
#include "runs/unpack.h"
#include "system/files.h"
#include "system/sha256.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

// Headers and padding of a tar, and pack.json itself, for as many files as a pack of any use has.
constexpr std::int64_t kTarOverhead = std::int64_t{64} << 20;
constexpr const char* kScratch = "posenc-pack";

Error damaged(const fs::path& pack, const std::string& rule) {
  return file_error(ErrorKind::kIo, pack.string(), "", "is damaged: it " + rule, "",
                    "fetch or make it again; nothing was unpacked");
}

const fs::path& require_regular(const fs::path& pack) {
  if (fs::is_regular_file(pack)) return pack;
  throw file_error(ErrorKind::kIo, pack.string(), "", "is not a file", "", "check the path");
}

PackIndex read_index(const fs::path& tar, const TarEntry& first, const fs::path& pack,
                     std::int64_t most_bytes) {
  if (first.name != kPackIndexFile || first.folder) {
    throw file_error(ErrorKind::kIo, pack.string(), "",
                     fmt::format("is not a pack of runs: it begins with {}, not {}",
                                 weights::in_quotes(first.name), kPackIndexFile),
                     "", "make packs with posenc runs pack");
  }
  const InputFile file(tar.string());
  const std::string text = file.read_text(static_cast<std::uint64_t>(first.offset),
                                          static_cast<std::size_t>(first.size));
  return parse_pack_index(text, (pack / kPackIndexFile).string(), most_bytes);
}

// The archive's files are those of the index, once each and as long.
void compare_entries(const std::vector<TarEntry>& entries, const PackIndex& index,
                     const fs::path& pack) {
  std::vector<std::pair<std::string, std::int64_t>> there;
  for (auto entry = entries.begin() + 1; entry != entries.end(); ++entry) {
    if (!entry->folder) there.emplace_back(entry->name, entry->size);
  }
  std::sort(there.begin(), there.end());
  for (const ManifestFile& file : index.files) {
    const std::string name = weights::in_quotes(file.name);
    const auto found = std::find_if(there.begin(), there.end(),
                                    [&](const auto& entry) { return entry.first == file.name; });
    if (found == there.end()) throw damaged(pack, fmt::format("lacks {}", name));
    if (found->second != file.size) {
      throw damaged(pack,
                    fmt::format("has {} with {} bytes, not {}", name, found->second, file.size));
    }
  }
  if (there.size() == index.files.size()) return;
  throw damaged(pack, fmt::format("has {} files, but lists {}", there.size(), index.files.size()));
}

// What tar made of it: the headers were checked, and a program could still be wrong.
void check_tree(const fs::path& folder, const PackIndex& index, const fs::path& pack) {
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    if (entry.is_symlink() || !entry.is_regular_file()) {
      throw damaged(pack, fmt::format("has {}, which is not a regular file",
                                      weights::in_quotes(entry.path().filename().string())));
    }
    ++files;
  }
  for (const ManifestFile& file : index.files) {
    const std::string path = (folder / file.name).string();
    const auto size = static_cast<std::int64_t>(InputFile(path).size());
    if (size == file.size && sha256_of_file(path) == file.sha256) continue;
    throw damaged(pack, fmt::format("has an altered {}", weights::in_quotes(file.name)));
  }
  if (files == index.files.size() + 1) return;  // and pack.json
  throw damaged(pack, fmt::format("left {} files, but lists {}", files, index.files.size()));
}

}  // namespace

bool may_be_pack(const fs::path& file) {
  require_archive_tools(file);
  const ScratchFolder scratch = temporary_scratch(kScratch);
  const std::string block = Archive(file, scratch.path(), file.string()).first_bytes(kTarBlock);
  return block.size() < kTarBlock || std::string_view(block.c_str()) == kPackIndexFile;
}

UnpackedPack::UnpackedPack(const fs::path& pack, const fs::path& sibling, std::int64_t most_bytes)
    : pack_(require_regular(pack)), scratch_(sibling), files_(scratch_.path() / "files") {
  read(most_bytes);
}

UnpackedPack::UnpackedPack(const fs::path& pack)
    : pack_(require_regular(pack)),
      scratch_(temporary_scratch(kScratch)),
      files_(scratch_.path() / "files") {
  read(kLargestPack);
}

void UnpackedPack::read(std::int64_t most_bytes) {
  require_archive_tools(pack_);
  const Archive archive(pack_, scratch_.path(), pack_.string());
  const fs::path tar = archive.decompress(most_bytes + kTarOverhead);
  const std::vector<TarEntry> entries = list_tar(tar, pack_.string());
  if (entries.empty()) throw damaged(pack_, "is empty");
  index_ = read_index(tar, entries.front(), pack_, most_bytes);
  compare_entries(entries, index_, pack_);
  fs::create_directory(files_);
  archive.extract(files_);
  check_tree(files_, index_, pack_);
  fs::remove(tar);
}

std::int64_t UnpackedPack::bytes() const {
  return std::accumulate(
      index_.files.begin(), index_.files.end(), std::int64_t{0},
      [](std::int64_t sum, const ManifestFile& file) { return sum + file.size; });
}

}  // namespace posenc::runs

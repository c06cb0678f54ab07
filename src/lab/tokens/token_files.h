// Token files (token_index.h) mapped into memory: they may be larger than it. Reading is thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tokens/token_index.h"

namespace posenc::tokens {

// A regular file, mapped to be read; gone with its last owner.
class MappedFile {
 public:
  // An Error where it cannot be read or has another size: it is truncated, or of another index.
  MappedFile(const std::string& path, std::uint64_t size);
  ~MappedFile();
  MappedFile(MappedFile&&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

class TokenFiles {
 public:
  // Reads the index, maps every file and checks its size. An Error names what is missing or wrong.
  explicit TokenFiles(std::string folder);

  [[nodiscard]] const TokenIndex& index() const { return index_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // SHA-256 of index.json, which has those of all files.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }

  // Where each document of a split ends, by kSplitNames; an Error where they do not rise to the split's last token.
  [[nodiscard]] std::span<const std::uint64_t> document_ends(std::size_t split) const;
  // Tokens begin .. begin + out.size() of a split, which must be there; an Error for a number that is not
  // in the vocabulary.
  void copy(std::size_t split, std::int64_t begin, std::span<std::int32_t> out) const;

  // Reads everything and compares checksums and borders; an Error names the first file that differs.
  void verify() const;

 private:
  struct Shard {
    std::int64_t begin = 0;  // in the split
    std::unique_ptr<MappedFile> file;
  };
  [[nodiscard]] std::string path(const TokenShard& shard) const;
  [[nodiscard]] std::span<const std::uint64_t> borders(std::size_t split) const;
  void require_borders(std::size_t split) const;

  std::string folder_;
  std::string sha256_;
  TokenIndex index_;
  std::array<std::vector<Shard>, 3> shards_;
  std::array<std::unique_ptr<MappedFile>, 3> borders_;
  mutable std::array<std::once_flag, 3> checked_;  // borders that were read
};

}  // namespace posenc::tokens

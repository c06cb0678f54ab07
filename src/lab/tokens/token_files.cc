#include "tokens/token_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/open_file.h"
#include "core/value.h"
#include "posenc/core/error.h"
#include "system/file_errors.h"
#include "system/sha256.h"

namespace posenc::tokens {
namespace {

constexpr const char* kAgain = "write the token files again with posenc data tokens --force";

Error broken(const std::string& path, const std::string& rule, const std::string& value) {
  return {ErrorKind::kIo, {.scope = path, .key = "", .rule = rule, .value = value, .hint = kAgain}};
}

template <class Number>
std::int32_t copy_numbers(const std::byte* from, std::span<std::int32_t> out) {
  const auto* numbers = reinterpret_cast<const Number*>(from);  // maps are aligned to pages
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t token = numbers[i];
    largest = std::max(largest, token);
    out[i] = static_cast<std::int32_t>(token);
  }
  return static_cast<std::int32_t>(largest);
}

void require_hash(const MappedFile& file, const std::string& path, const std::string& sha256) {
  Sha256 hash;
  hash.update(file.bytes());
  if (hash.hex() == sha256) return;
  throw broken(path, "has the wrong checksum: SHA-256 must be " + sha256, hash.hex());
}

}  // namespace

MappedFile::MappedFile(const std::string& path, std::uint64_t size) {
  const Descriptor file = open_to_read(path);
  struct stat info {};
  if (::fstat(file.number(), &info) != 0) throw read_error(path, errno);
  if (static_cast<std::uint64_t>(info.st_size) != size) {
    throw broken(path, fmt::format("must have {} bytes, as its index says", size),
                 std::to_string(info.st_size));
  }
  if (size == 0) return;
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (start == MAP_FAILED) throw read_error(path, errno);
  (void)::madvise(start, size, MADV_RANDOM);  // rows are drawn from anywhere
  bytes_ = {static_cast<const std::byte*>(start), static_cast<std::size_t>(size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

TokenFiles::TokenFiles(std::string folder) : folder_(std::move(folder)) {
  const std::string file = (std::filesystem::path(folder_) / "index.json").string();
  const std::string json = read_file(file);
  sha256_ = sha256_hex(json);
  index_ = parse_token_index(json, file);
  for (std::size_t s = 0; s < index_.splits.size(); ++s) {
    const TokenSplit& split = index_.splits[s];
    std::int64_t begin = 0;
    for (const TokenShard& shard : split.shards) {
      const auto size = static_cast<std::uint64_t>(shard.tokens * index_.token_bytes);
      shards_[s].push_back({begin, std::make_unique<MappedFile>(path(shard), size)});
      begin += shard.tokens;
    }
    borders_[s] = std::make_unique<MappedFile>(
        path(split.borders), static_cast<std::uint64_t>(split.documents) * sizeof(std::uint64_t));
  }
}

std::string TokenFiles::path(const TokenShard& shard) const {
  return (std::filesystem::path(folder_) / shard.file).string();
}

std::span<const std::uint64_t> TokenFiles::document_ends(std::size_t split) const {
  std::call_once(checked_[split], [&] { require_borders(split); });
  return borders(split);
}

std::span<const std::uint64_t> TokenFiles::borders(std::size_t split) const {
  const std::span<const std::byte> bytes = borders_[split]->bytes();
  return {reinterpret_cast<const std::uint64_t*>(bytes.data()),
          bytes.size() / sizeof(std::uint64_t)};
}

void TokenFiles::copy(std::size_t split, std::int64_t begin, std::span<std::int32_t> out) const {
  const std::vector<Shard>& shards = shards_[split];
  auto shard = std::upper_bound(shards.begin(), shards.end(), begin,
                                [](std::int64_t at, const Shard& s) { return at < s.begin; }) -
               1;
  while (!out.empty()) {
    const std::span<const std::byte> bytes = shard->file->bytes();
    const auto width = static_cast<std::size_t>(index_.token_bytes);
    const auto at = static_cast<std::size_t>(begin - shard->begin);
    const std::size_t count = std::min(out.size(), bytes.size() / width - at);
    const std::byte* from = bytes.data() + at * width;
    const std::int32_t largest = width == 2 ? copy_numbers<std::uint16_t>(from, out.first(count))
                                            : copy_numbers<std::uint32_t>(from, out.first(count));
    if (largest < 0 || largest >= index_.vocabulary) {
      throw broken(folder_,
                   fmt::format("must hold numbers below its vocabulary {}", index_.vocabulary),
                   std::to_string(static_cast<std::uint32_t>(largest)));
    }
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
    ++shard;
  }
}

void TokenFiles::require_borders(std::size_t split) const {
  std::uint64_t before = 0;
  for (const std::uint64_t end : borders(split)) {
    if (end <= before) throw broken(path(index_.splits[split].borders), "must rise", "");
    before = end;
  }
  if (before == static_cast<std::uint64_t>(index_.splits[split].tokens)) return;
  throw broken(path(index_.splits[split].borders), "must end with the split's last token",
               std::to_string(before));
}

void TokenFiles::verify() const {
  for (std::size_t s = 0; s < index_.splits.size(); ++s) {
    const TokenSplit& split = index_.splits[s];
    for (std::size_t i = 0; i < split.shards.size(); ++i) {
      require_hash(*shards_[s][i].file, path(split.shards[i]), split.shards[i].sha256);
    }
    require_hash(*borders_[s], path(split.borders), split.borders.sha256);
    (void)document_ends(s);
  }
}

}  // namespace posenc::tokens

#include "runs/tar_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runs/pack_index.h"
#include "system/files.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

constexpr std::size_t kNameBytes = 100;
constexpr std::size_t kPrefixBytes = 155;

struct Span {
  std::size_t begin = 0;
  std::size_t length = 0;
};
constexpr Span kName = {0, kNameBytes};
constexpr Span kSize = {124, 12};
constexpr Span kChecksum = {148, 8};
constexpr std::size_t kKind = 156;
constexpr Span kMagic = {257, 6};
constexpr Span kPrefix = {345, kPrefixBytes};

Error damaged(const std::string& path, const std::string& rule) {
  return file_error(ErrorKind::kIo, path, "", rule, "", "the file is damaged or not a pack");
}

std::string text_in(std::string_view block, Span span) {
  const std::string_view field = block.substr(span.begin, span.length);
  return std::string(field.substr(0, field.find('\0')));
}

// Octal digits up to a space or zero byte; nothing for other forms, which ustar does not have.
std::optional<std::int64_t> octal_in(std::string_view block, Span span) {
  const std::string_view field = block.substr(span.begin, span.length);
  const std::string_view digits = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
  if (digits.empty() || digits.find_first_not_of("01234567") != std::string_view::npos) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  for (const char digit : digits) number = number * 8 + (digit - '0');
  return number;
}

// The sum of all bytes, those of the checksum itself taken as spaces.
std::int64_t checksum_of(std::string_view block) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.length;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

bool is_zero(std::string_view block) {
  return block.find_first_not_of('\0') == std::string_view::npos;
}

std::string full_name(std::string_view block) {
  const std::string prefix = text_in(block, kPrefix);
  return prefix.empty() ? text_in(block, kName) : prefix + "/" + text_in(block, kName);
}

void require_zeros(const InputFile& file, std::uint64_t begin, const std::string& path) {
  if (file.size() < begin + 2 * kTarBlock) throw damaged(path, "is cut off: it has no end mark");
  for (; begin + kTarBlock <= file.size(); begin += kTarBlock) {
    if (!is_zero(file.read_text(begin, kTarBlock))) throw damaged(path, "has data after its end");
  }
}

}  // namespace

TarEntry parse_tar_header(std::string_view block, const std::string& path) {
  const auto size = octal_in(block, kSize);
  if (octal_in(block, kChecksum) != checksum_of(block) || !size ||
      block.substr(kMagic.begin, kMagic.length) != std::string_view("ustar\0", kMagic.length)) {
    throw damaged(path, "has a header that is not of a ustar archive");
  }
  TarEntry entry{full_name(block), *size, 0, block[kKind] == '5'};
  const std::string name = weights::in_quotes(entry.name);
  if (entry.folder && entry.name.ends_with('/')) entry.name.pop_back();
  if (!is_plain_path(entry.name)) {
    throw damaged(path, fmt::format("has a file named {}, which is not a plain path", name));
  }
  if (!entry.folder && block[kKind] != '0' && block[kKind] != '\0') {
    throw damaged(path, fmt::format("has {}, which is neither a regular file nor a folder", name));
  }
  if (entry.folder && entry.size != 0)
    throw damaged(path, fmt::format("has a folder {} with content", name));
  return entry;
}

std::vector<TarEntry> list_tar(const std::filesystem::path& archive, const std::string& path) {
  const InputFile file(archive.string());
  std::vector<TarEntry> entries;
  std::uint64_t at = 0;
  while (true) {
    if (file.size() < at + kTarBlock) throw damaged(path, "is cut off: it has no end mark");
    const std::string block = file.read_text(at, kTarBlock);
    if (is_zero(block)) break;
    TarEntry entry = parse_tar_header(block, path);
    entry.offset = static_cast<std::int64_t>(at + kTarBlock);
    const auto size = static_cast<std::uint64_t>(entry.size);
    at += kTarBlock + (size + kTarBlock - 1) / kTarBlock * kTarBlock;
    if (at > file.size()) {
      throw damaged(path, fmt::format("is cut off within {}", weights::in_quotes(entry.name)));
    }
    entries.push_back(std::move(entry));
  }
  require_zeros(file, at, path);
  return entries;
}

bool fits_tar(std::string_view name) {
  if (name.size() <= kNameBytes) return true;
  for (std::size_t slash = name.find('/'); slash <= kPrefixBytes;
       slash = name.find('/', slash + 1)) {
    if (name.size() - slash - 1 <= kNameBytes) return true;
  }
  return false;
}

}  // namespace posenc::runs

// Numbers and texts as bytes, the least byte first on every machine.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "system/file_errors.h"

namespace posenc::runs {

template <class Word>
std::string little_endian(Word word) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(word) >> (8 * i) & 0xffU);
  }
  return bytes;
}

class ByteWriter {
 public:
  explicit ByteWriter(std::string_view start) : bytes_(start) {}

  template <class Word>
  void put(Word word) {
    bytes_ += little_endian(word);
  }
  // Of at most 65,535 bytes; an Error for a longer one.
  void put_text(std::string_view text) {
    if (text.size() > std::numeric_limits<std::uint16_t>::max()) {
      throw Error(ErrorKind::kOutOfRange, {.scope = "scores",
                                           .key = "text",
                                           .rule = "must have at most 65535 bytes",
                                           .value = std::to_string(text.size())});
    }
    put(static_cast<std::uint16_t>(text.size()));
    bytes_ += text;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Takes what a ByteWriter put; whatever goes past the end of the bytes is an Error that names the path.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string path, std::string hint)
      : left_(bytes), path_(std::move(path)), hint_(std::move(hint)) {}

  [[noreturn]] void fail() const {
    throw file_error(ErrorKind::kSyntax, path_, "", "is damaged or has another format", "", hint_);
  }
  // For a check before memory is allocated.
  void require(std::size_t bytes) const {
    if (bytes > left_.size()) fail();
  }
  std::string_view take_bytes(std::size_t count) {
    require(count);
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class Word>
  Word take() {
    std::uint64_t word = 0;
    std::size_t i = 0;
    for (const char byte : take_bytes(sizeof(Word))) {
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << (8 * i++);
    }
    return static_cast<Word>(word);
  }
  std::string take_text() { return std::string(take_bytes(take<std::uint16_t>())); }
  [[nodiscard]] bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
  std::string path_;
  std::string hint_;
};

}  // namespace posenc::runs

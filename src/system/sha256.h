// SHA-256 (FIPS 180-4): the checksum of checkpoints and of fetched files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace posenc {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  void update(std::span<const std::byte> data);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // Of everything given so far; more may follow.
  [[nodiscard]] Digest digest() const;
  // The same as 64 digits.
  [[nodiscard]] std::string hex() const;

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> buffer_{};
  std::uint64_t length_ = 0;  // bytes so far
};

std::string sha256_hex(std::string_view text);
// Of a whole file, in pieces; an Error of kind kIo names the path.
std::string sha256_of_file(const std::string& path);

}  // namespace posenc

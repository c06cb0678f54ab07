#include "runs/protobuf.h"

#include <bit>

#include "runs/little_endian.h"

namespace posenc::runs::protobuf {
namespace {

enum Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7fU) | 0x80U);
  return bytes + static_cast<char>(number);
}

std::string key(std::uint64_t field, Wire wire) { return varint(field << 3 | wire); }

}  // namespace

std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string integer_field(std::uint64_t field, std::int64_t number) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(number));
}

std::string double_field(std::uint64_t field, double number) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(number));
}

std::string float_field(std::uint64_t field, float number) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(number));
}

}  // namespace posenc::runs::protobuf

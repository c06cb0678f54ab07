// Protobuf's wire format: a key of field number and kind, then the value. Messages are fields in a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace posenc::runs::protobuf {

std::string bytes_field(std::uint64_t field, std::string_view bytes);  // text or a message
std::string integer_field(std::uint64_t field, std::int64_t number);
std::string double_field(std::uint64_t field, double number);
std::string float_field(std::uint64_t field, float number);

}  // namespace posenc::runs::protobuf

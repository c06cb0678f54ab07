// A reader of TensorBoard event files that shares nothing with the writer: bit by bit where that one
// has tables, and it trusts nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace posenc::testing {

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::string tag;  // of a scalar
  float value = 0;
};

inline std::uint32_t slow_masked_crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78U & (0U - (crc & 1U)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Takes fields from the front of a protobuf message.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view data) : data_(data) {}

  [[nodiscard]] bool done() const { return data_.empty(); }
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return number;
    }
    throw std::runtime_error("a varint without an end");
  }
  std::uint64_t fixed(std::size_t bytes) {
    const std::string_view raw = take(bytes);
    std::uint64_t number = 0;
    for (std::size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(raw[i]);
    return number;
  }
  std::string_view bytes() { return take(varint()); }

 private:
  std::string_view take(std::size_t count) {
    if (count > data_.size()) throw std::runtime_error("a message that ends early");
    const std::string_view front = data_.substr(0, count);
    data_.remove_prefix(count);
    return front;
  }

  std::string_view data_;
};

// field << 3 | kind, as the wire has it.
inline void read_summary_value(std::string_view data, ReadEvent& event) {
  for (ProtoFields fields(data); !fields.done();) {
    switch (fields.varint()) {
      case 1 << 3 | 2:
        event.tag = fields.bytes();
        break;
      case 2 << 3 | 5:
        event.value = std::bit_cast<float>(static_cast<std::uint32_t>(fields.fixed(4)));
        break;
      default:
        throw std::runtime_error("an unknown field of a value");
    }
  }
}

inline ReadEvent read_event(std::string_view payload) {
  ReadEvent event;
  for (ProtoFields fields(payload); !fields.done();) {
    switch (fields.varint()) {
      case 1 << 3 | 1:
        event.wall_time = std::bit_cast<double>(fields.fixed(8));
        break;
      case 2 << 3 | 0:
        event.step = static_cast<std::int64_t>(fields.varint());
        break;
      case 3 << 3 | 2:
        event.file_version = fields.bytes();
        break;
      case 5 << 3 | 2: {
        ProtoFields summary(fields.bytes());
        if (summary.varint() != (1 << 3 | 2)) throw std::runtime_error("no value in a summary");
        read_summary_value(summary.bytes(), event);
        break;
      }
      case 7 << 3 | 2:
        event.session_start = fields.bytes() == "\x08\x01";
        break;
      default:
        throw std::runtime_error("an unknown field of an event");
    }
  }
  return event;
}

inline std::vector<ReadEvent> read_event_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<ReadEvent> events;
  for (std::size_t at = 0; at < content.size();) {
    const auto word = [&](std::size_t place, std::size_t bytes) {
      return ProtoFields(std::string_view(content).substr(place, bytes)).fixed(bytes);
    };
    const std::uint64_t length = word(at, 8);
    if (word(at + 8, 4) != slow_masked_crc32c(std::string_view(content).substr(at, 8))) {
      throw std::runtime_error("a length does not fit its checksum");
    }
    const std::string_view payload = std::string_view(content).substr(at + 12, length);
    if (word(at + 12 + length, 4) != slow_masked_crc32c(payload)) {
      throw std::runtime_error("a payload does not fit its checksum");
    }
    events.push_back(read_event(payload));
    at += 12 + length + 4;
  }
  return events;
}

}  // namespace posenc::testing

#include "runs/events.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <utility>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "runs/little_endian.h"
#include "runs/protobuf.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using protobuf::bytes_field;
using protobuf::double_field;
using protobuf::float_field;
using protobuf::integer_field;

// Castagnoli's polynomial, bits reversed.
constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

constexpr std::int64_t kSessionStart = 1;
constexpr std::size_t kBufferSize = std::size_t{1} << 16;
constexpr std::string_view kFilePrefix = "events.out.tfevents.";

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Readers take the files of a run in the order of their names.
fs::path next_file(const fs::path& dir, double time) {
  auto seconds = static_cast<std::int64_t>(time);
  int count = 0;
  for (const std::string& name : names_in(dir)) {
    if (!name.starts_with(kFilePrefix)) continue;
    ++count;
    // A clock that was set back must not put the new file before the old one.
    const std::string digits = name.substr(kFilePrefix.size(), 10);
    if (digits.size() == 10 && digits.find_first_not_of("0123456789") == std::string::npos) {
      seconds = std::max<std::int64_t>(seconds, std::stoll(digits));
    }
  }
  return dir / fmt::format("{}{:010}.posenc.{:06}", kFilePrefix, seconds, count);
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xffU];
  }
  return crc ^ 0xffffffffU;
}

std::uint32_t masked_crc32c(std::string_view data) {
  return std::rotr(crc32c(data), 15) + 0xa282ead8U;
}

std::string event_record(std::string_view payload) {
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(payload) +
         little_endian(masked_crc32c(payload));
}

std::string version_event(double wall_time) {
  return double_field(1, wall_time) + bytes_field(3, "brain.Event:2");
}

std::string session_start_event(double wall_time, std::int64_t step) {
  return double_field(1, wall_time) + integer_field(2, step) +
         bytes_field(7, integer_field(1, kSessionStart));
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value) {
  const std::string summary_value = bytes_field(1, tag) + float_field(2, value);
  return double_field(1, wall_time) + integer_field(2, step) +
         bytes_field(5, bytes_field(1, summary_value));
}

// TensorBoard wants a tensor in every summary: here a float of zero.
std::string plugin_event(double wall_time, std::string_view tag, std::string_view plugin,
                         std::string_view content) {
  constexpr std::int64_t kFloat = 1, kTensorData = 2;
  const std::string one_element = bytes_field(2, integer_field(1, 1));
  const std::string tensor = integer_field(1, kFloat) + bytes_field(2, one_element) +
                             bytes_field(5, little_endian(std::uint32_t{0}));
  const std::string metadata = bytes_field(1, bytes_field(1, plugin) + bytes_field(2, content)) +
                               integer_field(4, kTensorData);
  const std::string summary_value =
      bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata);
  return double_field(1, wall_time) + bytes_field(5, bytes_field(1, summary_value));
}

EventWriter::EventWriter(const fs::path& dir, std::optional<std::int64_t> resumed_at) {
  const double time = now();
  path_ = next_file(dir, time);
  file_ =
      Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (file_.number() < 0) throw write_error(path_.string(), errno);
  buffer_ = event_record(version_event(time)) +
            event_record(session_start_event(time, resumed_at ? *resumed_at + 1 : 0));
  flush();
}

EventWriter::~EventWriter() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a destructor cannot report it
  }
}

void EventWriter::scalar(std::string_view tag, std::int64_t step, double value) {
  add(scalar_event(now(), step, tag, static_cast<float>(value)));
}

void EventWriter::plugin(std::string_view tag, std::string_view plugin, std::string_view content) {
  add(plugin_event(now(), tag, plugin, content));
}

void EventWriter::add(std::string_view payload) {
  buffer_ += event_record(payload);
  if (buffer_.size() >= kBufferSize) flush();
}

void EventWriter::flush() { append_whole(file_, std::exchange(buffer_, {}), path_); }

}  // namespace posenc::runs

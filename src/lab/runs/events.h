// Writes TensorBoard event files without protobuf and TensorBoard.
//
//   record   length (8 bytes), masked crc32c of them (4), payload, masked crc32c of it (4)
//   payload  Event {1: wall_time double, 2: step int64, 3: file_version string, 5: Summary,
//                   7: SessionLog};  Summary {1: Value {1: tag string, 2: simple_value float,
//                   8: TensorProto, 9: SummaryMetadata}}
//
// The first record has file_version "brain.Event:2", the second a SessionLog START with the first step
// of this file: readers discard later steps of earlier files. They treat the first START as the
// beginning of the run, so a run that is not resumed has one too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "system/files.h"

namespace posenc::runs {

std::uint32_t crc32c(std::string_view data);
// Rotated and offset: a crc over data that holds crcs is weak otherwise.
std::uint32_t masked_crc32c(std::string_view data);
// A payload as it stands in the file.
std::string event_record(std::string_view payload);
// Payloads.
std::string version_event(double wall_time);
std::string session_start_event(double wall_time, std::int64_t step);
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value);
// For a plugin of TensorBoard, which reads `content`.
std::string plugin_event(double wall_time, std::string_view tag, std::string_view plugin,
                         std::string_view content);

class EventWriter {
 public:
  // Opens a new file in the directory of the run, which sorts after those that are there.
  // `resumed_at`: the step of the checkpoint that the run goes on from.
  explicit EventWriter(const std::filesystem::path& dir,
                       std::optional<std::int64_t> resumed_at = {});
  ~EventWriter();  // flushes; an error there is lost, so call flush() where it matters
  EventWriter(EventWriter&&) noexcept = default;
  EventWriter& operator=(EventWriter&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void scalar(std::string_view tag, std::int64_t step, double value);
  void plugin(std::string_view tag, std::string_view plugin, std::string_view content);
  void flush();

 private:
  void add(std::string_view payload);

  std::filesystem::path path_;
  Descriptor file_;
  std::string buffer_;
};

}  // namespace posenc::runs

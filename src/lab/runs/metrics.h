// metrics.jsonl: a JSON object per line, {"kind": "train", "step": 100, "loss": 0.5, ...}.
//
// Lines are only appended, each with one write: a killed process leaves complete lines and at most one
// incomplete line at the end, which readers skip and the next writer removes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/value.h"
#include "system/files.h"

namespace posenc::runs {

class MetricsWriter {
 public:
  // Goes on at the end of the file, or makes it. A torn last line is cut off.
  explicit MetricsWriter(std::filesystem::path path);

  // A map with the members kind (text) and step (integer). The line is with the system when this
  // returns. Numbers that are not finite: numbers.h.
  void append(const Value& row);
  // Drops rows of later steps, on resume: what the new process does again is not counted twice. Log
  // all rows of a step before its checkpoint is saved.
  void truncate_after(std::int64_t step);
  // Makes what was appended last through a crash of the machine.
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// All whole rows. A torn last line goes to `torn`; a line elsewhere that is no row is an Error with
// the line's number. A file that does not exist has no rows.
std::vector<Value> read_metrics(const std::filesystem::path& path, std::string* torn = nullptr);

}  // namespace posenc::runs

// Which attention records a page shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/compare.h"
#include "runs/attention_record.h"

namespace posenc::report {

// Read whole into memory, so that one file cannot ask for all of it.
inline constexpr std::uintmax_t kLargestRecord = std::uintmax_t{1} << 30;

struct FoundRecord {
  const TaskTable* table = nullptr;  // of the comparison that was searched
  const Entry* entry = nullptr;
  std::string run;  // as shown
  RunFolder folder;
  std::filesystem::path path;
  runs::AttentionExample example;
};

// Alike for records whose maps can be laid over each other: the same tokens of the same task.
std::string example_key(const runs::AttentionExample& example);

// Of each entry the first seed that has a record of the example that most entries have. Records that
// cannot be read are said in `remarks`.
std::vector<FoundRecord> choose_records(const Comparison& comparison,
                                        std::vector<std::string>& remarks);

}  // namespace posenc::report

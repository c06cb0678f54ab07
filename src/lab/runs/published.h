// A table of a publication as plain data, shown next to our results.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/metric.h"

namespace posenc::runs {

struct PublishedValue {
  std::string axis;         // "train": in domain
  std::int64_t length = 0;  // 0: the axis at the trained length, else at its shortest
  double value = 0.0;       // shares in %, bits as they are
};

struct PublishedRow {
  std::string name;      // as the source calls it
  std::string encoding;  // of posenc; empty where posenc does not have it
  std::vector<PublishedValue> values;
};

struct PublishedTable {
  std::string source;
  std::string part;  // of the evidence file
  Metric metric = Metric::kAccuracy;
  bool single_answers = false;  // where the task's own metric is of whole rows
  // Training fields that choose the variant of the part: {"model.layers", "4"}.
  std::vector<std::pair<std::string, std::string>> where;
  std::vector<PublishedRow> rows;
};

}  // namespace posenc::runs

// Writes a checkpoint: all files under temporary names first, then renames all of them.
#pragma once

#include "weights/checkpoint.h"

namespace posenc::weights {

struct ShardPlan {
  std::vector<TensorPlan> tensors;  // as many as the shard has, in its order
  Metadata metadata;
};

// Where the files of a checkpoint go.
struct Destination {
  bool folder = false;
  std::string path;
  std::vector<std::string> files;  // path of each shard
  std::string index;               // path of the index; empty where there is none
  Overwrite overwrite = Overwrite::kRefuse;
};
// Throws where the output is the input, exists, or is a file for a folder.
Destination destination(const Checkpoint& checkpoint, const std::string& out,
                        const OutputOptions& options);

void write_checkpoint(const Checkpoint& checkpoint, const std::vector<ShardPlan>& plans,
                      const Destination& place, const std::string& index_text,
                      const std::atomic<bool>* stop);

// Files and tensors of a plan, as a report lists them.
void report_plans(const Checkpoint& checkpoint, const std::vector<ShardPlan>& plans,
                  const Destination& destination, ConvertReport& report);

}  // namespace posenc::weights

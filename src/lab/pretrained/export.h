// A run as a Hugging Face folder: config.json and model.safetensors, which transformers and train.init_from read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace posenc::pretrained {

struct ExportOptions {
  bool best = false;     // the best checkpoint instead of the last
  bool replace = false;  // files of an earlier export
};

struct Exported {
  std::string model_type;
  std::int64_t step = 0;
  std::int64_t tensors = 0;
  std::vector<std::string> messages;  // damaged checkpoints that were skipped
  std::vector<std::string> files;     // in the folder; the tokenizer's come from train.init_from
};

// Weights are written as float32, as they are trained. An Error names the field of a model that is none of the five
// families (config/hf_model.h), before anything is written.
Exported export_hf(const std::string& run, const std::string& out, const ExportOptions& options);

}  // namespace posenc::pretrained

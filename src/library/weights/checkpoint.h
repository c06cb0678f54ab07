// Reads a checkpoint: a safetensors file, a folder with one, or a folder with shards and their index.
#pragma once

#include <functional>

#include "weights/layout_plan.h"
#include "weights/tensor_plan.h"

namespace posenc::weights {

// model.safetensors.index.json: which shard holds which tensor.
struct Index {
  std::string file;                                           // its name in the folder
  std::string text;                                           // as it stands there
  std::vector<std::pair<std::string, std::string>> metadata;  // values as JSON
  std::vector<std::pair<std::string, std::string>> weight_map;
};
Index parse_index(std::string text, const std::string& path);
// The index without the tensors that `keep` refuses; total_size is replaced.
std::string index_text(const Index& index, const std::function<bool(const std::string&)>& keep,
                       std::uint64_t total_size);

struct Checkpoint {
  std::string path;
  bool folder = false;
  std::vector<Reader> shards;
  std::vector<std::string> files;  // names of the shards in the folder
  std::optional<Index> index;

  [[nodiscard]] TensorsByName tensors() const;
};

Checkpoint open_checkpoint(const std::string& path);

// Names and shapes that a model expects: of a checkpoint, or a .json of {"name": [shape]}.
std::vector<NamedShape> parse_expected(const std::string& text, const std::string& path);
std::vector<NamedShape> read_expected(const std::string& path);

}  // namespace posenc::weights

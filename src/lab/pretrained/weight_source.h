// Initial weights of a model, from a run, a safetensors file or a Hugging Face folder, under the lab's names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/init_from.h"
#include "posenc/weights/safetensors.h"
#include "pretrained/hf_tensors.h"

namespace posenc::pretrained {

class WeightSource {
 public:
  // Every tensor of a file with Hugging Face's names must be one of the model's and have its shape, and none may be
  // missing: one Error names all that do not fit. `model` is the source's own, or the one to be trained where there
  // are weights alone. Of a run, the last checkpoint.
  WeightSource(const config::InitSource& source, const config::ModelConfig& model,
               std::int64_t vocabulary);

  [[nodiscard]] const std::string& path() const { return path_; }
  // The detected kind: "run at step 400", "gpt2 tensors of Hugging Face"; of a run also which damaged checkpoints were
  // skipped.
  [[nodiscard]] const std::string& kind() const { return kind_; }
  // Shapes by the lab's names.
  [[nodiscard]] const std::map<std::string, weights::Shape>& tensors() const { return shapes_; }
  [[nodiscard]] std::vector<float> read(const std::string& name) const;
  // Of all files that hold tensors.
  [[nodiscard]] std::string sha256() const;

 private:
  struct Place {
    std::size_t shard = 0;
    const weights::TensorInfo* tensor = nullptr;
  };
  void open_run();
  void open_files();
  void map_hf_names(HfNames names, const config::ModelConfig& model, std::int64_t vocabulary);
  [[nodiscard]] const Place* find(HfNames names, const std::string& file_name) const;
  void require_tied_head(HfNames names, const Place& head) const;

  std::string path_;
  std::string kind_;
  std::optional<HfNames> names_;  // nothing where the file has the lab's
  std::vector<weights::Reader> shards_;
  std::map<std::string, Place> places_;  // by the file's names
  std::map<std::string, weights::Shape> shapes_;
  std::map<std::string, TensorRule> rules_;  // by the lab's names; empty where the file has them
};

// "a, b, c and 5 more".
std::string listed(const std::vector<std::string>& names);
// The Error for tensors that do not fit, or nothing where all lists are empty.
struct Misfits {
  std::vector<std::string> missing, unexpected, misshapen;

  void throw_if_any(const std::string& path) const;
};

}  // namespace posenc::pretrained

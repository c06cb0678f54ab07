// The tensors of Hugging Face models and of the lab's, one by one: which holds which, and in which order.
//
//   llama     also Qwen 2 and Qwen 3: projections one by one, as the lab has them
//   gpt_neox  query_key_value: rows of head 0's query, key and value, then of head 1's, ...
//   gpt2      Conv1D: matrices transposed, [in, out]; c_attn has query, key and value side by side
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.h"
#include "posenc/weights/safetensors.h"

namespace posenc::pretrained {

enum class HfNames { kLlama, kNeox, kGpt2 };
constexpr std::array<std::string_view, 3> enum_names(HfNames /*tag*/) {
  return {"llama", "gpt_neox", "gpt2"};
}

// One tensor of the lab, [rows, columns] or [rows], and the one of the file that holds it.
struct TensorRule {
  std::string lab;
  weights::Shape lab_shape;
  std::string file;
  weights::Shape file_shape;
  bool transposed = false;     // the file's is [in, out]
  std::int64_t part = 0;       // of a fused one: 0 query, 1 key, 2 value
  std::int64_t parts = 1;      // how many it holds
  std::int64_t head_rows = 0;  // parts alternate after so many rows; 0: each is one piece

  // The number of the file's tensor that is (row, column) of the lab's.
  [[nodiscard]] std::size_t place(std::int64_t row, std::int64_t column) const;
};

// All of them, for a model of this shape; a fused tensor appears once per part.
std::vector<TensorRule> hf_tensors(HfNames names, const config::ModelConfig& model,
                                   std::int64_t vocabulary);
// Which names a model is written with.
HfNames hf_names(const config::ModelConfig& model);

// Which family's names these are, if any's. Files of a model without its head leave the prefix out.
std::optional<HfNames> hf_names_in(const std::vector<std::string>& tensors);
// What stands before the names of all tensors but the head: "model.".
std::string_view prefix(HfNames names);
// Tables that older files carry along and no weight depends on: causal masks, rotary frequencies.
bool is_constant(HfNames names, std::string_view tensor);
// The head of a tied model, which some files have a second time.
std::string_view head_name(HfNames names);

}  // namespace posenc::pretrained

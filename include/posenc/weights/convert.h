// Converts checkpoints (safetensors, one file or a folder of shards) to another positional encoding.
// Tensors are streamed, so memory does not depend on the file size. Output files are moved into place
// only after all of them have been written and synced to disk.
//
// convert_layout    permutes the rows of the q and k projections between RoPE's two channel layouts.
//                   Per head, within the R rotated rows from dim_offset on:
//                     half -> interleaved   row 2p comes from p, row 2p+1 from p + R/2
//                     interleaved -> half   the inverse
//                   The converted weights in the new layout give the same scores as the old weights in
//                   the old layout. Converting back restores the same bytes.
// convert_positions copies a model trained with learned or sinusoidal positions and removes them, as
//                   initial weights of a model with RoPE or another encoding without added vectors.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "posenc/encodings/hf_config.h"
#include "posenc/weights/safetensors.h"

namespace posenc::weights {

// The layout of heads in the rows of a projection; 0 means unknown.
struct HeadShape {
  std::int64_t head_dim = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t rotary_dim = 0;  // rows of a head that are rotated; 0: all from dim_offset on
  std::int64_t dim_offset = 0;

  bool operator==(const HeadShape&) const = default;
};

// Order of rows in a fused qkv projection. concat: all q, then all k, then all v (Phi-3). grouped: for
// each key head, its query heads, the key head, its value head (GPT-NeoX, Falcon, InternLM2).
enum class FusedOrder { kConcat, kGrouped };
constexpr std::array<std::string_view, 2> enum_names(FusedOrder /*tag*/) {
  return {"concat", "grouped"};
}

// A pattern matches names of modules or tensors. Without * and ? it matches whole components at the end
// of a name: "self_attn.q_proj". With them it matches the whole name: "model.layers.*.q_proj". An empty
// list means the default names (docs/convert.md).
using Patterns = std::vector<std::string>;

struct LayoutOptions {
  PairLayout to = PairLayout::kInterleaved;
  std::optional<PairLayout> from = {};  // layout of the file; default: the mark in its metadata
  std::optional<PairLayout> model_from = {};  // layout of the model type, if the file has no mark
  HeadShape heads = {};
  Patterns q = {};
  Patterns k = {};
  Patterns fused = {};
  Patterns keep = {};  // never changed, in addition to the default names
  std::optional<FusedOrder> order = {};
};

// Heads, rotated rows and layout of a model. Throws Error if it has no rotation or its layers differ.
struct ModelHeads {
  HeadShape heads = {};
  PairLayout layout = PairLayout::kHalf;
};
ModelHeads model_heads(const HfModel& model);

struct PositionOptions {
  std::string spec = "rope";  // the new encoding; recorded in the metadata
  Patterns positional = {};   // tensors to remove
  Patterns keep = {};
  // The new model's tensors: a checkpoint, or a .json of {"name": [shape]}.
  std::string target = {};
  // "attention" or patterns, for `trainable` and `frozen` of the report.
  Patterns freeze_except = {};
};

struct OutputOptions {
  bool in_place = false;                    // replace the input
  bool force = false;                       // overwrite existing files
  bool dry_run = false;                     // check and report, write nothing
  const std::atomic<bool>* stop = nullptr;  // polled between blocks; true stops with an Error
};

enum class TensorAction { kCopied, kPermuted, kSkipped };
constexpr std::array<std::string_view, 3> enum_names(TensorAction /*tag*/) {
  return {"copied", "permuted", "skipped"};
}

struct TensorReport {
  TensorSpec tensor;
  TensorAction action = TensorAction::kCopied;
  std::string note;  // "q", "fused qkv, grouped", "positional", ...
};

struct FileReport {
  std::string in;
  std::string out;
  std::uint64_t bytes = 0;  // of tensors written
};

struct NamedShape {
  std::string name;
  Shape shape;
};

struct ConvertReport {
  std::vector<FileReport> files;
  std::vector<TensorReport> tensors;
  // convert_layout
  PairLayout from = PairLayout::kHalf;
  PairLayout to = PairLayout::kHalf;
  HeadShape heads;
  // convert_positions
  std::string spec;
  bool has_target = false;                         // otherwise the next list is empty
  std::vector<NamedShape> left_at_initialisation;  // tensors of the new model that the copy lacks
  std::vector<std::string> trainable;              // both empty without freeze_except
  std::vector<std::string> frozen;
};

ConvertReport convert_layout(const std::string& in, const std::string& out,
                             const LayoutOptions& options, const OutputOptions& output = {});
ConvertReport convert_positions(const std::string& in, const std::string& out,
                                const PositionOptions& options, const OutputOptions& output = {});

// The metadata key in which convert_layout records the conversion, such as "half->interleaved".
// Converting back removes it.
inline constexpr std::string_view kLayoutMark = "posenc.rope_layout";

}  // namespace posenc::weights

// SPDX-License-Identifier: MIT

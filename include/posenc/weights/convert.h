// Checkpoints (safetensors, one file or a folder of shards) made ready for another way to say
// positions. Tensors are streamed: memory does not grow with the file. Nothing is put in its place
// before everything is written and on the disk.
//
// convert_layout    rewrites the rows of the q and k projections between RoPE's two pairings. Per
//                   head, within the rotated window of R rows from dim_offset on:
//                     half -> interleaved   row 2p comes from p, row 2p+1 from p + R/2
//                     interleaved -> half   the inverse
//                   so that the scores of the rewritten weights under the other pairing equal those
//                   of the old weights under the old one. There and back gives the same bytes.
// convert_positions copies a model trained with learned or sinusoidal positions without them, as the
//                   start of one with RoPE or another encoding that has no vectors to add.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "posenc/encodings/hf_config.h"
#include "posenc/weights/safetensors.h"

namespace posenc::weights {

// How heads lie in the rows of a projection; 0 means: not told.
struct HeadShape {
  std::int64_t head_dim = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t rotary_dim = 0;  // rows of a head that turn; 0: all from dim_offset on
  std::int64_t dim_offset = 0;

  bool operator==(const HeadShape&) const = default;
};

// Rows of a projection that holds q, k and v: all q, then all k, then all v (Phi-3); or, for every
// head of k, its heads of q, then it, then its head of v (GPT-NeoX, Falcon, InternLM2).
enum class FusedOrder { kConcat, kGrouped };
constexpr std::array<std::string_view, 2> enum_names(FusedOrder /*tag*/) {
  return {"concat", "grouped"};
}

// A pattern names a module or a tensor. Without * and ? it is the end of the name, in whole parts:
// "self_attn.q_proj". With them it is the whole name: "model.layers.*.q_proj". An empty list stands
// for the names that are known (docs/convert.md).
using Patterns = std::vector<std::string>;

struct LayoutOptions {
  PairLayout to = PairLayout::kInterleaved;
  std::optional<PairLayout> from;        // what the file is in; else its own mark says
  std::optional<PairLayout> model_from;  // what such a model is in, where the file has no mark
  HeadShape heads;
  Patterns q;
  Patterns k;
  Patterns fused;
  Patterns keep;  // in addition to the known ones: never touched
  std::optional<FusedOrder> order;
};

// Heads, window and pairing of a model; an Error where it does not rotate, or its layers differ.
struct ModelHeads {
  HeadShape heads;
  PairLayout layout = PairLayout::kHalf;
};
ModelHeads model_heads(const HfModel& model);

struct PositionOptions {
  std::string spec = "rope";  // how positions are said from now on; recorded in the metadata
  Patterns positional;        // what is left out
  Patterns keep;
  std::string target;      // what the new model has: a checkpoint, or a .json of {"name": [shape]}
  Patterns freeze_except;  // "attention", or patterns; empty: say nothing about training
};

struct OutputOptions {
  bool in_place = false;                    // replace the input
  bool force = false;                       // replace what is there
  bool dry_run = false;                     // check and report, write nothing
  const std::atomic<bool>* stop = nullptr;  // asked between pieces; true ends in an Error
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
  bool has_target = false;                         // else nothing is known of the next
  std::vector<NamedShape> left_at_initialisation;  // what the new model has and the copy has not
  std::vector<std::string> trainable;              // both empty without freeze_except
  std::vector<std::string> frozen;
};

ConvertReport convert_layout(const std::string& in, const std::string& out,
                             const LayoutOptions& options, const OutputOptions& output = {});
ConvertReport convert_positions(const std::string& in, const std::string& out,
                                const PositionOptions& options, const OutputOptions& output = {});

// Key of the mark that convert_layout leaves in the metadata, such as "half->interleaved". Converting
// back removes it.
inline constexpr std::string_view kLayoutMark = "posenc.rope_layout";

}  // namespace posenc::weights

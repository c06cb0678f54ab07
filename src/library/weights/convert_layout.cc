#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/fields.h"
#include "posenc/encodings/rotary.h"
#include "posenc/weights/convert.h"
#include "weights/layout_plan.h"
#include "weights/messages.h"
#include "weights/name_pattern.h"
#include "weights/output.h"

namespace posenc::weights {
namespace {

std::string_view name_of(PairLayout layout) { return enum_name(layout); }
PairLayout other(PairLayout layout) {
  return layout == PairLayout::kHalf ? PairLayout::kInterleaved : PairLayout::kHalf;
}
std::string mark_of(PairLayout from, PairLayout to) {
  return fmt::format("{}->{}", name_of(from), name_of(to));
}

// What the mark of an earlier conversion says the file is in.
std::optional<PairLayout> marked_layout(const Reader& shard) {
  const std::string* mark = find_metadata(shard.metadata(), kLayoutMark);
  if (mark == nullptr) return std::nullopt;
  for (const PairLayout now : {PairLayout::kHalf, PairLayout::kInterleaved}) {
    if (*mark == mark_of(other(now), now)) return now;
  }
  throw file_error(ErrorKind::kOutOfRange, shard.path(), std::string(kLayoutMark),
                   "must be half->interleaved or interleaved->half", in_quotes(*mark),
                   "remove it from the metadata");
}

std::optional<PairLayout> marked_layout(const Checkpoint& checkpoint) {
  const std::optional<PairLayout> first = marked_layout(checkpoint.shards.front());
  for (const Reader& shard : checkpoint.shards) {
    if (marked_layout(shard) == first) continue;
    throw file_error(ErrorKind::kConflict, shard.path(), std::string(kLayoutMark),
                     "is not that of " + in_quotes(checkpoint.shards.front().path()), "",
                     "bring all shards to one pairing, file by file");
  }
  return first;
}

// Converting twice would scramble the rows without a trace, so whatever is known is held against it.
PairLayout source_layout(const Checkpoint& checkpoint, const LayoutOptions& options) {
  const auto mark = marked_layout(checkpoint);
  if (mark && options.from && *mark != *options.from) {
    throw file_error(ErrorKind::kConflict, checkpoint.path, "",
                     fmt::format("is {} by its metadata ({})", name_of(*mark), kLayoutMark),
                     fmt::format("--from {}", name_of(*options.from)), "leave --from out");
  }
  PairLayout from = other(options.to);
  if (options.model_from) from = *options.model_from;
  if (mark) from = *mark;
  if (options.from) from = *options.from;
  if (from != options.to) return from;
  const std::string hint = mark || options.from
                               ? "there is nothing to convert"
                               : fmt::format("if not, add --from {}", name_of(other(from)));
  throw file_error(ErrorKind::kConflict, checkpoint.path, "",
                   fmt::format("is {} already", name_of(options.to)), "", hint);
}

// A mark on the way out, none on the way back: there and back is the same file.
Metadata marked(Metadata metadata, PairLayout from, PairLayout to) {
  const auto is_mark = [](const auto& entry) { return entry.first == kLayoutMark; };
  if (std::erase_if(metadata, is_mark) == 0) metadata.emplace_back(kLayoutMark, mark_of(from, to));
  return metadata;
}

}  // namespace

ModelHeads model_heads(const HfModel& model) {
  const auto refuse = [](const std::string& rule, const std::string& value) -> Error {
    return {ErrorKind::kUnsupported,
            {.scope = "hf config", .key = "", .rule = rule, .value = value, .hint = ""}};
  };
  // CodeGen cuts q, v and k into parts for four devices; DeepSeek-V4's values are its rotated keys.
  if (model.model_type == "codegen" || model.model_type == "deepseek_v4") {
    throw refuse("has an unsupported order of rows", model.model_type);
  }
  std::optional<ModelHeads> found;
  for (const HfLayer& layer : model.layers) {
    for (const Encoding& encoding : layer.spec.encodings) {
      const Rope* rope = std::get_if<Rope>(&encoding);
      if (rope == nullptr) continue;
      const Rotary rotary = make_rotary(*rope, layer.shape, Lengths{1, 1});
      const HeadShape heads{layer.shape.head_dim, layer.shape.heads, model.kv_heads,
                            rotary.rotary_dim, rotary.dim_offset};
      if (found && (found->heads != heads || found->layout != rotary.layout)) {
        throw refuse("has layers that rotate different rows", layer.type);
      }
      found = {heads, rotary.layout};
    }
  }
  if (!found) throw refuse("must be of a model with RoPE", "'" + model.model_type + "'");
  return *found;
}

ConvertReport convert_layout(const std::string& in, const std::string& out,
                             const LayoutOptions& options, const OutputOptions& output) {
  check_patterns(options.q, "--q-proj");
  check_patterns(options.k, "--k-proj");
  check_patterns(options.fused, "--qkv-proj");
  check_patterns(options.keep, "--keep");
  const Checkpoint checkpoint = open_checkpoint(in);
  const Destination place = destination(checkpoint, out, output);
  ConvertReport report;
  report.from = source_layout(checkpoint, options);
  report.to = options.to;
  const LayoutPlanner planner(checkpoint.tensors(), report.from, options);
  report.heads = planner.heads();
  std::vector<ShardPlan> plans;
  for (const Reader& shard : checkpoint.shards) {
    auto& plan = plans.emplace_back();
    plan.metadata = marked(shard.metadata(), report.from, report.to);
    for (const TensorInfo& tensor : shard.tensors()) plan.tensors.push_back(planner.plan(tensor));
  }
  report_plans(checkpoint, plans, place, report);
  if (output.dry_run) return report;
  const std::string index = checkpoint.index ? checkpoint.index->text : "";
  write_checkpoint(checkpoint, plans, place, index, output.stop);
  return report;
}

}  // namespace posenc::weights

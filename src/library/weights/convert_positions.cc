#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "posenc/encodings/spec.h"
#include "posenc/weights/convert.h"
#include "weights/messages.h"
#include "weights/name_pattern.h"
#include "weights/output.h"
#include "weights/projections.h"

namespace posenc::weights {
namespace {

const Patterns& known_positional() {
  static const Patterns kPatterns = {
      "wpe",
      "*position_embeddings",
      "*position_embedding",
      "*embed_positions",
      "pos_emb",
      "pos_embed",
      "pos_embedding",
      "pos_embeddings",
      "*positional_embedding*",
      "*positional_encoding*",
      "pos_encoder",
      "pos_encoding",
      "position_ids",
      "learned.weight",
  };
  return kPatterns;
}

const Patterns& known_attention() {
  static const Patterns kPatterns = {"attn",       "self_attn", "attention", "self_attention",
                                     "*Attention", "mha",       "*_attn"};
  return kPatterns;
}

void check_spec(const Spec& spec) {
  for (const Encoding& encoding : spec.encodings) {
    if (traits(encoding).site != Site::kInput) continue;
    throw Error(ErrorKind::kUnsupported,
                {.scope = "convert",
                 .key = "--positions",
                 .rule = "must not add vectors to the input, whose weights are being left out",
                 .value = std::string(traits(encoding).name),
                 .hint = "such as rope"});
  }
}

class PositionPlanner {
 public:
  PositionPlanner(const PositionOptions& options, const Checkpoint& checkpoint)
      : options_(options),
        positional_(options.positional.empty() ? known_positional() : options.positional) {
    for (const std::string& pattern : options.freeze_except) {
      if (pattern != "attention") {
        trainable_.push_back(pattern);
        continue;
      }
      trainable_.insert(trainable_.end(), known_attention().begin(), known_attention().end());
    }
    if (options.target.empty()) return;
    expected_ = read_expected(options.target);
    for (const NamedShape& tensor : expected_) shapes_.emplace(tensor.name, &tensor.shape);
    source_ = checkpoint.tensors();
  }

  [[nodiscard]] TensorPlan plan(const TensorInfo& tensor) const {
    TensorPlan plan{tensor, TensorAction::kCopied, "", 0, {}, 0};
    plan.note = why_skipped(tensor);
    if (!plan.note.empty()) plan.action = TensorAction::kSkipped;
    return plan;
  }

  // What the new model has and the copy does not.
  [[nodiscard]] std::vector<NamedShape> left() const {
    std::vector<NamedShape> left;
    for (const NamedShape& tensor : expected_) {
      const auto source = source_.find(tensor.name);
      const bool copied = source != source_.end() && why_skipped(*source->second).empty();
      if (!copied) left.push_back(tensor);
    }
    return left;
  }

  [[nodiscard]] bool freezes() const { return !trainable_.empty(); }
  [[nodiscard]] bool is_trainable(const std::string& name) const {
    return rest_after(trainable_, name).has_value();
  }

 private:
  [[nodiscard]] std::string why_skipped(const TensorInfo& tensor) const {
    if (!is_kept(tensor.name, options_.keep) && rest_after(positional_, tensor.name)) {
      return "positional";
    }
    if (options_.target.empty()) return "";
    const auto wanted = shapes_.find(tensor.name);
    if (wanted == shapes_.end()) return "not in the target";
    if (*wanted->second == tensor.shape) return "";
    return "target has shape " + shape_text(*wanted->second);
  }

  const PositionOptions& options_;
  const Patterns& positional_;
  Patterns trainable_;
  std::vector<NamedShape> expected_;
  std::unordered_map<std::string_view, const Shape*> shapes_;
  TensorsByName source_;
};

void set(Metadata& metadata, const std::string& key, std::string text) {
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
  metadata.emplace_back(key, std::move(text));
}

std::string name_list(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump();
}

// Adds the names of one shard to the report, and those names to the shard's metadata.
void freeze(const PositionPlanner& planner, const std::vector<NamedShape>& left, ShardPlan& plan,
            ConvertReport& report) {
  std::vector<std::string> trainable;
  std::vector<std::string> frozen;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.action == TensorAction::kSkipped) continue;
    const std::string& name = tensor.source.name;
    (planner.is_trainable(name) ? trainable : frozen).push_back(name);
  }
  // What starts afresh must learn, wherever it is.
  for (const NamedShape& tensor : left) trainable.push_back(tensor.name);
  set(plan.metadata, "posenc.trainable", name_list(trainable));
  set(plan.metadata, "posenc.frozen", name_list(frozen));
  report.trainable.insert(report.trainable.end(), trainable.begin(), trainable.end());
  report.frozen.insert(report.frozen.end(), frozen.begin(), frozen.end());
}

std::string new_index(const Checkpoint& checkpoint, const ConvertReport& report) {
  if (!checkpoint.index) return "";
  std::unordered_set<std::string> kept;
  std::uint64_t total = 0;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.action != TensorAction::kSkipped) kept.insert(tensor.tensor.name);
  }
  for (const FileReport& file : report.files) total += file.bytes;
  return index_text(
      *checkpoint.index, [&](const std::string& name) { return kept.contains(name); }, total);
}

void check_report(const PositionOptions& options, const ConvertReport& report) {
  const auto copied = [](const TensorReport& t) { return t.action == TensorAction::kCopied; };
  if (std::none_of(report.tensors.begin(), report.tensors.end(), copied)) {
    throw Error(ErrorKind::kConflict, {.scope = "convert",
                                       .key = "",
                                       .rule = "would copy no tensor",
                                       .value = "",
                                       .hint = "check --target and --positional"});
  }
  if (!options.freeze_except.empty() && report.trainable.empty()) {
    throw Error(ErrorKind::kConflict, {.scope = "convert",
                                       .key = "--freeze-except",
                                       .rule = "must match a tensor",
                                       .value = in_quotes(options.freeze_except.front()),
                                       .hint = "name the modules, such as self_attn"});
  }
}

}  // namespace

ConvertReport convert_positions(const std::string& in, const std::string& out,
                                const PositionOptions& options, const OutputOptions& output) {
  check_patterns(options.positional, "--positional");
  check_patterns(options.keep, "--keep");
  check_patterns(options.freeze_except, "--freeze-except");
  const Spec spec = parse_spec(options.spec);
  check_spec(spec);
  const Checkpoint checkpoint = open_checkpoint(in);
  const Destination place = destination(checkpoint, out, output);
  const PositionPlanner planner(options, checkpoint);
  ConvertReport report;
  report.spec = to_text(spec);
  report.has_target = !options.target.empty();
  report.left_at_initialisation = planner.left();
  std::vector<ShardPlan> plans;
  for (const Reader& shard : checkpoint.shards) {
    auto& plan = plans.emplace_back();
    plan.metadata = shard.metadata();
    set(plan.metadata, "posenc.positions", report.spec);
    for (const TensorInfo& tensor : shard.tensors()) plan.tensors.push_back(planner.plan(tensor));
    // Names of what is left appear once, with the first shard.
    const auto& left =
        plans.size() == 1 ? report.left_at_initialisation : std::vector<NamedShape>{};
    if (planner.freezes()) freeze(planner, left, plan, report);
  }
  report_plans(checkpoint, plans, place, report);
  check_report(options, report);
  if (!output.dry_run) {
    write_checkpoint(checkpoint, plans, place, new_index(checkpoint, report), output.stop);
  }
  return report;
}

}  // namespace posenc::weights

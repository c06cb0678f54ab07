#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "config/init_from.h"
#include "config/rate.h"
#include "core/bind.h"
#include "core/plain_text.h"
#include "core/strings.h"
#include "system/installed.h"

namespace posenc::config {
namespace {

constexpr std::string_view kSet = "--set";

Error override_error(const std::string& assignment, const std::string& rule) {
  return {ErrorKind::kSyntax,
          {.scope = std::string(kSet),
           .key = assignment,
           .rule = rule,
           .value = "",
           .hint = "write it as model.layers=4"}};
}

// Opens a name up into a map of it, so that fields can be set below it: flip_flop becomes
// {flip_flop: {}}.
Value::Map& opened(Value& node, const std::string& assignment) {
  if (node.is_null()) node = Value(Value::Data(Value::Map{}), node.mark());
  if (const auto* name = node.get_if<std::string>()) {
    node = Value(Value::Data(Value::Map{{*name, Value(Value::Data(Value::Map{})), node.mark()}}),
                 node.mark());
  }
  auto* map = node.get_if<Value::Map>();
  if (map == nullptr) throw override_error(assignment, "goes below something that has no fields");
  return *map;
}

Value& child(Value& node, const std::string& key, const std::string& assignment) {
  Value::Map& map = opened(node, assignment);
  const auto found =
      std::find_if(map.begin(), map.end(), [&](const Member& m) { return m.key == key; });
  if (found != map.end()) return found->value;
  map.push_back({key, Value(), {}});
  return map.back().value;
}

// As of specs.
std::string hash_text(std::string_view text) { return fmt::format("{:016x}", fnv1a(text)); }

// A field that came later: configs that leave it at its default keep the hashes they had before it.
void drop_default(Value::Map& fields, std::string_view key, const Value& value) {
  std::erase_if(fields, [&](const Member& member) {
    return member.key == key && to_json(member.value) == to_json(value);
  });
}

void drop_no_schedules(Value::Map& eval) {
  drop_default(eval, "schedules", write_field(EvalConfig{}.schedules));
}

void drop_no_leak(Value::Map& task) {
  for (Member& member : task) {
    if (member.key != tasks::SelectiveCounting::kTraits.name) continue;
    drop_default(*member.value.get_if<Value::Map>(), "leak", write_field(false));
  }
}

void drop_no_tokens(Value::Map& task) {
  const tasks::LanguageModel plain;
  for (Member& member : task) {
    if (member.key != tasks::LanguageModel::kTraits.name) continue;
    auto& fields = *member.value.get_if<Value::Map>();
    drop_default(fields, "packing", Value::of_string(std::string(enum_name(plain.packing))));
    drop_default(fields, "tokens", write_field(plain.tokens));
  }
}

constexpr std::array<std::string_view, 5> kLaterModelFields = {
    "norm_eps", "attention_bias", "mlp_bias", "parallel", "vocabulary"};
constexpr std::array<std::string_view, 6> kLaterTrainFields = {
    "reduction", "chunks", "shard_optimizer", "checkpoint_blocks", "timeout", "init_from"};

// Likewise for the fields of a part that a list names.
template <class Config>
void drop_defaults(Value::Map& fields, std::span<const std::string_view> later) {
  for (const Member& member : all_fields(Config{})) {
    const bool is_later = std::find(later.begin(), later.end(), member.key) != later.end();
    if (is_later) drop_default(fields, member.key, member.value);
  }
}

struct PresetField {
  Preset preset;
  std::string_view field;
  std::string_view value;  // in YAML
};
constexpr std::array<PresetField, 26> kPresetFields = {{
    {Preset::kGpt2, "tied", "true"},
    {Preset::kLlama, "norm_kind", "rms"},
    {Preset::kLlama, "mlp", "swiglu"},
    {Preset::kLlama, "mlp_ratio", "2.6666666666666665"},
    {Preset::kLlama, "bias", "false"},
    {Preset::kCope, "norm", "post"},
    {Preset::kCope, "mlp", "relu"},
    {Preset::kCope, "tied", "true"},
    {Preset::kCope, "dropout", "0.1"},
    {Preset::kCope, "attention_dropout", "0.1"},
    {Preset::kCope, "mlp_dropout", "0.1"},
    // What the others leave as it is, so that a later default changes none of them.
    {Preset::kGpt2, "mlp", "gelu"},
    {Preset::kGpt2, "norm", "pre"},
    {Preset::kLlama, "norm", "pre"},
    {Preset::kQwen2, "norm_kind", "rms"},
    {Preset::kQwen2, "mlp", "swiglu"},
    {Preset::kQwen2, "mlp_ratio", "2.6666666666666665"},
    {Preset::kQwen2, "bias", "false"},
    {Preset::kQwen2, "attention_bias", "qkv"},
    {Preset::kQwen3, "norm_kind", "rms"},
    {Preset::kQwen3, "mlp", "swiglu"},
    {Preset::kQwen3, "mlp_ratio", "2.6666666666666665"},
    {Preset::kQwen3, "bias", "false"},
    {Preset::kQwen3, "qk_norm", "true"},
    {Preset::kNeox, "mlp", "gelu"},
    {Preset::kNeox, "parallel", "true"},
}};

// Writes what the preset says into a model that does not say it itself.
void apply_preset(Value& tree) {
  const Value* model = tree.find("model");
  const Value* given = model == nullptr ? nullptr : model->find("preset");
  if (given == nullptr) return;
  Preset preset{};
  static constexpr FieldRule kRule{};
  read_field(*given, FieldContext{"model", "preset", kRule}, preset);
  for (const PresetField& field : kPresetFields) {
    if (field.preset != preset || tree.find("model")->find(field.field) != nullptr) continue;
    apply_override(tree, fmt::format("model.{}={}", field.field, field.value));
  }
}

// Errors of a part are signed by the part; the reader of a config wants the file, and then the part.
Error signed_by(const Error& e, const std::string& origin) {
  if (e.scope() == origin || e.scope() == kSet) return e;
  std::string key = e.scope();
  if (!e.key().empty()) key += (key.empty() ? "" : ".") + e.key();
  return {e.kind(),
          {.scope = origin, .key = key, .rule = e.rule(), .value = e.value(), .hint = e.hint()}};
}

// Every position that training can draw is in the tables that the model reads.
void check_positions(const LabConfig& config, const std::string& origin) {
  const std::int64_t longest = longest_length(config.model);
  const bool drawn = config.train.positions != PositionPolicy::kAsIs;
  const std::int64_t reach = drawn ? config.train.position_range : train_length(config.train);
  if (longest < 0 || reach <= longest) return;
  throw Error(ErrorKind::kConflict,
              {.scope = origin,
               .key = drawn ? "train.position_range" : "train.length",
               .rule = fmt::format("must be at most {}, where the learned table of positions ends",
                                   longest),
               .value = std::to_string(reach),
               .hint = "or raise max_positions in model.encoding"});
}

// Documents that share a row are kept apart by softmax attention over packed sequences alone.
void check_packing(const LabConfig& config, const std::string& origin) {
  const auto* task = std::get_if<tasks::LanguageModel>(&config.task);
  if (task == nullptr || !masks_documents(*task)) return;
  const auto refuse = [&](const char* key, std::string value) {
    throw Error(ErrorKind::kConflict,
                {.scope = origin,
                 .key = key,
                 .rule = "does not go with documents that are masked from one another",
                 .value = std::move(value),
                 .hint = "set task.language_model.packing=open"});
  };
  if (config.model.attention == AttentionKind::kLinear) refuse("model.attention", "linear");
  if (config.model.score_scaling != ScoreScaling::kNone) {
    refuse("model.score_scaling", std::string(enum_name(config.model.score_scaling)));
  }
  if (config.train.positions != PositionPolicy::kAsIs) {
    refuse("train.positions", std::string(enum_name(config.train.positions)));
  }
}

// The name becomes part of a folder's name: it must not lead to another folder.
void check_name(const std::string& name, const std::string& origin) {
  constexpr std::size_t kLongest = 200;
  const bool plain = !name.empty() && name.front() != '.' && name.size() <= kLongest &&
                     name.find_first_of("/\\") == std::string::npos && name == one_line(name);
  if (plain) return;
  throw Error(ErrorKind::kOutOfRange,
              {.scope = origin,
               .key = "name",
               .rule = fmt::format("must be a plain name of 1 to {} bytes: no slash, no control "
                                   "character, no dot in front",
                                   kLongest),
               .value = describe(Value::of_string(name)),
               .hint = "write name: my_run, and choose the folder with --out"});
}

void check(const LabConfig& config, const std::string& origin) {
  check_name(config.name, origin);
  validate(config.model, origin);
  validate(config.train, origin);
  validate(config.eval, origin);
  check_positions(config, origin);
  check_packing(config, origin);
}

}  // namespace

void apply_override(Value& tree, const std::string& assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) throw override_error(assignment, "has no value");
  Value* node = &tree;
  std::string path = assignment.substr(0, equals);
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    if (key.empty()) throw override_error(assignment, "names an empty field");
    node = &child(*node, key, assignment);
    begin = dot + 1;
  }
  const std::string text = assignment.substr(equals + 1);
  // A spec such as rope(theta=100) is no YAML flow, and a text of a config never starts like one.
  const bool structured = !text.empty() && (text.front() == '[' || text.front() == '{');
  const bool plain = text.find_first_of(":#&*!|>%@`") == std::string::npos;
  Value value =
      structured || (plain && !text.empty()) ? parse_yaml(text, kSet) : Value::of_string(text);
  *node = Value(value.data());  // without the place in a text of one line
}

Value resolved_tree(const LabConfig& config) {
  Value::Map map = all_fields(config);
  for (Member& member : map) {
    if (member.key != "task") continue;
    member.value = std::visit(
        [](const auto& task) {
          using Task = std::decay_t<decltype(task)>;
          return named_value(Task::kTraits.name, Value(Value::Data(all_fields(task))));
        },
        config.task);
  }
  return {Value::Data(std::move(map))};
}

std::string config_hash(const LabConfig& config) {
  LabConfig same = config;
  same.name = LabConfig{}.name;
  // These change what is written down on the way, not what comes out.
  same.train.log_every = TrainConfig{}.log_every;
  same.train.checkpoint_every = TrainConfig{}.checkpoint_every;
  same.train.keep_last = TrainConfig{}.keep_last;
  same.train.eval_conditions = {};
  same.train.shard_optimizer = TrainConfig{}.shard_optimizer;
  same.train.checkpoint_blocks = TrainConfig{}.checkpoint_blocks;
  same.train.timeout = TrainConfig{}.timeout;
  if (same.train.reduction == Reduction::kFast) same.train.chunks = TrainConfig{}.chunks;
  same.eval = {};
  Value tree = resolved_tree(same);
  for (Member& member : *tree.get_if<Value::Map>()) {
    if (member.key == "eval") drop_no_schedules(*member.value.get_if<Value::Map>());
    if (member.key == "model") {
      drop_defaults<ModelConfig>(*member.value.get_if<Value::Map>(), kLaterModelFields);
    }
    if (member.key == "train") {
      drop_defaults<TrainConfig>(*member.value.get_if<Value::Map>(), kLaterTrainFields);
    }
    auto* task = member.key == "task" ? member.value.get_if<Value::Map>() : nullptr;
    if (task == nullptr) continue;
    drop_no_leak(*task);
    drop_no_tokens(*task);
  }
  return hash_text(to_json(tree));
}

std::string eval_hash(const EvalConfig& config) {
  EvalConfig same = config;
  // These change how it is computed and shown, not the figures.
  same.threshold = EvalConfig{}.threshold;
  same.tokens_per_batch = EvalConfig{}.tokens_per_batch;
  same.attention_samples = EvalConfig{}.attention_samples;
  Value::Map fields = all_fields(same);
  drop_no_schedules(fields);
  return hash_text(to_json({Value::Data(std::move(fields))}));
}

bool extends(const LabConfig& longer, const LabConfig& config) {
  LabConfig same = longer;
  same.train.steps = config.train.steps;
  return longer.train.stages.empty() && longer.train.steps > config.train.steps &&
         config_hash(same) == config_hash(config);
}

bool extends_exactly(const LabConfig& longer, const LabConfig& config) {
  if (longer.train.patience > 0) return false;  // the last evaluation of the shorter run counts
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    if (learning_rate(longer.train, step) != learning_rate(config.train, step)) return false;
  }
  return true;
}

std::string task_name(const LabConfig& config) {
  return std::visit(
      [](const auto& task) { return std::string(std::decay_t<decltype(task)>::kTraits.name); },
      config.task);
}

Loaded parse_config(std::string_view yaml, const std::string& origin,
                    const std::vector<std::string>& overrides) {
  try {
    Value tree = parse_yaml(yaml, origin);
    for (const std::string& assignment : overrides) apply_override(tree, assignment);
    apply_init_from(tree);
    apply_preset(tree);
    const auto config = bind_config<LabConfig>(tree, origin);
    check(config, origin);
    return {config, resolved_tree(config), config_hash(config), eval_hash(config.eval)};
  } catch (const Error& e) {
    throw signed_by(e, origin);
  }
}

Loaded load_config(const std::string& path, const std::vector<std::string>& overrides) {
  const std::string found = found_config(path);
  return parse_config(read_file(found), found, overrides);
}

}  // namespace posenc::config

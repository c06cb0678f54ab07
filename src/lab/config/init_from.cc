#include "config/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "config/hf_model.h"
#include "config/load.h"
#include "core/bind.h"
#include "posenc/core/error.h"

namespace posenc::config {
namespace {

namespace fs = std::filesystem;

// What a training may change: the weights mean the same without it.
constexpr std::array<std::string_view, 6> kFree = {"preset",  "encoding",          "window",
                                                   "dropout", "attention_dropout", "mlp_dropout"};

bool is_free(const std::string& field) {
  return std::find(kFree.begin(), kFree.end(), field) != kFree.end();
}

// Configs that start from each other would be read without an end.
class Chain {
 public:
  explicit Chain(const std::string& path) {
    constexpr int kLongest = 16;
    if (++length_ <= kLongest) return;
    length_ = 0;
    throw Error(ErrorKind::kConflict, {.scope = "train",
                                       .key = "init_from",
                                       .rule = "must not lead back to itself",
                                       .value = "'" + path + "'",
                                       .hint = "name a run that was trained"});
  }
  ~Chain() { length_ = length_ > 0 ? length_ - 1 : 0; }
  Chain(Chain&&) = delete;
  Chain& operator=(Chain&&) = delete;

 private:
  static thread_local int length_;  // NOLINT(readability-identifier-naming)
};
thread_local int Chain::length_ = 0;  // NOLINT(readability-identifier-naming)

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Resolved configs say everything: a run can be read after its source is gone, and after fields were added.
bool says_everything(const Value& model) {
  constexpr std::array<std::string_view, 12> kAlways = {
      "preset", "encoding", "layers",    "dim",  "heads",     "kv_heads",
      "mlp",    "head_dim", "mlp_ratio", "norm", "norm_kind", "tied"};
  return std::all_of(kAlways.begin(), kAlways.end(),
                     [&](std::string_view field) { return model.find(field) != nullptr; });
}

// As the reader of the field sees it: 4 and 4.0, rope and [rope] are the same.
bool same_field(const Value& written, const Member& source) {
  Value::Map map = all_fields(ModelConfig{});
  for (Member& member : map) {
    if (member.key == source.key) member.value = written;
  }
  const auto read = bind_config<ModelConfig>(Value(Value::Data(std::move(map))), "model");
  for (const Member& member : all_fields(read)) {
    if (member.key == source.key) return to_json(member.value) == to_json(source.value);
  }
  return false;
}

Value& model_part(Value& tree) {
  auto* root = tree.get_if<Value::Map>();
  const auto found =
      std::find_if(root->begin(), root->end(), [](const Member& m) { return m.key == "model"; });
  if (found != root->end()) return found->value;
  root->push_back({"model", Value(Value::Data(Value::Map{})), {}});
  return root->back().value;
}

Error other_shape(const Member& of_source, const Value& written, const InitSource& source) {
  return {ErrorKind::kConflict,
          {.scope = "model",
           .key = of_source.key,
           .rule = fmt::format("must be {}, as train.init_from ({}) has it",
                               describe(of_source.value), source.path),
           .value = describe(written),
           .hint = "leave the field out, or start from other weights"}};
}

void fill_model(Value& model, const InitSource& source) {
  if (model.is_null()) model = Value(Value::Data(Value::Map{}));
  auto* map = model.get_if<Value::Map>();
  if (map == nullptr) return;  // reading the config says what is wrong with it
  for (const Member& member : all_fields(*source.model)) {
    const Value* written = model.find(member.key);
    if (written == nullptr) {
      map->push_back(member);
      continue;
    }
    if (is_free(member.key) || same_field(*written, member)) continue;
    throw other_shape(member, *written, source);
  }
}

}  // namespace

InitSource read_init_source(const std::string& path) {
  const fs::path place(path);
  if (is_there(place / "config.yaml")) {
    return {InitKind::kRun, path, load_config((place / "config.yaml").string()).config.model};
  }
  if (is_there(place / "config.json")) {
    const std::string file = (place / "config.json").string();
    return {InitKind::kHuggingFace, path, parse_hf_model(read_file(file), file)};
  }
  if (is_there(place)) return {InitKind::kWeights, path, std::nullopt};
  throw Error(ErrorKind::kIo,
              {.scope = "train",
               .key = "init_from",
               .rule = "must be a run directory, a safetensors file or a Hugging Face folder",
               .value = "'" + path + "', which does not exist",
               .hint = "paths are relative to the current folder"});
}

void require_shape_of(const InitSource& source, const ModelConfig& model) {
  if (!source.model) return;
  const Value::Map fields = all_fields(model);
  const Value written{Value::Data(fields)};
  for (const Member& member : all_fields(*source.model)) {
    const Value* field = written.find(member.key);
    if (field == nullptr || is_free(member.key) || same_field(*field, member)) continue;
    throw other_shape(member, *field, source);
  }
}

void apply_init_from(Value& tree) {
  const Value* train = tree.find("train");
  const Value* given = train == nullptr ? nullptr : train->find("init_from");
  const auto* path = given == nullptr ? nullptr : given->get_if<std::string>();
  if (path == nullptr || path->empty()) return;
  const Value* model = tree.find("model");
  if (model != nullptr && says_everything(*model)) return;
  if (!is_there(*path)) return;  // a sweep may plan runs before the one that they start from
  const Chain chain(*path);
  const InitSource source = read_init_source(*path);
  if (source.model) fill_model(model_part(tree), source);
}

}  // namespace posenc::config

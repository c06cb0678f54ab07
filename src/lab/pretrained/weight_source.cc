#include "pretrained/weight_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "posenc/core/error.h"
#include "pretrained/floats.h"
#include "runs/checkpoints.h"
#include "system/sha256.h"
#include "weights/checkpoint.h"

namespace posenc::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnd = ".safetensors.index.json";

std::string misshapen_text(const std::string& name, const weights::Shape& found,
                           const weights::Shape& wanted) {
  return fmt::format("{} is {}, not {}", name, weights::shape_text(found),
                     weights::shape_text(wanted));
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  if (names.size() <= kShown + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kShown, ", "),
                     names.size() - kShown);
}

void Misfits::throw_if_any(const std::string& path) const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("missing: " + listed(missing));
  if (!unexpected.empty()) parts.push_back("unexpected: " + listed(unexpected));
  if (!misshapen.empty()) parts.push_back("of another shape: " + listed(misshapen));
  if (parts.empty()) return;
  throw Error(
      ErrorKind::kConflict,
      {.scope = path,
       .key = "",
       .rule = fmt::format("does not hold the weights of this model; {}", fmt::join(parts, "; ")),
       .value = "",
       .hint = "change the model's fields or train.init_from"});
}

WeightSource::WeightSource(const config::InitSource& source, const config::ModelConfig& model,
                           std::int64_t vocabulary)
    : path_(source.path) {
  if (source.kind == config::InitKind::kRun) {
    open_run();
  } else {
    open_files();
  }
  std::vector<std::string> all;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (const weights::TensorInfo& tensor : shards_[i].tensors()) {
      places_[tensor.name] = {i, &tensor};
      all.push_back(tensor.name);
    }
  }
  if (source.kind != config::InitKind::kRun) names_ = hf_names_in(all);
  if (names_) {
    kind_ = fmt::format("{} tensors of Hugging Face", enum_name(*names_));
    map_hf_names(*names_, model, vocabulary);
  } else {
    for (const auto& [name, place] : places_) shapes_[name] = place.tensor->shape;
  }
}

void WeightSource::open_run() {
  std::vector<std::string> messages;
  runs::Loaded checkpoint = runs::require_checkpoint(path_, false, messages);
  kind_ = fmt::format("run at step {}", checkpoint.step);
  for (const std::string& message : messages) kind_ += "; " + message;
  for (auto& [file, reader] : checkpoint.groups) {
    if (file == "model") shards_.push_back(std::move(reader));
  }
}

void WeightSource::open_files() {
  kind_ = "safetensors";
  const bool index = path_.ends_with(kIndexEnd);
  const std::string place = index ? fs::path(path_).parent_path().string() : path_;
  weights::Checkpoint opened = weights::open_checkpoint(place.empty() ? "." : place);
  (void)opened.tensors();  // an Error for a tensor in two shards
  shards_ = std::move(opened.shards);
}

const WeightSource::Place* WeightSource::find(HfNames names, const std::string& file_name) const {
  const std::string_view start = prefix(names);
  for (const std::string& name :
       {file_name, file_name.starts_with(start) ? file_name.substr(start.size()) : file_name}) {
    const auto found = places_.find(name);
    if (found != places_.end()) return &found->second;
  }
  return nullptr;
}

// Files of tied models may have the head as well; it must be the embedding.
void WeightSource::require_tied_head(HfNames names, const Place& head) const {
  const TensorRule& rule = rules_.at("embed.weight");
  const Place* embedding = find(names, rule.file);
  const auto bytes = [&](const Place& p) { return shards_[p.shard].read(*p.tensor); };
  if (embedding == nullptr || bytes(*embedding) == bytes(head)) return;
  throw Error(ErrorKind::kConflict,
              {.scope = path_,
               .key = "'" + head.tensor->name + "'",
               .rule = "must equal the embedding, because the model is tied",
               .value = "",
               .hint = "set tie_word_embeddings to false in config.json, or model.tied=false"});
}

void WeightSource::map_hf_names(HfNames names, const config::ModelConfig& model,
                                std::int64_t vocabulary) {
  Misfits misfits;
  std::set<const weights::TensorInfo*> used;
  for (TensorRule& rule : hf_tensors(names, model, vocabulary)) {
    const Place* place = find(names, rule.file);
    if (place == nullptr) {
      misfits.missing.push_back(rule.file);
      continue;
    }
    const bool seen = !used.insert(place->tensor).second;
    if (place->tensor->shape != rule.file_shape && !seen) {
      misfits.misshapen.push_back(
          misshapen_text(place->tensor->name, place->tensor->shape, rule.file_shape));
    }
    shapes_[rule.lab] = rule.lab_shape;
    rules_.emplace(rule.lab, std::move(rule));
  }
  std::optional<Place> head;
  for (const auto& [name, place] : places_) {
    if (used.count(place.tensor) == 1 || is_constant(names, name)) continue;
    if (model.tied && name == head_name(names)) {
      head = place;
      continue;
    }
    misfits.unexpected.push_back(name);
  }
  misfits.throw_if_any(path_);
  if (head) require_tied_head(names, *head);
}

std::vector<float> WeightSource::read(const std::string& name) const {
  const auto rule = rules_.find(name);
  if (rule == rules_.end()) {
    const Place& place = places_.at(name);
    return read_floats(shards_[place.shard], *place.tensor);
  }
  const Place& place = *find(*names_, rule->second.file);
  std::vector<float> file = read_floats(shards_[place.shard], *place.tensor);
  if (!rule->second.transposed && rule->second.parts == 1) return file;
  const std::int64_t rows = rule->second.lab_shape.front();
  const std::int64_t columns = rule->second.lab_shape.size() > 1 ? rule->second.lab_shape[1] : 1;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      values.push_back(file[rule->second.place(row, column)]);
    }
  }
  return values;
}

std::string WeightSource::sha256() const {
  Sha256 all;
  for (const weights::Reader& shard : shards_) all.update(sha256_of_file(shard.path()));
  return shards_.size() == 1 ? sha256_of_file(shards_.front().path()) : all.hex();
}

}  // namespace posenc::pretrained

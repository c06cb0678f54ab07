#include <fmt/format.h>

#include <unordered_set>

#include "weights/checkpoint.h"
#include "weights/header.h"
#include "weights/json_reader.h"
#include "weights/messages.h"

namespace posenc::weights {
namespace {

// {"metadata": {"total_size": 123}, "weight_map": {"name": "file"}}
class IndexReader : public JsonReader {
 public:
  IndexReader(const std::string& path, Index& index) : JsonReader(path, ""), index_(index) {}

  bool start_object(std::size_t size) override {
    if (at_ == At::kStart) return go(At::kRoot);
    if (at_ == At::kMetadataEntry) return go(At::kMetadata);
    if (at_ == At::kMapEntry) return go(At::kMap);
    return JsonReader::start_object(size);
  }
  bool end_object() override { return go(At::kRoot); }
  bool end_array() override { return true; }
  bool key(string_t& name) override {
    key_ = name;
    if (at_ == At::kMap || at_ == At::kMetadata) {
      auto& names = at_ == At::kMap ? names_ : metadata_names_;
      if (!names.insert(name).second) throw error("has " + in_quotes(name) + " twice");
      return true;
    }
    if (name == "metadata" && !std::exchange(has_metadata_, true)) return go(At::kMetadataEntry);
    if (name == "weight_map" && !std::exchange(has_map_, true)) return go(At::kMapEntry);
    throw error("must have metadata and weight_map, each once", in_quotes(name));
  }
  bool string(string_t& text) override {
    if (at_ == At::kMap) {
      index_.weight_map.emplace_back(key_, text);
      return true;
    }
    return scalar(nlohmann::json(text).dump(), in_quotes(text));
  }
  bool null() override { return scalar("null", "null"); }
  bool boolean(bool b) override { return scalar(b ? "true" : "false", b ? "true" : "false"); }
  bool number_integer(number_integer_t i) override {
    return scalar(std::to_string(i), std::to_string(i));
  }
  bool number_unsigned(number_unsigned_t u) override {
    return scalar(std::to_string(u), std::to_string(u));
  }
  bool number_float(number_float_t /*d*/, const string_t& text) override {
    return scalar(text, text);
  }

  [[nodiscard]] bool complete() const { return has_map_; }

 private:
  enum class At { kStart, kRoot, kMetadataEntry, kMetadata, kMapEntry, kMap };

  bool go(At at) {
    at_ = at;
    return true;
  }
  bool scalar(std::string json, const std::string& what) {
    if (at_ != At::kMetadata) return refuse(what);
    index_.metadata.emplace_back(key_, std::move(json));
    return true;
  }
  bool refuse(const std::string& what) override {
    const bool shard = at_ == At::kMap;
    throw error(shard ? in_quotes(key_) + " must name a file" : "must be an index of shards", what);
  }

  Index& index_;
  At at_ = At::kStart;
  std::string key_;
  bool has_metadata_ = false;
  bool has_map_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_names_;
};

// {"name": [2, 3]}
class ExpectedReader : public JsonReader {
 public:
  explicit ExpectedReader(const std::string& path) : JsonReader(path, "") {}

  std::vector<NamedShape> take() { return std::move(expected_); }

  bool start_object(std::size_t size) override {
    if (std::exchange(opened_, true)) return JsonReader::start_object(size);
    return true;
  }
  bool end_object() override { return true; }
  bool key(string_t& name) override {
    if (!names_.insert(name).second) throw error("has " + in_quotes(name) + " twice");
    expected_.push_back({name, {}});
    return true;
  }
  bool start_array(std::size_t size) override {
    if (expected_.empty() || std::exchange(in_shape_, true)) return JsonReader::start_array(size);
    return true;
  }
  bool end_array() override {
    in_shape_ = false;
    return true;
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (!in_shape_ || number > std::numeric_limits<std::int64_t>::max()) {
      return JsonReader::number_unsigned(number);
    }
    expected_.back().shape.push_back(static_cast<std::int64_t>(number));
    return true;
  }

 private:
  bool refuse(const std::string& what) override {
    throw error(R"(must be a list of shapes, {"name": [2, 3]})", what);
  }

  std::vector<NamedShape> expected_;
  std::unordered_set<std::string> names_;
  bool opened_ = false;
  bool in_shape_ = false;
};

}  // namespace

Index parse_index(std::string text, const std::string& path) {
  Index index;
  IndexReader reader(path, index);
  reader.walk(text);
  if (!reader.complete()) {
    throw file_error(ErrorKind::kMissingKey, path, "weight_map", "is required", "", kDamaged);
  }
  index.text = std::move(text);
  return index;
}

std::string index_text(const Index& index, const std::function<bool(const std::string&)>& keep,
                       std::uint64_t total_size) {
  std::string metadata;
  for (const auto& [key, value] : index.metadata) {
    metadata +=
        fmt::format("{}\n    {}: {}", metadata.empty() ? "" : ",", nlohmann::json(key).dump(),
                    key == "total_size" ? std::to_string(total_size) : value);
  }
  std::string map;
  for (const auto& [name, file] : index.weight_map) {
    if (!keep(name)) continue;
    map += fmt::format("{}\n    {}: {}", map.empty() ? "" : ",", nlohmann::json(name).dump(),
                       nlohmann::json(file).dump());
  }
  return fmt::format("{{\n  \"metadata\": {{{}\n  }},\n  \"weight_map\": {{{}\n  }}\n}}\n",
                     metadata, map);
}

std::vector<NamedShape> parse_expected(const std::string& text, const std::string& path) {
  ExpectedReader reader(path);
  reader.walk(text);
  return reader.take();
}

}  // namespace posenc::weights

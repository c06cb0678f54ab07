#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "system/files.h"
#include "weights/header.h"
#include "weights/messages.h"

namespace posenc::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexEnd = ".safetensors.index.json";
constexpr const char* kFileEnd = ".safetensors";

std::string joined(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / file).string();
}

// Names in a folder that end so, in order.
std::vector<std::string> names_ending(const std::string& folder, std::string_view end) {
  std::vector<std::string> names;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(end)) names.push_back(std::move(name));
  }
  if (problem) throw system_error(folder, "cannot be read", problem.value(), "check the path");
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_small_file(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kLongestHeader) {
    throw file_error(ErrorKind::kResource, path, "",
                     fmt::format("must have at most {} bytes", kLongestHeader),
                     std::to_string(file.size()), kDamaged);
  }
  return file.read_text(0, file.size());
}

// An index is untrusted input: its files must be in the same folder.
void check_shard_name(const std::string& name, const std::string& path) {
  if (name.find('/') == std::string::npos && name.ends_with(kFileEnd) && name.front() != '.') {
    return;
  }
  throw file_error(ErrorKind::kOutOfRange, path, "weight_map",
                   "must name .safetensors files in its folder", in_quotes(name), kDamaged);
}

// Index and shards must say the same, or a tensor would be lost in silence.
void check_index(const Checkpoint& checkpoint, const std::string& index_path) {
  std::size_t held = 0;
  std::unordered_map<std::string_view, std::size_t> shard_of;
  for (std::size_t i = 0; i < checkpoint.files.size(); ++i) shard_of[checkpoint.files[i]] = i;
  for (const auto& [name, file] : checkpoint.index->weight_map) {
    (void)checkpoint.shards[shard_of.at(file)].at(name);
  }
  for (const Reader& shard : checkpoint.shards) held += shard.tensors().size();
  if (held != checkpoint.index->weight_map.size()) {
    throw file_error(ErrorKind::kConflict, index_path, "weight_map",
                     fmt::format("must name every tensor of its shards ({})", held),
                     std::to_string(checkpoint.index->weight_map.size()), "recreate the index");
  }
}

void open_sharded(Checkpoint& checkpoint, const std::string& index_file) {
  const std::string path = joined(checkpoint.path, index_file);
  checkpoint.index = parse_index(read_small_file(path), path);
  checkpoint.index->file = index_file;
  std::set<std::string> files;
  for (const auto& [name, file] : checkpoint.index->weight_map) {
    if (files.insert(file).second) check_shard_name(file, path);
  }
  if (files.empty()) {
    throw file_error(ErrorKind::kMissingKey, path, "weight_map", "must name a tensor", "",
                     kDamaged);
  }
  checkpoint.files.assign(files.begin(), files.end());
  for (const std::string& file : checkpoint.files) {
    checkpoint.shards.emplace_back(joined(checkpoint.path, file));
  }
  check_index(checkpoint, path);
}

void open_folder(Checkpoint& checkpoint) {
  const auto indices = names_ending(checkpoint.path, kIndexEnd);
  if (indices.size() == 1) return open_sharded(checkpoint, indices.front());
  checkpoint.files = names_ending(checkpoint.path, kFileEnd);
  if (!indices.empty() || checkpoint.files.size() != 1) {
    throw file_error(ErrorKind::kConflict, checkpoint.path, "",
                     "must have one .safetensors file, or one index of shards",
                     fmt::format("{} and {}", checkpoint.files.size(), indices.size()),
                     "name the file to convert");
  }
  checkpoint.shards.emplace_back(joined(checkpoint.path, checkpoint.files.front()));
}

}  // namespace

TensorsByName Checkpoint::tensors() const {
  TensorsByName all;
  for (const Reader& shard : shards) {
    for (const TensorInfo& tensor : shard.tensors()) {
      if (all.emplace(tensor.name, &tensor).second) continue;
      throw file_error(ErrorKind::kConflict, path, in_quotes(tensor.name), "is in two shards", "",
                       kDamaged);
    }
  }
  return all;
}

Checkpoint open_checkpoint(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  std::error_code ignored;
  checkpoint.folder = fs::is_directory(path, ignored);
  if (checkpoint.folder) {
    open_folder(checkpoint);
  } else {
    checkpoint.shards.emplace_back(path);
    checkpoint.files = {fs::path(path).filename().string()};
  }
  return checkpoint;
}

std::vector<NamedShape> read_expected(const std::string& path) {
  if (path.ends_with(".json")) return parse_expected(read_small_file(path), path);
  std::vector<NamedShape> expected;
  const Checkpoint checkpoint = open_checkpoint(path);
  for (const Reader& shard : checkpoint.shards) {
    for (const TensorInfo& tensor : shard.tensors())
      expected.push_back({tensor.name, tensor.shape});
  }
  return expected;
}

}  // namespace posenc::weights

#include "weights/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>

#include "system/file_errors.h"
#include "system/files.h"
#include "system/folders.h"
#include "system/temporaries.h"

namespace posenc::weights {
namespace {

namespace fs = std::filesystem;

Error output_error(const std::string& path, const std::string& rule, const std::string& hint) {
  return file_error(ErrorKind::kConflict, path, "", rule, "", hint);
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code missing;
  return fs::equivalent(a, b, missing);
}

std::string output_path(const Checkpoint& checkpoint, const std::string& out, bool in_place) {
  if (!in_place && out.empty()) {
    throw Error(ErrorKind::kMissingKey, {.scope = "convert",
                                         .key = "OUT",
                                         .rule = "is required",
                                         .value = "",
                                         .hint = "add -o OUT, or --in-place"});
  }
  if (in_place && !out.empty() && !same_file(out, checkpoint.path)) {
    throw output_error(out, "is not the input, which --in-place replaces", "remove one of them");
  }
  if (!in_place && same_file(out, checkpoint.path)) {
    throw output_error(out, "is the input itself", "choose another name, or add --in-place");
  }
  return in_place ? checkpoint.path : out;
}

void check_absent(const std::string& path, const Checkpoint& checkpoint) {
  for (const Reader& shard : checkpoint.shards) {
    if (same_file(path, shard.path())) {
      throw output_error(path, "is the input itself", "choose another name, or add --in-place");
    }
  }
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    throw output_error(path, "exists already", "choose another name, or add --force");
  }
}

void check_kind(const Destination& place) {
  std::error_code ignored;
  const fs::file_status status = fs::status(place.path, ignored);
  if (place.folder && fs::exists(status) && !fs::is_directory(status)) {
    throw output_error(place.path, "is a file but the input is a folder", "name a folder");
  }
  if (!place.folder && fs::is_directory(status)) {
    throw output_error(place.path, "is a folder but the input is a file", "name a file");
  }
}

bool is_new_folder(const Destination& place) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(place.path, ignored);
  return place.folder &&
         (!fs::exists(status) || (fs::is_directory(status) && fs::is_empty(place.path, ignored)));
}

// A new folder is written next to its place and renamed as a whole, so no part of it is ever visible.
class StagedFolder {
 public:
  explicit StagedFolder(const std::string& path)
      : path_(path), made_(create_temporary_folder(path)) {}
  ~StagedFolder() {
    if (!made_.path.empty()) (void)remove_tree(made_.path);
  }
  StagedFolder(StagedFolder&&) = delete;
  StagedFolder& operator=(StagedFolder&&) = delete;

  // The same files, in the folder that will be renamed.
  [[nodiscard]] Destination staged(Destination place) const {
    const auto moved = [&](std::string& file) {
      if (!file.empty()) file = (fs::path(made_.path) / fs::path(file).filename()).string();
    };
    for (std::string& file : place.files) moved(file);
    moved(place.index);
    return place;
  }
  // An empty folder is replaced; one that was filled in the meantime is not.
  void commit() {
    sync_folder(made_.path);
    if (::rename(made_.path.c_str(), path_.c_str()) != 0) throw write_error(path_, errno);
    made_.path.clear();
    sync_folder(folder_of(path_));
  }

 private:
  std::string path_;
  Temporary made_;
};

void remove_leftovers(const Destination& place) {
  if (is_new_folder(place)) return remove_stale_temporaries(place.path);
  for (const std::string& file : place.files) remove_stale_temporaries(file);
  if (!place.index.empty()) remove_stale_temporaries(place.index);
}

Writer write_shard(const Reader& reader, const ShardPlan& plan, const std::string& path,
                   Overwrite overwrite, Streamer& streamer) {
  std::vector<TensorSpec> specs;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.action != TensorAction::kSkipped) specs.push_back(tensor.source);
  }
  Writer writer(path, std::move(specs), plan.metadata, overwrite);
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.action != TensorAction::kSkipped) streamer.copy(reader, tensor, writer);
  }
  writer.sync();
  return writer;
}

}  // namespace

Destination destination(const Checkpoint& checkpoint, const std::string& out,
                        const OutputOptions& options) {
  Destination place;
  place.folder = checkpoint.folder;
  place.path = output_path(checkpoint, out, options.in_place);
  while (place.path.size() > 1 && place.path.ends_with('/')) place.path.pop_back();
  place.overwrite = options.in_place || options.force ? Overwrite::kReplace : Overwrite::kRefuse;
  check_kind(place);
  const auto inside = [&](const std::string& file) {
    return place.folder ? (fs::path(place.path) / file).string() : place.path;
  };
  for (const std::string& file : checkpoint.files) place.files.push_back(inside(file));
  if (checkpoint.index) place.index = inside(checkpoint.index->file);
  if (place.overwrite == Overwrite::kReplace) return place;
  for (const std::string& file : place.files) check_absent(file, checkpoint);
  if (!place.index.empty()) check_absent(place.index, checkpoint);
  return place;
}

void write_checkpoint(const Checkpoint& checkpoint, const std::vector<ShardPlan>& plans,
                      const Destination& place, const std::string& index_text,
                      const std::atomic<bool>* stop) {
  remove_leftovers(place);
  std::optional<StagedFolder> folder;
  if (is_new_folder(place)) folder.emplace(place.path);
  const Destination destination = folder ? folder->staged(place) : place;
  Streamer streamer(stop);
  std::deque<Writer> writers;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    writers.push_back(write_shard(checkpoint.shards[i], plans[i], destination.files[i],
                                  destination.overwrite, streamer));
  }
  std::optional<AtomicFile> index;
  if (!destination.index.empty()) {
    index.emplace(destination.index, destination.overwrite == Overwrite::kReplace);
    index->write(index_text);
    index->sync();
  }
  for (Writer& writer : writers) writer.commit();
  if (index) index->commit();
  if (folder) folder->commit();
}

void report_plans(const Checkpoint& checkpoint, const std::vector<ShardPlan>& plans,
                  const Destination& destination, ConvertReport& report) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    FileReport file{checkpoint.shards[i].path(), destination.files[i], 0};
    for (const TensorPlan& tensor : plans[i].tensors) {
      if (tensor.action != TensorAction::kSkipped) file.bytes += tensor.source.size();
      const TensorSpec& spec = tensor.source;
      report.tensors.push_back({spec, tensor.action, tensor.note});
    }
    report.files.push_back(std::move(file));
  }
}

}  // namespace posenc::weights

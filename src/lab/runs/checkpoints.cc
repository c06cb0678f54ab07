#include "runs/checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>

#include "runs/files.h"
#include "runs/manifest.h"
#include "runs/numbers.h"
#include "system/files.h"
#include "system/sha256.h"
#include "weights/header.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

// A folder under a temporary name, gone again with all it holds unless it was put in place.
class NewCheckpoint {
 public:
  explicit NewCheckpoint(fs::path target)
      : target_(std::move(target)), folder_(temporary_beside(target_)) {
    std::error_code error;
    fs::create_directory(folder_, error);
    if (error) throw write_error(target_.string(), error.value());
  }
  ~NewCheckpoint() { remove_tree(folder_); }
  NewCheckpoint(NewCheckpoint&&) = delete;
  NewCheckpoint& operator=(NewCheckpoint&&) = delete;

  // Hashes what the caller meant to write, not what the disk has: a difference shows on load.
  void write(const std::string& name, std::span<const std::span<const std::byte>> pieces) {
    const Descriptor file(
        ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.number() < 0) throw failure(name, errno);
    Sha256 hash;
    std::int64_t size = 0;
    for (const std::span<const std::byte> piece : pieces) {
      hash.update(piece);
      size += std::ssize(piece);
      write_all(file.number(), piece, name);
    }
    if (::fsync(file.number()) != 0) throw failure(name, errno);
    manifest.files.push_back({name, size, hash.hex()});
  }
  void write(const std::string& name, std::string_view text) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    write(name, {&bytes, 1});
  }

  void put_in_place() {
    write(kManifestFile, manifest_text(manifest));
    sync_folder(folder_.string());
    if (!exchange()) {
      // No exchange here: an older one of the same step makes room first.
      const fs::path aside = temporary_beside(target_);
      const bool moved = ::rename(target_.c_str(), aside.c_str()) == 0;
      if (::rename(folder_.c_str(), target_.c_str()) != 0) {
        const int why = errno;
        if (moved) (void)::rename(aside.c_str(), target_.c_str());
        throw failure("", why);
      }
      if (moved) folder_ = aside;
    }
    sync_folder(target_.parent_path().string());
  }

  Manifest manifest;

 private:
  // Puts the folder in place of an older one in one step, which the destructor then removes.
  bool exchange() {
#ifdef RENAME_EXCHANGE
    return ::renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0;
#else
    return false;
#endif
  }

  void write_all(int file, std::span<const std::byte> data, const std::string& name) const {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux moves 2 GiB at most
    while (!data.empty()) {
      const ssize_t put = ::write(file, data.data(), std::min(data.size(), kMostAtOnce));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw failure(name, errno);
      data = data.subspan(put);
    }
  }
  [[nodiscard]] Error failure(const std::string& name, int error_number) const {
    return write_error((name.empty() ? target_ : target_ / name).string(), error_number);
  }

  fs::path target_;
  fs::path folder_;
};

Error refused(const fs::path& path, const std::string& key, const std::string& rule,
              const std::string& value) {
  return file_error(ErrorKind::kOutOfRange, path.string(), key, rule, value, "");
}

void check_bytes(const fs::path& target, const TensorBytes& tensor) {
  const auto length = weights::byte_length(tensor.type, tensor.shape);
  if (length == tensor.bytes.size()) return;
  throw refused(
      target, "",
      fmt::format("needs as many bytes for {} as {} {} takes", weights::in_quotes(tensor.name),
                  weights::element_type_name(tensor.type), weights::shape_text(tensor.shape)),
      std::to_string(tensor.bytes.size()));
}

void write_group(NewCheckpoint& checkpoint, const fs::path& target, const TensorGroup& group) {
  const std::string name = group.file + kTensorSuffix;
  const std::string path = (target / name).string();
  std::vector<weights::TensorSpec> specs;
  for (const TensorBytes& tensor : group.tensors) {
    check_bytes(target / name, tensor);
    specs.push_back({tensor.name, tensor.type, tensor.shape});
  }
  const std::string header = weights::header_bytes({weights::place(specs, path), {}}, path);
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(header))};
  for (const TensorBytes& tensor : group.tensors) pieces.push_back(tensor.bytes);
  checkpoint.write(name, pieces);
}

// Under a temporary name first: a half deleted checkpoint must not look like a damaged one.
void remove_checkpoint(const fs::path& path) {
  const fs::path doomed = temporary_beside(path);
  if (::rename(path.c_str(), doomed.c_str()) != 0) throw write_error(path.string(), errno);
  remove_tree(doomed);  // what is left goes with the next temporaries
}

}  // namespace

Checkpoints::Checkpoints(fs::path dir, Retention retention)
    : CheckpointReader(std::move(dir)), retention_(retention) {
  if (retention.last < 1) {
    throw refused(this->dir(), "last", "must be >= 1", std::to_string(retention.last));
  }
  NewFolders made(this->dir());
  made.keep();
  remove_temporaries(this->dir());
}

void Checkpoints::save(std::int64_t step, std::span<const TensorGroup> groups, const Value& state,
                       std::optional<double> score) {
  if (step < 0) throw refused(dir(), "step", "must be >= 0", std::to_string(step));
  const fs::path target = dir() / step_name(step);
  {
    NewCheckpoint checkpoint(target);
    checkpoint.manifest.step = step;
    if (score && std::isfinite(*score)) checkpoint.manifest.score = score;
    for (const TensorGroup& group : groups) write_group(checkpoint, target, group);
    checkpoint.write(kStateFile, to_json(without_non_finite(state)) + "\n");
    checkpoint.put_in_place();
  }
  drop_old(step);
}

void Checkpoints::drop_old(std::int64_t newest) const {
  std::vector<CheckpointInfo> all = list();
  std::vector<CheckpointInfo> whole;
  std::copy_if(all.begin(), all.end(), std::back_inserter(whole), [&](const CheckpointInfo& info) {
    return info.step <= newest && info.problem.empty();
  });
  const auto best = std::max_element(whole.begin(), whole.end(), [](const auto& a, const auto& b) {
    return b.score && (!a.score || *a.score < *b.score);
  });
  const auto last = static_cast<std::size_t>(retention_.last);
  std::vector<std::int64_t> kept = {newest};
  if (retention_.best && best != whole.end() && best->score) kept.push_back(best->step);
  for (std::size_t i = whole.size() - std::min(last, whole.size()); i < whole.size(); ++i) {
    kept.push_back(whole[i].step);
  }
  for (const CheckpointInfo& info : all) {
    if (std::find(kept.begin(), kept.end(), info.step) == kept.end()) remove_checkpoint(info.path);
  }
}

}  // namespace posenc::runs

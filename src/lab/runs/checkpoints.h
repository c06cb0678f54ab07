// Checkpoints of a run, written atomically and verified by checksums.
//
//   checkpoints/step-00001000/model.safetensors      one file per group of tensors
//                             optimizer.safetensors
//                             state.json              whatever else the caller needs to go on
//                             manifest.json           size and SHA-256 of the others, and the score
//
// A checkpoint is written under a temporary name, every file and the folder are synced, and then it is
// renamed: a killed process does not damage checkpoints. Old ones are deleted only after the new one
// is in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/value.h"
#include "posenc/weights/safetensors.h"

namespace posenc::runs {

class Progress;

// A tensor in the caller's memory, dense and row-major.
struct TensorBytes {
  std::string name;
  weights::ElementType type = weights::ElementType::kF32;
  weights::Shape shape;
  std::span<const std::byte> bytes;
};

// The tensors of one file: "model" becomes model.safetensors.
struct TensorGroup {
  std::string file;
  std::vector<TensorBytes> tensors;
};

struct Retention {
  std::int64_t last = 2;  // at least 1
  bool best = true;       // and the one with the highest score
};

struct CheckpointInfo {
  std::int64_t step = 0;
  std::filesystem::path path;
  std::optional<double> score;
  std::string problem;  // empty where the manifest and the sizes agree; load() checks all bytes
};

// A checkpoint whose every byte was checked. Its files are open: it can be read even if the writer
// deletes it meanwhile.
struct Loaded {
  std::int64_t step = 0;
  std::filesystem::path path;
  Value state;
  std::optional<double> score;
  std::vector<std::pair<std::string, weights::Reader>> groups;

  // Throws where there is no such group.
  [[nodiscard]] const weights::Reader& group(std::string_view name) const;
};

// Reads the checkpoints of a run that another process may be writing.
class CheckpointReader {
 public:
  explicit CheckpointReader(std::filesystem::path dir) : dir_(std::move(dir)) {}

  [[nodiscard]] const std::filesystem::path& dir() const { return dir_; }
  // By step, damaged ones too.
  [[nodiscard]] std::vector<CheckpointInfo> list() const;
  // Throws where it is missing, incomplete or altered.
  [[nodiscard]] Loaded load(std::int64_t step) const;
  // The newest complete checkpoint. `words` gets a line for each newer one that was skipped.
  [[nodiscard]] std::optional<Loaded> load_latest(std::vector<std::string>* words = nullptr) const;
  // The whole one with the highest score (the earliest of equals); nothing where none has a score. One whose score
  // cannot be read is skipped.
  [[nodiscard]] std::optional<Loaded> best(std::vector<std::string>* words = nullptr) const;

 private:
  std::filesystem::path dir_;
};

// The last or the best checkpoint of the run in folder `run`. `messages` gets a line for each damaged one that was
// skipped: callers show them, because the weights are then older ones. Throws where there is no whole checkpoint.
Loaded require_checkpoint(const std::filesystem::path& run, bool best,
                          std::vector<std::string>& messages,
                          const std::string& hint = "train it first: posenc train");
// The same; messages are shown with the progress.
Loaded require_checkpoint(const std::filesystem::path& run, bool best, Progress& progress);

// Reads and writes. The caller must hold the lock of the run.
class Checkpoints : public CheckpointReader {
 public:
  // Makes the folder and removes what killed writers left.
  explicit Checkpoints(std::filesystem::path dir, Retention retention = {});

  // A score is better when it is higher; one that is not finite counts as none. A checkpoint of this
  // step is replaced, and later ones are dropped: the run was taken up again before them.
  void save(std::int64_t step, std::span<const TensorGroup> groups, const Value& state,
            std::optional<double> score = {});

 private:
  void drop_old(std::int64_t newest) const;

  Retention retention_;
};

}  // namespace posenc::runs

#include "runs/unpack.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <list>
#include <map>

#include "runs/files.h"
#include "runs/run_directory.h"
#include "system/file_errors.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

Error in_the_way(const fs::path& target, const std::string& rule) {
  return file_error(ErrorKind::kConflict, target.string(), "", rule, "",
                    "nothing was unpacked; choose another folder with --to");
}

void require_not_stopped(const fs::path& to, const std::atomic<bool>* stop) {
  if (stop == nullptr || !*stop) return;
  throw file_error(ErrorKind::kConflict, to.string(), "", "interrupted", "",
                   "nothing was unpacked");
}

RunStatus status_of(const fs::path& run) { return RunDirectory::open(run, Access::kRead).status(); }

// Would unpacking give what is there: a finished run of this config, or one in the very same state?
bool is_same_run(const RunStatus& there, const RunStatus& packed) {
  if (there.config_hash != packed.config_hash) return false;
  return there.state == RunState::kFinished || there == packed;
}

// What a pack has and a reader of runs needs.
void require_whole(const fs::path& packed, const fs::path& target) {
  const char* name = "config.yaml";
  try {
    (void)parse_yaml(read_file((target / name).string()), name);
    name = "results.json";
    if (fs::exists(packed / name)) (void)read_json(target / name);
  } catch (const Error& e) {
    throw in_the_way(target,
                     fmt::format("holds the same run, but its {} is damaged: {}", name, e.rule()));
  }
}

// False where the name is free, true where the same run is there, an Error where something else is.
bool is_there(const fs::path& target, const fs::path& source) {
  const RunStatus packed = status_of(source);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) return false;
  if (!RunDirectory::exists(target)) throw in_the_way(target, "exists and is not a run");
  const RunStatus there = status_of(target);
  if (is_same_run(there, packed)) {
    require_whole(source, target);
    return true;
  }
  const bool same_config = there.config_hash == packed.config_hash;
  throw in_the_way(target, same_config ? "holds the same config in another state than the pack"
                                       : "holds a run of another config than the pack");
}

// A run inside another run is found by no reader.
void require_outside_runs(const fs::path& target, const fs::path& to) {
  for (fs::path folder = target.parent_path(); folder.string().size() >= to.string().size();
       folder = folder.parent_path()) {
    if (RunDirectory::exists(folder)) throw in_the_way(folder, "is a run itself");
    if (folder == folder.root_path()) break;
  }
}

struct Move {
  fs::path from;
  fs::path target;
};

// Renames, and takes back what it has done unless all of it was done.
class Moves {
 public:
  ~Moves() {
    if (kept_) return;
    for (const Move& move : done_) (void)::rename(move.target.c_str(), move.from.c_str());
  }
  Moves() = default;
  Moves(Moves&&) = delete;
  Moves& operator=(Moves&&) = delete;

  void make(const Move& move) {
    folders_.emplace_back(move.target.parent_path());
    if (::rename(move.from.c_str(), move.target.c_str()) != 0) {
      throw write_error(move.target.string(), errno);
    }
    done_.push_back(move);
  }
  void keep() {
    for (const Move& move : done_) sync_folder(move.target.parent_path().string());
    for (NewFolders& folder : folders_) folder.keep();
    kept_ = true;
  }

 private:
  std::list<NewFolders> folders_;
  std::vector<Move> done_;
  bool kept_ = false;
};

// What to move where; an Error where something is in the way of any run.
std::vector<Move> plan(const std::list<UnpackedPack>& packs, const fs::path& to,
                       Unpacked& unpacked) {
  std::map<std::string, RunStatus> taken;
  std::vector<Move> moves;
  for (const UnpackedPack& pack : packs) {
    for (const std::string& name : pack.runs()) {
      const Move move{pack.folder(name), to / name};
      const RunStatus status = status_of(move.from);
      require_outside_runs(move.target, to);
      const auto [first, fresh] = taken.emplace(name, status);
      if (!fresh && !is_same_run(first->second, status)) {
        throw in_the_way(pack.pack() / name, "is another run than that of a pack before it");
      }
      const bool there = !fresh || is_there(move.target, move.from);
      (there ? unpacked.skipped : unpacked.runs).push_back(name);
      if (!there) moves.push_back(move);
    }
  }
  return moves;
}

}  // namespace

Unpacked unpack_runs(const std::vector<fs::path>& packs, const fs::path& to,
                     std::int64_t most_bytes, const std::atomic<bool>* stop) {
  const fs::path folder = fs::absolute(to / ".").lexically_normal().parent_path();
  NewFolders made(folder);
  std::list<UnpackedPack> opened;
  for (const fs::path& pack : packs) {
    require_not_stopped(to, stop);
    opened.emplace_back(pack, folder / "unpack", most_bytes);
  }
  Unpacked unpacked;
  const std::vector<Move> planned = plan(opened, folder, unpacked);
  require_not_stopped(to, stop);
  Moves moves;  // goes before the packs: what it takes back goes into their folders
  for (const Move& move : planned) moves.make(move);
  moves.keep();
  made.keep();
  return unpacked;
}

}  // namespace posenc::runs

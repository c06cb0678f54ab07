// posenc runs: packs of run directories, and lists of what folders and packs hold.
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "posenc/core/error.h"
#include "runs/pack.h"
#include "runs/run_directory.h"
#include "runs/run_search.h"
#include "runs/unpack.h"
#include "system/stop_request.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

using Paths = std::vector<fs::path>;

struct PackWords {
  std::vector<std::string> folders;
  std::string out;
  runs::PackOptions options;
};
struct UnpackWords {
  std::vector<std::string> packs;
  std::string to;
};

Paths paths_of(const std::vector<std::string>& words) { return {words.begin(), words.end()}; }

std::string counted_runs(std::size_t count) {
  return fmt::format("{} run{}", count, count == 1 ? "" : "s");
}

// After a signal, nothing is put in place and the exit code is the signal's, whatever failed because of it.
template <class Work>
int run_unless_stopped(const Work& work) {
  const StopRequest stop;
  try {
    work(stop.flag());
    return kFine;
  } catch (const Error& e) {
    if (!stop.requested()) throw;
    print_error("posenc: {}", e.what());
    return stop.exit_code();
  }
}

void pack(const PackWords& words, const std::atomic<bool>* stop) {
  runs::PackOptions options = words.options;
  options.stop = stop;
  const runs::Packed packed = runs::pack_runs(paths_of(words.folders), words.out, options);
  for (const std::string& message : packed.messages) print_error("posenc: {}", message);
  print("{}: {}, {:.2f} MB ({:.2f} MB unpacked)\n", words.out,
        counted_runs(static_cast<std::size_t>(packed.runs)),
        static_cast<double>(packed.archive_bytes) * 1e-6, static_cast<double>(packed.bytes) * 1e-6);
}

void unpack(const UnpackWords& words, const std::atomic<bool>* stop) {
  const runs::Unpacked unpacked =
      runs::unpack_runs(paths_of(words.packs), words.to, runs::kLargestPack, stop);
  for (const std::string& name : unpacked.skipped) {
    print("{} is skipped: the same run is there already\n", (fs::path(words.to) / name).string());
  }
  print("{}: {} unpacked\n", words.to, counted_runs(unpacked.runs.size()));
}

int run_pack(const PackWords& words) {
  return run_unless_stopped([&](const std::atomic<bool>* stop) { pack(words, stop); });
}

int run_unpack(const UnpackWords& words) {
  return run_unless_stopped([&](const std::atomic<bool>* stop) { unpack(words, stop); });
}

void add_row(const fs::path& shown, const fs::path& folder, Table& table) {
  try {
    const runs::RunSummary run = runs::summarize_run(folder);
    table.add({shown.string(), run.encoding, run.seed ? std::to_string(*run.seed) : "-", run.state,
               std::to_string(run.step), std::to_string(run.bytes)});
  } catch (const Error& e) {
    table.add({shown.string(), "-", "-", fmt::format("cannot be read: {}", e.what()), "-", "-"});
  }
}

void add_pack(const fs::path& pack, Table& table) {
  const runs::UnpackedPack unpacked(pack);
  for (const std::string& name : unpacked.runs())
    add_row(pack / name, unpacked.folder(name), table);
}

int run_list(const std::vector<std::string>& given) {
  Table table({"run", "encoding", "seed", "state", "step", "bytes"});
  for (const fs::path& path : paths_of(given)) {
    if (!fs::is_directory(path)) {
      add_pack(path, table);
      continue;
    }
    for (const fs::path& found : runs::find_run_paths(path)) {
      if (runs::RunDirectory::exists(found)) {
        add_row(found, found, table);
      } else if (runs::may_be_pack(found)) {
        add_pack(found, table);
      }
    }
  }
  print_table(table);
  return kFine;
}

void add_pack_verb(CLI::App& runs, Action& chosen) {
  CLI::App* verb = runs.add_subcommand("pack", "Pack runs into one compact file, with checksums");
  auto words = std::make_shared<PackWords>();
  verb->add_option("DIR", words->folders, "runs, or folders with runs below them")->required();
  verb->add_option("-o,--out", words->out, "the pack: NAME.tar.zst, NAME.tar.gz or NAME.tar")
      ->required();
  verb->add_flag("--weights", words->options.weights,
                 "with the weights of the last checkpoint, for posenc eval");
  verb->add_option("--attention", words->options.attention,
                   "attention records to keep, of the shortest length")
      ->check(command::integer_in(0, 1000))
      ->capture_default_str();
  verb->add_option("--metrics", words->options.metrics, "rows of metrics.jsonl to keep")
      ->check(command::integer_in(0, std::int64_t{1} << 40))
      ->capture_default_str();
  verb->footer("Example:\n  posenc runs pack runs/demo -o demo.tar.zst\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_pack(*words); }; });
}

void add_unpack_verb(CLI::App& runs, Action& chosen) {
  CLI::App* verb = runs.add_subcommand("unpack", "Check packs and unpack their runs");
  auto words = std::make_shared<UnpackWords>();
  verb->add_option("FILE", words->packs, "packs")->required();
  verb->add_option("--to", words->to, "folder for the runs; made if need be")->required();
  verb->footer("Example:\n  posenc runs unpack demo.tar.zst --to runs/demo\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_unpack(*words); }; });
}

void add_list_verb(CLI::App& runs, Action& chosen) {
  CLI::App* verb = runs.add_subcommand("list", "List runs: encoding, seed, state, step, bytes");
  auto words = std::make_shared<std::vector<std::string>>();
  verb->add_option("DIR", *words, "runs, packs, or folders with either below them")->required();
  verb->footer("Example:\n  posenc runs list runs/demo demo.tar.zst\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_list(*words); }; });
}

}  // namespace

void add_runs(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("runs", "Pack, unpack and list run directories");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  posenc runs list runs/demo\n"
      "  posenc runs pack runs/demo -o demo.tar.zst\n");
  add_pack_verb(*verb, chosen);
  add_unpack_verb(*verb, chosen);
  add_list_verb(*verb, chosen);
}

}  // namespace posenc::cli

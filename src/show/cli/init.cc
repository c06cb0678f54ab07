// posenc init: a config to start from.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/print.h"
#include "cli/verbs.h"
#include "posenc/core/error.h"
#include "runs/files.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "experiment.yaml";

constexpr std::string_view kConfig =
    R"(# Trains a small transformer to copy symbols, then tests it on rows that are longer
# than those of training. An encoding that generalizes keeps its accuracy there.
# About a minute on one core.
#
#   posenc sample experiment.yaml                     what the task looks like
#   posenc train experiment.yaml --out runs/rope
#   posenc train experiment.yaml --set model.encoding=cope --out runs/cope
#   posenc compare runs                               both, side by side
#
# Every field can be changed for one run: --set train.steps=500
name: experiment
seed: 0                     # run three or more seeds before you trust a difference

task:
  selective_copy:           # "g . d . | g d": repeat the symbols, skip the blanks
    symbols: 16

model:
  encoding: rope            # any spec: rope + alibi, cope, none; posenc list shows all
  layers: 2
  dim: 64                   # width of the model
  heads: 2
  # window: 32              # keys that a query sees before itself (default: all)
  # preset: llama           # RMSNorm and SwiGLU; also gpt2, qwen2, qwen3, neox, cope

train:
  length: 48                # positions of a training row
  batch: 32
  steps: 1500
  lr: 2e-3
  # warmup: 0.1             # share of the steps
  # device: cuda            # default: cpu
  log_every: 50
  checkpoint_every: 500     # --resume continues from the last one

eval:
  samples: 512              # rows per condition
  conditions:
    - {axis: dense}         # fewer blanks than in training
    - {axis: sparse}        # more blanks
    - {axis: longer, length: 96}   # twice the trained length
)";

int run_init(const std::string& folder) {
  const fs::path path = fs::path(folder) / kFile;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    throw Error(ErrorKind::kConflict, {.scope = "init",
                                       .key = path.string(),
                                       .rule = "exists already",
                                       .value = "",
                                       .hint = "name another folder, or remove the file"});
  }
  NewFolders folders(fs::path(folder).empty() ? "." : folder);
  AtomicFile file(path.string(), false);
  file.write(kConfig);
  file.commit();
  folders.keep();
  const std::string shown = path.lexically_normal().string();
  print("{} is written: a small transformer learns to copy. Next:\n", shown);
  print("  posenc train {} --out runs/rope\n", shown);
  return kFine;
}

}  // namespace

void add_init(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("init", "Write a commented config to start from");
  auto folder = std::make_shared<std::string>(".");
  verb->add_option("DIR", *folder, "folder of experiment.yaml; made if need be (default: here)");
  verb->footer("Examples:\n  posenc init\n  posenc init study\n");
  verb->callback([&chosen, folder] { chosen = [folder] { return run_init(*folder); }; });
}

}  // namespace posenc::cli

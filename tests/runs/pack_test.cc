#include "runs/pack.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runs/pack_case.h"
#include "runs/run_search.h"
#include "runs/scores.h"
#include "runs/unpack.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using posenc::testing::error_of;
using posenc::testing::file_content;
using posenc::testing::PackedRun;
using posenc::testing::TemporaryFolder;
using posenc::testing::write_content;
using posenc::testing::write_packed_run;
using Names = std::vector<std::string>;

// Files below a folder, by name.
Names files_below(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(folder));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string refusal(const Names& folders, const std::string& pack,
                    const PackOptions& options = {}) {
  return error_of([&] { (void)pack_runs({folders.begin(), folders.end()}, pack, options); });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Pack, KeepsWhatIsEvidenceAndNothingElse) {
  const TemporaryFolder folder;
  write_packed_run(folder / "runs/a", {.extras = true});
  const Packed packed = pack_runs({folder / "runs"}, folder / "p.tar.zst");
  EXPECT_EQ(packed.runs, 1);
  EXPECT_EQ(packed.archive_bytes, static_cast<std::int64_t>(fs::file_size(folder / "p.tar.zst")));
  const UnpackedPack unpacked(folder / "p.tar.zst");
  EXPECT_EQ(unpacked.runs(), Names{"a"});
  EXPECT_EQ(unpacked.bytes(), packed.bytes);
  const fs::path run = unpacked.folder("a");
  EXPECT_EQ(files_below(run),
            (Names{"attention/train-T8-sample3.safetensors", "config.yaml", "environment.json",
                   "metrics.jsonl", "results.json", "status.json"}));
  for (const char* same : {"config.yaml", "results.json", "status.json"}) {
    EXPECT_EQ(file_content(run / same), file_content(folder / "runs/a/" + same)) << same;
  }
  EXPECT_EQ(read_metrics(run / "metrics.jsonl").size(), 200U);
  EXPECT_EQ(folder.files(), (Names{"p.tar.zst", "runs"}));
}

RunTallies scores_with_losses() {
  ConditionTallies condition;
  condition.name = "longer 64";
  for (auto& region : condition.regions) region = {{3, 4, 0.5F}, {4, 4, 0.25F}};
  return {.evaluation_hash = "e", .conditions = {condition}};
}

// Of a run whose results name the metric.
RunTallies packed_scores(const std::string& metric) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a");
  RunDirectory::open(folder / "a")
      .write_results(posenc::testing::map_of({{"metric", posenc::testing::text(metric)}}));
  write_scores(scores_path(folder / "a"), scores_with_losses());
  pack_runs({folder / "a"}, folder / "p.tar");
  return read_scores(scores_path(UnpackedPack(folder / "p.tar").folder("a")));
}

TEST(Pack, KeepsLossesOfRowsOnlyWhereTheMetricReadsThem) {
  EXPECT_EQ(packed_scores("bits_per_byte"), scores_with_losses());
  RunTallies without = scores_with_losses();
  for (auto& region : without.conditions[0].regions) {
    for (Tally& row : region) row.loss = 0.0F;
  }
  EXPECT_EQ(packed_scores("accuracy"), without);
  EXPECT_EQ(packed_scores("error"), without);
}

TEST(Pack, TakesAsMuchAsAskedFor) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a", {.extras = true});
  pack_runs({folder / "a"}, folder / "less.tar", {.attention = 0, .metrics = 0});
  EXPECT_EQ(files_below(UnpackedPack(folder / "less.tar").folder("a")),
            (Names{"config.yaml", "environment.json", "results.json", "status.json"}));
  pack_runs({folder / "a"}, folder / "more.tar.gz",
            {.weights = true, .attention = 9, .metrics = 7});
  const UnpackedPack more(folder / "more.tar.gz");
  EXPECT_EQ(read_metrics(more.folder("a") / "metrics.jsonl").size(), 7U);
  EXPECT_EQ(list_attention(more.folder("a")).size(), 1U) << "of the shortest length only";
}

TEST(Pack, WeightsAreACheckpointThatLoadsButCannotBeResumed) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a", {.extras = true});
  pack_runs({folder / "a"}, folder / "p.tar.zst", {.weights = true});
  const UnpackedPack unpacked(folder / "p.tar.zst");
  const auto loaded = CheckpointReader(unpacked.folder("a") / "checkpoints").load_latest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 500);
  EXPECT_EQ(loaded->score, 0.4);
  EXPECT_EQ(loaded->state, testing::step_state(500));
  EXPECT_EQ(loaded->group("model").tensors().size(), 1U);
  expect_part(error_of([&] { (void)loaded->group("optimizer"); }),
              "optimizer.safetensors is not in this checkpoint; runs from a pack can be evaluated");
  write_packed_run(folder / "b");
  expect_part(refusal({folder / "b"}, folder / "q.tar.zst", {.weights = true}),
              "has no checkpoint; pack it without --weights");
}

TEST(Pack, OlderWeightsThanTheLastAreSaid) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a", {.extras = true});
  EXPECT_EQ(pack_runs({folder / "a"}, folder / "whole.tar", {.weights = true}).messages,
            std::vector<std::string>{});
  write_content(folder / "a/checkpoints/step-00000500/model.safetensors", "short");
  const Packed packed = pack_runs({folder / "a"}, folder / "p.tar", {.weights = true});
  ASSERT_EQ(packed.messages.size(), 1U);
  expect_part(packed.messages[0], "checkpoint of step 500 is skipped: [");
  const UnpackedPack unpacked(folder / "p.tar");
  EXPECT_EQ(CheckpointReader(unpacked.folder("a") / "checkpoints").load_latest()->step, 400);
}

TEST(Pack, SameRunsGiveTheSameBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"runs/b", "runs/a", "runs/deep/c"}) {
    write_packed_run(folder / name, {.extras = true});
  }
  fs::copy(folder / "runs", folder / "copy",
           fs::copy_options::recursive);  // other times and inodes
  fs::permissions(folder / "copy/a/config.yaml", fs::perms::owner_read);
  for (const char* ending : {".tar", ".tar.gz", ".tar.zst"}) {
    const std::string first = folder / ("1" + std::string(ending));
    const std::string second = folder / ("2" + std::string(ending));
    pack_runs({folder / "runs"}, first);
    ::setenv("TAR_OPTIONS", "--format=pax", 1);
    pack_runs({folder / "copy"}, second);
    ::unsetenv("TAR_OPTIONS");
    EXPECT_EQ(file_content(first), file_content(second)) << ending;
    EXPECT_EQ(UnpackedPack(first).runs(), (Names{"a", "b", "deep/c"}));
  }
  EXPECT_LT(fs::file_size(folder / "1.tar.zst"), fs::file_size(folder / "1.tar") / 2);
}

TEST(Pack, LeavesOutPathsOfTheMachine) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a",
                   {.state = RunState::kFailed,
                    .command_line = {"train", "/home/ann/demo.yaml", "--out", "/home/ann/runs/a"},
                    .message = "[/home/ann/runs/a/metrics.jsonl] cannot be written"});
  pack_runs({folder / "a"}, folder / "p.tar");
  const UnpackedPack unpacked(folder / "p.tar");
  const auto run = RunDirectory::open(unpacked.folder("a"), Access::kRead);
  EXPECT_EQ(to_json(*run.environment().find("command_line")),
            R"(["train","demo.yaml","--out","a"])");
  EXPECT_EQ(run.status().message, "[metrics.jsonl] cannot be written");
  EXPECT_EQ(run.status().state, RunState::kFailed);
  EXPECT_EQ(file_content(folder / "p.tar").find("/home/ann"), std::string::npos);
}

TEST(Pack, RefusesBeforeItWrites) {
  const TemporaryFolder folder;
  write_packed_run(folder / "runs/a");
  fs::create_directories(folder / "empty");
  write_packed_run(folder / "more/a", {.config_hash = "b2"});
  const std::string pack = folder / "p.tar.zst";
  expect_part(refusal({folder / "nowhere"}, pack), "is not a folder");
  expect_part(refusal({folder / "empty"}, pack), "holds no runs");
  expect_part(refusal({folder / "runs", folder / "more"}, pack), "has the same name as");
  expect_part(refusal({folder / "runs"}, folder / "p.zip"), "does not end in .tar.zst");
  expect_part(refusal({folder / "runs"}, folder / "empty"), "is a folder");
  expect_part(refusal({folder / "runs"}, folder / "nowhere/p.tar"), "cannot be written");
  const std::string name(240, 'n');
  write_packed_run(folder / "long/" + name);
  expect_part(refusal({folder / "long"}, pack), "which an archive cannot hold");
  const auto writer = RunDirectory::open(folder / "runs/a");
  expect_part(refusal({folder / "runs"}, pack), "is being written to by a process");
  EXPECT_EQ(folder.files(), (Names{"empty", "long", "more", "runs"}));
}

TEST(Pack, GivenTwiceARunIsPackedOnce) {
  const TemporaryFolder folder;
  write_packed_run(folder / "runs/a");
  EXPECT_EQ(pack_runs({folder / "runs", folder / "runs/a", folder / "runs"}, folder / "p.tar").runs,
            1);
}

TEST(Pack, AFailureLeavesTheOldPack) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a", {.extras = true});
  write_content(folder / "p.tar.zst", "old");
  write_content(folder / "a/attention/train-T8-sample3.safetensors", "torn");
  EXPECT_NE(refusal({folder / "a"}, folder / "p.tar.zst"), "");
  const std::atomic<bool> stop = true;
  expect_part(refusal({folder / "a"}, folder / "p.tar.zst", {.stop = &stop}), "interrupted");
  EXPECT_EQ(file_content(folder / "p.tar.zst"), "old");
  EXPECT_EQ(folder.files(), (Names{"a", "p.tar.zst"}));
}

TEST(Pack, SaysWhenZstdIsMissing) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a");
  fs::create_directories(folder / "bin");
  for (const char* tool : {"tar", "gzip", "sh"}) {
    fs::create_symlink(fs::exists(fs::path("/usr/bin") / tool) ? fs::path("/usr/bin") / tool
                                                               : fs::path("/bin") / tool,
                       folder / "bin/" + tool);
  }
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder / "bin").c_str(), 1);
  const std::string zstd = refusal({folder / "a"}, folder / "p.tar.zst");
  const std::string gzip = refusal({folder / "a"}, folder / "p.tar.gz");
  ::setenv("PATH", path.c_str(), 1);
  expect_part(zstd, "needs the program zstd, which could not be started");
  expect_part(zstd, "install zstd, or use packs that end in .tar.gz");
  EXPECT_EQ(gzip, "");
}

TEST(Pack, RemovesWhatAKilledOneLeft) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a");
  fs::create_directories(folder / "p.tar.tmp-0123abcd/files/a");
  write_content(folder / "p.tar.tmp-0123abcd/files/a/status.json", "{}");
  EXPECT_EQ(find_run_paths(folder.path()), std::vector<fs::path>{folder / "a"}) << "no temporaries";
  pack_runs({folder / "a"}, folder / "p.tar");
  EXPECT_EQ(folder.files(), (Names{"a", "p.tar"}));
}

TEST(RunSearch, SummarizesRuns) {
  const TemporaryFolder folder;
  write_packed_run(folder / "a", {.encoding = "[rope, alibi]", .state = RunState::kRunning});
  const RunSummary run = summarize_run(folder / "a");
  EXPECT_EQ(run.encoding, "rope | alibi");
  EXPECT_EQ(run.seed, 7);
  EXPECT_EQ(run.state, "killed");
  EXPECT_EQ(run.step, 500);
  EXPECT_GT(run.bytes, 100);
}

}  // namespace
}  // namespace posenc::runs

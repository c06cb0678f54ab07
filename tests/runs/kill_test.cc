// Runs that are killed at any moment, and disks that end.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runs/events.h"
#include "runs/files.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "runs/saved_steps.h"

namespace posenc::runs {
namespace {

using posenc::testing::Child;
using posenc::testing::error_of;
using posenc::testing::expect_step;
using posenc::testing::map_of;
using posenc::testing::number;
using posenc::testing::save_step;
using posenc::testing::steps_of;
using posenc::testing::TemporaryFolder;
using posenc::testing::text;
using posenc::testing::whole;

Value row(std::int64_t step) {
  return map_of({{"kind", text("train")},
                 {"step", whole(step)},
                 {"loss", number(1.0 / (1.0 + double(step)))}});
}

constexpr std::size_t kCount = 20'000;  // large enough to be killed in the middle of it

// What training does with files, without training: a row and a status per step, a checkpoint every
// third. Says each step that it saved.
void go_on(const std::string& path, const Child::Say& say) {
  const RunDirectory run = RunDirectory::open(path);
  Checkpoints checkpoints(run.checkpoints_path());
  std::vector<std::string> words;
  const auto loaded = checkpoints.load_latest(&words);
  for (const std::string& word : words) say("damaged " + word);
  std::int64_t step = loaded ? loaded->step : 0;
  MetricsWriter metrics(run.metrics_path());
  metrics.truncate_after(step);
  EventWriter events(run.path(), step);
  for (;;) {
    metrics.append(row(++step));
    events.scalar("loss", step, 1.0);
    if (step % 3 != 0) continue;
    run.set_status({RunState::kRunning, step, "", "h"});
    save_step(checkpoints, step, 0.5, kCount);
    say(std::to_string(step));
  }
}

// The last step that a child said it had saved.
std::int64_t last_said(const std::string& lines, std::int64_t before) {
  if (lines.size() < 2) return before;
  const std::size_t at = lines.rfind('\n', lines.size() - 2);
  return std::stoll(lines.substr(at == std::string::npos ? 0 : at + 1));
}

void expect_rows(const RunDirectory& run, std::int64_t at_least) {
  std::int64_t want = 0;
  for (const Value& r : read_metrics(run.metrics_path())) EXPECT_EQ(r, row(++want));
  EXPECT_GE(want, at_least);
}

TEST(Kill, NothingIsLostButTheStepsSinceTheLastSave) {
  const TemporaryFolder folder;
  (void)RunDirectory::create(folder / "r", {"", "h", {}});
  Rng rng(20);
  std::int64_t saved = 0;
  int found_temporaries = 0;
  for (int round = 0; round < 20; ++round) {
    Child child([&](const Child::Say& say) { go_on(folder / "r", say); });
    const std::string first = child.line();
    ASSERT_FALSE(first.empty());
    ASSERT_EQ(first.find_first_not_of("0123456789"), std::string::npos) << first;
    std::this_thread::sleep_for(std::chrono::microseconds(rng.integer(0, 30'000)));
    child.kill();
    saved = last_said(first + "\n" + child.rest(), saved);

    const RunDirectory run = RunDirectory::open(folder / "r", Access::kRead);
    EXPECT_FALSE(run.in_use());
    EXPECT_LE(run.status().step, saved + 3);
    const CheckpointReader checkpoints(run.checkpoints_path());
    for (const CheckpointInfo& info : checkpoints.list()) EXPECT_EQ(info.problem, "");
    for (const std::string& name : names_in(run.checkpoints_path())) {
      found_temporaries += is_temporary(name) ? 1 : 0;
    }
    std::vector<std::string> words;
    const auto loaded = checkpoints.load_latest(&words);
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(words.empty()) << words.front();
    EXPECT_GE(loaded->step, saved);
    EXPECT_LE(loaded->step, saved + 3);
    expect_step(*loaded, loaded->step, kCount);
    expect_rows(run, loaded->step);
    saved = loaded->step;
  }
  // The moments were such that something was in the making.
  EXPECT_GT(found_temporaries, 0);
  const RunDirectory run = RunDirectory::open(folder / "r");
  const Checkpoints checkpoints(run.checkpoints_path());
  for (const std::string& name : names_in(run.path())) EXPECT_FALSE(is_temporary(name)) << name;
  for (const std::string& name : names_in(checkpoints.dir())) EXPECT_FALSE(is_temporary(name));
  EXPECT_LE(steps_of(checkpoints).size(), 4U) << "two last, the best, and one not yet dropped";
}

// A real file system of 256 KiB.
TEST(Disk, AFullFileSystemLeavesTheRunAsItWas) {
  const TemporaryFolder folder;
  Child child([&](const Child::Say& say) {
    if (!posenc::testing::mount_tmpfs(folder.path(), "size=256k")) return say("skip");
    const RunDirectory run = RunDirectory::create(folder / "r", {"config", "h", {}});
    Checkpoints checkpoints(run.checkpoints_path());
    save_step(checkpoints, 1);
    save_step(checkpoints, 2);
    say(error_of([&] { save_step(checkpoints, 3, {}, 20'000); }));
    std::string names;
    for (const std::string& name : names_in(checkpoints.dir())) names += name + " ";
    say(names);
    MetricsWriter metrics(run.metrics_path());
    std::string full;
    for (std::int64_t step = 1; full.empty(); ++step)
      full = error_of([&] { metrics.append(row(step)); });
    say(full);
    std::string torn;
    say(read_metrics(run.metrics_path(), &torn).size() > 1000 && torn.empty() ? "rows" : "torn");
    say(error_of([&] { run.set_status({RunState::kFailed, 2, std::string(8000, 'x'), "h"}); }));
    say(run.status().state == RunState::kRunning ? "old status" : "no status");
    say(checkpoints.load_latest()->step == 2 ? "loads" : "does not load");
  });
  const std::string first = child.line();
  if (first == "skip") GTEST_SKIP() << "this system lets nobody mount a file system of his own";
  const std::string room =
      "cannot be written: No space left on device; make room; what was there is untouched";
  EXPECT_EQ(first,
            "[" + folder.path() + "/r/checkpoints/step-00000003/optimizer.safetensors] " + room);
  EXPECT_EQ(child.line(), "step-00000001 step-00000002 ");
  EXPECT_EQ(child.line(), "[" + folder.path() + "/r/metrics.jsonl] " + room);
  EXPECT_EQ(child.line(), "rows");
  EXPECT_EQ(child.line(), "[" + folder.path() + "/r/status.json] " + room);
  EXPECT_EQ(child.line(), "old status");
  EXPECT_EQ(child.line(), "loads");
  EXPECT_EQ(child.wait(), 0);
}

TEST(Disk, AReadOnlyFileSystemCanBeReadAndNotWritten) {
  const TemporaryFolder folder;
  Child child([&](const Child::Say& say) {
    if (!posenc::testing::mount_tmpfs(folder.path(), "size=256k")) return say("skip");
    {
      const RunDirectory run = RunDirectory::create(folder / "r", {"config", "h", {}});
      Checkpoints checkpoints(run.checkpoints_path());
      save_step(checkpoints, 1);
    }
    if (!posenc::testing::make_read_only(folder.path())) return say("skip");
    say(error_of([&] { (void)RunDirectory::create(folder / "s", {}); }));
    say(error_of([&] { (void)RunDirectory::open(folder / "r"); }));
    Checkpoints checkpoints(folder / "r/checkpoints");
    say(error_of([&] { save_step(checkpoints, 2); }));
    const RunDirectory run = RunDirectory::open(folder / "r", Access::kRead);
    say(run.in_use() ? "in use" : run.config());
    say(checkpoints.load_latest()->step == 1 ? "loads" : "does not load");
  });
  const std::string first = child.line();
  if (first == "skip") GTEST_SKIP() << "this system lets nobody mount a file system of his own";
  const std::string why =
      "] cannot be written: Read-only file system; choose a folder on a file system that can be "
      "written";
  EXPECT_EQ(first, "[" + folder.path() + "/s" + why);
  EXPECT_EQ(child.line(), "[" + folder.path() + "/r/.lock" + why);
  EXPECT_EQ(child.line(), "[" + folder.path() + "/r/checkpoints/step-00000002" + why);
  EXPECT_EQ(child.line(), "config");
  EXPECT_EQ(child.line(), "loads");
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace posenc::runs

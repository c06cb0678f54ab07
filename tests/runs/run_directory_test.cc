#include "runs/run_directory.h"

#include <gtest/gtest.h>

#include <limits>

#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::Child;
using posenc::testing::error_of;
using posenc::testing::file_content;
using posenc::testing::map_of;
using posenc::testing::number;
using posenc::testing::TemporaryFolder;
using posenc::testing::text;
using posenc::testing::write_content;

NewRun some_run() { return {"model:\n  layers: 2\n", "0123abcd", map_of({{"seed", number(7)}})}; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RunDirectory, BeginsWithConfigEnvironmentAndStatus) {
  const TemporaryFolder folder;
  const std::string path = folder / "runs/one/";
  EXPECT_FALSE(RunDirectory::exists(path));
  const RunDirectory run = RunDirectory::create(path, some_run());
  EXPECT_TRUE(RunDirectory::exists(path));
  EXPECT_EQ(run.config(), "model:\n  layers: 2\n");
  EXPECT_EQ(file_content(run.environment_path()), "{\"seed\":7}\n");
  EXPECT_EQ(file_content(run.status_path()),
            "{\"state\":\"running\",\"step\":0,\"message\":\"\",\"config_hash\":\"0123abcd\"}\n");
  EXPECT_EQ(run.status(), (RunStatus{RunState::kRunning, 0, "", "0123abcd"}));
  EXPECT_FALSE(run.results());
}

TEST(RunDirectory, StatusAndResultsAreReplaced) {
  const TemporaryFolder folder;
  const RunDirectory run = RunDirectory::create(folder / "r", some_run());
  const RunStatus status{RunState::kDiverged, 120, "loss is nan at step 120", "0123abcd"};
  run.set_status(status);
  EXPECT_EQ(run.status(), status);
  run.write_results(map_of(
      {{"accuracy", number(0.5)}, {"loss", number(std::numeric_limits<double>::infinity())}}));
  const RunDirectory reader = RunDirectory::open(folder / "r", Access::kRead);
  EXPECT_EQ(*reader.results()->find("loss")->get_if<double>(),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(reader.status(), status);
  EXPECT_TRUE(contains(error_of([&] { reader.set_status(status); }), "was opened to read"));
}

TEST(RunDirectory, ADamagedStatusIsAnErrorWithItsPath) {
  const TemporaryFolder folder;
  const RunDirectory run = RunDirectory::create(folder / "r", some_run());
  write_content(run.status_path(), "{\"state\":\"runing\",\"step\":1}");
  EXPECT_TRUE(contains(error_of([&] { (void)run.status(); }), "did you mean 'running'?"));
  write_content(run.status_path(), "{\"state\"");
  EXPECT_TRUE(contains(error_of([&] { (void)run.status(); }), run.status_path().string()));
}

TEST(RunDirectory, RefusesAFolderThatHoldsSomething) {
  const TemporaryFolder folder;
  (void)RunDirectory::create(folder / "r", some_run());
  EXPECT_EQ(error_of([&] { (void)RunDirectory::create(folder / "r", some_run()); }),
            "[" + folder.path() + "/r] holds a run already; resume it, or choose another folder");
  std::filesystem::create_directory(folder / "home");
  write_content(folder / "home/thesis.tex", "precious");
  EXPECT_EQ(error_of([&] { (void)RunDirectory::create(folder / "home", some_run()); }),
            "[" + folder.path() +
                "/home] has other files, such as 'thesis.tex'; choose a new or empty folder");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "home"), {}), 1);
  write_content(folder / "file", "");
  EXPECT_TRUE(contains(error_of([&] { (void)RunDirectory::create(folder / "file", some_run()); }),
                       "Not a directory"));
  EXPECT_EQ(error_of([&] { (void)RunDirectory::open(folder / "none"); }),
            "[" + folder.path() + "/none] is not a run: it has no status.json; check the path");
}

// Killed between the first file and the status: the folder is still free.
TEST(RunDirectory, TakesOverWhatAKilledCreatorLeft) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "r");
  write_content(folder / "r/.lock", "4242\n");
  write_content(folder / "r/config.yaml", "old");
  write_content(folder / "r/environment.json.tmp-00c0ffee", "{");
  const RunDirectory run = RunDirectory::create(folder / "r", some_run());
  EXPECT_EQ(run.config(), "model:\n  layers: 2\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "r/environment.json.tmp-00c0ffee"));
}

TEST(RunDirectory, OpeningToWriteRemovesTemporariesAndOpeningToReadDoesNot) {
  const TemporaryFolder folder;
  (void)RunDirectory::create(folder / "r", some_run());
  write_content(folder / "r/status.json.tmp-00c0ffee", "{");
  write_content(folder / "r/notes.tmp-today", "mine");
  (void)RunDirectory::open(folder / "r", Access::kRead);
  EXPECT_TRUE(std::filesystem::exists(folder / "r/status.json.tmp-00c0ffee"));
  (void)RunDirectory::open(folder / "r");
  EXPECT_FALSE(std::filesystem::exists(folder / "r/status.json.tmp-00c0ffee"));
  EXPECT_TRUE(std::filesystem::exists(folder / "r/notes.tmp-today"));
}

TEST(RunDirectory, ASecondWriterIsRefusedUntilTheFirstIsGone) {
  const TemporaryFolder folder;
  Child writer([&](const Child::Say& say) {
    const RunDirectory run = RunDirectory::create(folder / "r", some_run());
    say("ready");
    ::pause();
  });
  ASSERT_EQ(writer.line(), "ready");
  const std::string refusal = "[" + folder.path() + "/r] process " + std::to_string(writer.id()) +
                              " writes to this run; wait for it, stop it, or choose another folder";
  EXPECT_EQ(error_of([&] { (void)RunDirectory::open(folder / "r"); }), refusal);
  const RunDirectory reader = RunDirectory::open(folder / "r", Access::kRead);
  EXPECT_TRUE(reader.in_use());
  EXPECT_EQ(reader.status().state, RunState::kRunning);
  writer.kill();
  EXPECT_FALSE(reader.in_use()) << "a status of running, and nobody there: killed";
  const RunDirectory next = RunDirectory::open(folder / "r");
  EXPECT_TRUE(next.in_use());
  EXPECT_TRUE(
      contains(error_of([&] { (void)RunDirectory::open(folder / "r"); }), "writes to this run"))
      << "within one process too";
}

TEST(RunDirectory, AskingWhetherItIsInUseDoesNotKeepAWriterOut) {
  const TemporaryFolder folder;
  (void)RunDirectory::create(folder / "r", some_run());
  Child asker([&](const Child::Say& say) {
    const RunDirectory run = RunDirectory::open(folder / "r", Access::kRead);
    say("asking");
    for (;;) (void)run.in_use();
  });
  ASSERT_EQ(asker.line(), "asking");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(error_of([&] { (void)RunDirectory::open(folder / "r"); }), "");
}

TEST(RunDirectory, AReadOnlyFolderIsRefusedInOneLine) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "fixed");
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder / "fixed").c_str(), 0555);
  Child child([&](const Child::Say& say) {
    if (!posenc::testing::drop_rights()) return say("cannot drop rights");
    say(error_of([&] { (void)RunDirectory::create(folder / "fixed/deep/run", some_run()); }));
    say(error_of([&] { (void)RunDirectory::create(folder / "fixed", some_run()); }));
  });
  const std::string hint =
      "cannot be written: Permission denied; check the path and its permissions";
  EXPECT_EQ(child.line(), "[" + folder.path() + "/fixed/deep/run] " + hint);
  EXPECT_EQ(child.line(), "[" + folder.path() + "/fixed/.lock] " + hint);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "fixed"));
  ::chmod((folder / "fixed").c_str(), 0755);
}

// The config does not fit: neither folder nor file remains.
TEST(RunDirectory, AFullDiskLeavesNoHalfRun) {
  const TemporaryFolder folder;
  NewRun large = some_run();
  large.environment = map_of({{"words", text(std::string(10'000, 'x'))}});
  std::string message;
  {
    const posenc::testing::SmallDisk disk(4000);
    message = error_of([&] { (void)RunDirectory::create(folder / "a/b/run", large); });
  }
  EXPECT_EQ(message, "[" + folder.path() +
                         "/a/b/run/environment.json] cannot be written: File too large; make room; "
                         "what was there is untouched");
  EXPECT_TRUE(folder.files().empty());
}

}  // namespace
}  // namespace posenc::runs

// FIFOs and directories in place of files: every verb says so at once. Before, each of these waited for a
// writer for ever; timeout makes that exit code 124.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/run_cli.h"
#include "report/run_case.h"

namespace posenc::testing {
namespace {

Result run_in_time(const std::string& arguments) { return run(arguments, "timeout -k 5 60 "); }

class SpecialFiles : public ::testing::Test {
 protected:
  SpecialFiles() {
    write_run(folder_ / "runs/a", {.rows = {{"longer", 2, 0.5, 0.4, 0.6, ""}}});
    write_run(folder_ / "runs/b", {.seed = 1, .rows = {{"longer", 2, 0.5, 0.4, 0.6, ""}}});
    write_content(folder_ / "runs/a/metrics.jsonl", "");
  }
  void put_fifo(const std::string& name) const {
    std::filesystem::remove(folder_ / name);
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
  }
  // Exit 2 with one line that names the FIFO.
  void expect_refused(const std::string& arguments) const {
    const Result result = run_in_time(arguments);
    EXPECT_EQ(result.code, 2) << arguments << "\n" << result.out;
    EXPECT_NE(result.out.find("is a FIFO, not a regular file"), std::string::npos) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  }
  TemporaryFolder folder_;
};

TEST_F(SpecialFiles, AsConfigsSpecsCorporaAndCheckpoints) {
  put_fifo("fifo");
  const std::string fifo = folder_ / "fifo";
  expect_refused("inspect --head-dim 8 --encoding @" + fifo);
  expect_refused("inspect --hf " + fifo);
  expect_refused("sample " + fifo);
  expect_refused("sweep " + fifo);
  expect_refused("convert " + fifo + " -o " + (folder_ / "out.safetensors") +
                 " --layout interleaved --head-dim 8");
  write_content(folder_ / "text.yaml", "task: {language_model: {path: " + fifo + "}}\n");
  expect_refused("sample " + (folder_ / "text.yaml"));
}

TEST_F(SpecialFiles, AsOutputsAreRefusedAndStay) {
  for (const std::string name : {"out.svg", "out.html", "out.tar"}) put_fifo(name);
  const std::string runs = folder_ / "runs";
  write_content(folder_ / "text.txt", "one two three");
  expect_refused("plot decay -o " + (folder_ / "out.svg"));
  expect_refused("report " + runs + " -o " + (folder_ / "out.html"));
  expect_refused("runs pack " + runs + " -o " + (folder_ / "out.tar"));
  expect_refused("data tokenizer train " + (folder_ / "text.txt") + " -o " + (folder_ / "out.svg"));
  for (const std::string name : {"out.svg", "out.html", "out.tar"}) {
    EXPECT_TRUE(std::filesystem::is_fifo(folder_ / name)) << name;
  }
}

TEST_F(SpecialFiles, OutputsAreWrittenThroughLinks) {
  std::filesystem::create_symlink("drawn.svg", folder_ / "link.svg");
  ASSERT_EQ(run_in_time("plot decay -o " + (folder_ / "link.svg")).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.svg"));
  EXPECT_EQ(file_content(folder_ / "drawn.svg").find("<svg"), 0U);
  std::filesystem::create_symlink("packed.tar", folder_ / "link.tar");
  const Result packed =
      run_in_time("runs pack " + (folder_ / "runs/b") + " -o " + (folder_ / "link.tar"));
  ASSERT_EQ(packed.code, 0) << packed.out;
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "packed.tar"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.tar"));
}

TEST_F(SpecialFiles, InRunsAreARemarkOfCompareAndReport) {
  for (const std::string name :
       {"status.json", "config.yaml", "environment.json", "results.json"}) {
    write_run(folder_ / ("other/run_" + name), {.rows = {{"longer", 2, 0.5, 0.4, 0.6, ""}}});
    put_fifo("other/run_" + name + "/" + name);
  }
  const std::string folders = (folder_ / "runs") + " " + (folder_ / "other");
  const Result compared = run_in_time("compare " + folders);
  EXPECT_EQ(compared.code, 0) << compared.out;
  const Result report = run_in_time("report " + folders + " -o " + (folder_ / "report.html"));
  EXPECT_EQ(report.code, 0) << report.out;
  const std::string page = file_content(folder_ / "report.html");
  for (const std::string name :
       {"status.json", "config.yaml", "environment.json", "results.json"}) {
    EXPECT_NE(page.find(name + "] is a FIFO, not a regular file"), std::string::npos) << name;
  }
}

TEST_F(SpecialFiles, InPlaceOfTheLockOfARunThatSeemsToRun) {
  write_run(folder_ / "runs/c", {}, runs::RunState::kRunning);
  put_fifo("runs/c/.lock");
  const Result compared = run_in_time("compare " + (folder_ / "runs"));
  EXPECT_EQ(compared.code, 0) << compared.out;
}

TEST_F(SpecialFiles, InPlaceOfMetricsInAReport) {
  put_fifo("runs/a/metrics.jsonl");
  const Result report =
      run_in_time("report " + (folder_ / "runs") + " -o " + (folder_ / "report.html"));
  EXPECT_EQ(report.code, 0) << report.out;
}

TEST_F(SpecialFiles, InPlaceOfALogOfASweep) {
  write_content(folder_ / "base.yaml", "task: parity\n");
  write_content(folder_ / "sweep.yaml",
                "base: base.yaml\nout: " + (folder_ / "out") + "\ngrid: {seed: [0]}\n");
  const Result planned = run_in_time("sweep " + (folder_ / "sweep.yaml") + " --trainer /bin/true");
  ASSERT_EQ(planned.code, 1) << planned.out;  // no run was made
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out/logs")) {
    std::filesystem::remove(entry.path());
    ASSERT_EQ(::mkfifo(entry.path().c_str(), 0600), 0);
  }
  const Result result = run_in_time("sweep " + (folder_ / "sweep.yaml") + " --trainer /bin/true");
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_NE(result.out.find("is a FIFO, not a regular file"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace posenc::testing

// posenc reproduce on a page with made-up runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/run_cli.h"
#include "report/page_case.h"

namespace posenc::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage =
    "# Tiny\n\n<!-- generated: results main -->\n<!-- end generated -->\n\nBy hand.\n\n"
    "<!-- generated: picture main -->\n<!-- end generated -->\n";

// Copies a prepared run to where a sweep wants it: "seed0-rope-1a2b3c4d" from "seed0-rope".
constexpr const char* kTrainer = R"sh(#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = --out ] && out=$2
  shift
done
name=$(basename "$out")
cp -r "$(dirname "$0")/prepared/${name%-*}" "$out"
)sh";

// The root of a checkout with one page: two encodings, three seeds each.
class Reproduce : public ::testing::Test {
 protected:
  Reproduce() {
    for (const char* name : {"configs/evidence", "docs/evidence/tiny"}) {
      fs::create_directories(folder_ / name);
    }
    write_content(folder_ / "configs/base.yaml",
                  "task: selective_counting\nmodel: {layers: 2}\ntrain: {steps: 100}\n"
                  "eval: {factors: [1, 2], samples: 40}\n");
    write_content(folder_ / "configs/evidence/tiny.yaml",
                  "question: Does it work?\nbase: ../base.yaml\nparts:\n  main:\n    about: two\n"
                  "    grid: {seed: [0, 1, 2], model.encoding: [none, rope]}\n"
                  "published:\n  - {source: A paper, part: main, metric: accuracy, rows: "
                  "[{name: RoPE, encoding: rope, values: {longer@64: 77}}]}\n");
    write_content(folder_ / "docs/evidence/tiny.md", kPage);
    write_runs("docs/evidence/tiny/main", 0.5);
  }
  void write_runs(const std::string& where, double at_two) const {
    for (const std::string encoding : {"none", "rope"}) {
      for (int seed = 0; seed < 3; ++seed) {
        write_run(folder_ / fmt::format("{}/seed{}-{}", where, seed, encoding),
                  {.encoding = encoding,
                   .seed = seed,
                   .rows = {{"train", 1, 0.9 + 0.01 * seed, 0.88, 0.95},
                            {"longer", 2, at_two, at_two - 0.02, at_two + 0.02}}});
      }
    }
  }
  [[nodiscard]] Result call(const std::string& words) const {
    return testing::run("reproduce " + words + " --root " + folder_.path());
  }
  // A changed digit of the page's first figure.
  void change_page() const {
    std::string page = file_content(folder_ / "docs/evidence/tiny.md");
    page.replace(page.find("91.0 ["), 4, "91.1");
    write_content(folder_ / "docs/evidence/tiny.md", page);
  }

  TemporaryFolder folder_;
};

TEST_F(Reproduce, WritesAPageThatThenAgreesWithItsRuns) {
  EXPECT_EQ(call("tiny --check").code, 1) << "its blocks are empty";
  const Result written = call("tiny --page");
  EXPECT_EQ(written.code, 0) << written.out;
  const std::string page = file_content(folder_ / "docs/evidence/tiny.md");
  EXPECT_NE(page.find("| rope | 3 | 91.0 ["), std::string::npos) << page;
  EXPECT_NE(page.find("\nBy hand.\n"), std::string::npos);
  EXPECT_NE(page.find("(tiny/main.svg)"), std::string::npos);
  EXPECT_EQ(file_content(folder_ / "docs/evidence/tiny/main.svg").rfind("<svg", 0), 0U);
  const Result checked = call("tiny --check");
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_NE(checked.out.find("tiny, part main: 6 of 6 jobs have runs"), std::string::npos);
  EXPECT_NE(call("tiny --page").out.find("tiny.md: unchanged"), std::string::npos);
}

TEST_F(Reproduce, FindsAChangedDigitOrPicture) {
  ASSERT_EQ(call("tiny --page").code, 0);
  change_page();
  const Result digit = call("tiny --check");
  EXPECT_EQ(digit.code, 1);
  EXPECT_NE(digit.out.find("tiny.md: block results main: line "), std::string::npos) << digit.out;
  EXPECT_NE(digit.out.find("91.1"), std::string::npos) << digit.out;
  ASSERT_EQ(call("tiny --page").code, 0);
  const std::string picture = folder_ / "docs/evidence/tiny/main.svg";
  write_content(picture, file_content(picture) + "<!-- -->\n");
  const Result drawn = call("tiny --check");
  EXPECT_EQ(drawn.code, 1);
  EXPECT_NE(drawn.out.find("main.svg: line "), std::string::npos) << drawn.out;
}

TEST_F(Reproduce, RefusesRunsThatAreNoJobsAndWritesNothing) {
  write_run(folder_ / "docs/evidence/tiny/main/deep",
            {.layers = 5, .rows = {{"train", 1, 0.9, 0.8, 1.0}, {"longer", 2, 0.5, 0.4, 0.6}}});
  for (const char* words : {"tiny --check", "tiny --page"}) {
    const Result result = call(words);
    EXPECT_EQ(result.code, 1) << words;
    EXPECT_NE(result.out.find("deep is not a job of the sweep"), std::string::npos) << result.out;
  }
  EXPECT_EQ(file_content(folder_ / "docs/evidence/tiny.md"), kPage);
  EXPECT_FALSE(fs::exists(folder_ / "docs/evidence/tiny/main.svg"));
}

TEST_F(Reproduce, SaysWhichBlockIsMissing) {
  write_content(folder_ / "docs/evidence/tiny.md", "# Tiny\n");
  const Result result = call("tiny --check");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.out.find("tiny.md: has no block results main"), std::string::npos) << result.out;
}

TEST_F(Reproduce, RunsTheSweepAndComparesWithTheCommittedRuns) {
  write_runs("prepared", 0.8);
  write_content(folder_ / "trainer", kTrainer);
  fs::permissions(folder_ / "trainer", fs::perms::owner_all);
  const Result result =
      call("tiny --jobs 2 --device cuda --minutes 5 --trainer " + (folder_ / "trainer"));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("6 jobs in "), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(folder_ / "runs/evidence/tiny/main/sweep.json"));
  EXPECT_NE(result.out.find("agrees within the intervals"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("differs by 30.0 points"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("77 / 80.0 ["), std::string::npos) << result.out;
}

TEST_F(Reproduce, EndsWithTheTimeBox) {
  write_content(folder_ / "trainer", "#!/bin/sh\nexec sleep 60\n");
  fs::permissions(folder_ / "trainer", fs::perms::owner_all);
  const Result result = call("tiny --minutes 0.1 --trainer " + (folder_ / "trainer"));
  EXPECT_EQ(result.code, 75) << result.out;
  EXPECT_NE(result.out.find("1 stopped, 5 not started"), std::string::npos) << result.out;
}

// A page with two parts, and what becomes of them: the exit code, and whether the second was begun.
class TwoParts : public Reproduce {
 protected:
  TwoParts() {
    std::string page = file_content(folder_ / "configs/evidence/tiny.yaml");
    page.insert(page.find("published:"), "  second:\n    about: more\n    grid: {seed: [3, 4]}\n");
    write_content(folder_ / "configs/evidence/tiny.yaml", page);
  }
  void expect(const std::string& trainer, int code, bool second) const {
    write_content(folder_ / "trainer", "#!/bin/sh\n" + trainer + "\n");
    fs::permissions(folder_ / "trainer", fs::perms::owner_all);
    const Result result = call("tiny --minutes 60 --trainer " + (folder_ / "trainer"));
    EXPECT_EQ(result.code, code) << trainer << "\n" << result.out;
    EXPECT_EQ(result.out.find("tiny, part second: more") != std::string::npos, second)
        << trainer << "\n"
        << result.out;
  }
};

TEST_F(TwoParts, AFailureIsNotHiddenByALaterPart) {
  expect("case $* in */main/*) exit 1;; esac; exit 75", 1, true);
}

TEST_F(TwoParts, NoPartStartsOnceTheTimeIsUp) {
  expect("exit 75", 75, false);
  expect("case $* in *seed=0*) exit 1;; esac; exit 75", 1, false);
}

// There is no zstd: said before the first job, which runs all the same.
TEST_F(Reproduce, TrainsWhereTheCommittedRunsCannotBeRead) {
  const std::string main = folder_ / "docs/evidence/tiny/main";
  ASSERT_EQ(testing::run("runs pack " + main + " -o " + main + ".tar.zst").code, 0);
  fs::remove_all(main);
  write_runs("prepared", 0.8);
  write_content(folder_ / "trainer", kTrainer);
  fs::permissions(folder_ / "trainer", fs::perms::owner_all);
  fs::create_directory(folder_ / "bin");
  for (const char* tool : {"sh", "tar", "cp", "dirname", "basename"}) {
    fs::create_symlink(fs::path("/bin") / tool, (folder_ / "bin/") + tool);
  }
  const Result result = testing::run(
      "reproduce tiny --root " + folder_.path() + " --trainer " + (folder_ / "trainer"),
      "PATH=" + (folder_ / "bin") + " ");
  EXPECT_EQ(result.code, 0) << result.out;
  const std::size_t warned = result.out.find("posenc: part main is trained and not compared: [");
  ASSERT_NE(warned, std::string::npos) << result.out;
  EXPECT_NE(result.out.find("install zstd", warned), std::string::npos) << result.out;
  EXPECT_LT(warned, result.out.find("seed0-none")) << result.out;
  EXPECT_NE(result.out.find("6 jobs in "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("part main: not compared, because"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("77 / 80.0 ["), std::string::npos) << "the published table stays";
}

// A page whose tables are of posenc bench.
class MeasuredPage : public Reproduce {
 protected:
  MeasuredPage() {
    write_content(folder_ / "configs/evidence/cost.yaml",
                  "question: What does it cost?\nparts:\n  cpu:\n    about: a tiny step\n"
                  "    bench: train --lengths 16,32 --filter kerple --dim 16 --layers 1 --heads 2 "
                  "--seconds 0\n");
    write_content(folder_ / "docs/evidence/cost.md",
                  "# Cost\n\n<!-- generated: results cpu -->\n<!-- end generated -->\n");
  }
  [[nodiscard]] std::string page() const { return file_content(folder_ / "docs/evidence/cost.md"); }
  void commit(const std::string& rows) const {
    fs::create_directories(folder_ / "docs/evidence/cost");
    write_content(folder_ / "docs/evidence/cost/cpu.json", rows);
  }
};

TEST_F(MeasuredPage, IsMeasuredAndWrittenFromItsRows) {
  POSENC_NEEDS_LIBTORCH();
  const Result measured = call("cost --part cpu");
  ASSERT_EQ(measured.code, 0) << measured.out;
  commit(file_content(folder_ / "runs/evidence/cost/cpu.json"));
  ASSERT_EQ(call("cost --page").code, 0);
  EXPECT_NE(page().find("| encoding | 16 | 32 |"), std::string::npos) << page();
  EXPECT_NE(page().find("\n| kerple | "), std::string::npos) << page();
  EXPECT_NE(page().find("1 layer, width 16, 2 heads, float32, cpu"), std::string::npos) << page();
  EXPECT_EQ(call("cost --check").code, 0);
}

TEST_F(MeasuredPage, ShowsBothFiguresAndWhatIsMissing) {
  commit(R"json([{"encoding": "learned(max_positions=8)", "length": 8, "batch": 2, "dim": 16,
    "layers": 3, "heads": 2, "device": "cuda", "precision": "tf32", "tokens_per_s": 1234567.0,
    "composed_tokens_per_s": 98765.0, "peak_bytes": 1048576, "composed_peak_bytes": null}])json");
  ASSERT_EQ(call("cost --page").code, 0);
  EXPECT_NE(page().find("| learned | 1235 / 98.8 |"), std::string::npos) << page();
  EXPECT_NE(page().find("| learned | 1.00 / - |"), std::string::npos) << page();
  write_content(folder_ / "docs/evidence/cost.md", page() + "more\n");
  EXPECT_EQ(call("cost --check").code, 0) << "what is written by hand is free";
  commit("[]");
  EXPECT_EQ(call("cost --check").code, 1) << "other rows, another block";
}

TEST_F(MeasuredPage, RefusesRowsThatAreNone) {
  commit("[{\"length\": 3}]");
  const Result result = call("cost --check");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.out.find("must be the rows of posenc bench train --output"), std::string::npos)
      << result.out;
}

TEST_F(MeasuredPage, MeasuresOnePartAtATime) {
  write_content(folder_ / "configs/evidence/cost.yaml",
                "question: What does it cost?\nparts:\n  cpu: {about: a, bench: train}\n"
                "  gpu: {about: b, bench: train --device cuda}\n");
  const Result result = call("cost");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.out.find("--part is required for cost; use --part cpu or --part gpu"),
            std::string::npos)
      << result.out;
}

TEST_F(MeasuredPage, WithoutRowsSaysHowToGetThem) {
  ASSERT_EQ(call("cost --page").code, 0);
  EXPECT_NE(page().find("`posenc reproduce cost --part cpu` measures it"), std::string::npos);
  const Result dry = call("cost --dry-run");
  EXPECT_EQ(dry.code, 0);
  EXPECT_NE(dry.out.find("posenc-bench train --lengths 16,32"), std::string::npos) << dry.out;
  EXPECT_FALSE(fs::exists(folder_ / "runs/evidence/cost"));
}

TEST_F(Reproduce, ListsPagesAndShowsJobsWithoutRunningThem) {
  const Result list = call("");
  EXPECT_EQ(list.code, 0) << list.out;
  EXPECT_NE(list.out.find("Does it work?"), std::string::npos) << list.out;
  const Result dry = call("tiny --part main --dry-run --out " + (folder_ / "other"));
  EXPECT_EQ(dry.code, 0) << dry.out;
  EXPECT_NE(dry.out.find("6 of 6 jobs to run in " + (folder_ / "other/main")), std::string::npos)
      << dry.out;
  EXPECT_FALSE(fs::exists(folder_ / "other"));
}

TEST_F(Reproduce, SaysInOneLineWhatIsWrong) {
  const auto refused = [&](const std::string& words, const std::string& why) {
    const Result result = call(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(count_of(result.out, "\n"), 1U) << result.out;
    EXPECT_NE(result.out.find(why), std::string::npos) << result.out;
  };
  refused("tny --check", "must be a page of ");
  refused("tiny --part mian", "did you mean 'main'");
  refused("tiny --check --page", "--check");
  refused("tiny --check --part main", "--part");
  refused("tiny --set seed=3", "is what the sweep varies");
  refused("tiny --minutes -1", "--minutes");
  refused("tiny --device tpu", "--device");
  write_content(folder_ / "docs/evidence/tiny/main.tar.zst", "");
  refused("tiny --check", "as a folder and as a pack");
  fs::remove(folder_ / "docs/evidence/tiny.md");
  fs::remove(folder_ / "docs/evidence/tiny/main.tar.zst");
  refused("tiny --page", "tiny.md");
}

}  // namespace
}  // namespace posenc::testing

// Packs in place of run directories.
#include <gtest/gtest.h>

#include <cstdlib>

#include "posenc/core/error.h"
#include "report/html.h"
#include "report/run_case.h"
#include "report/tables.h"
#include "runs/attention_case.h"
#include "runs/metrics.h"
#include "runs/pack.h"

namespace posenc::report {
namespace {

namespace fs = std::filesystem;
using testing::file_content;
using testing::TemporaryFolder;
using testing::write_content;
using testing::write_run;

void write_runs(const std::string& folder) {
  for (const char* encoding : {"none", "rope"}) {
    for (int seed = 0; seed < 2; ++seed) {
      const std::string run = fmt::format("{}/{}-{}", folder, encoding, seed);
      write_run(run, {.encoding = encoding,
                      .seed = seed,
                      .rows = {{"train", 1, 0.9, 0.88, 0.92}, {"longer", 2, 0.5, 0.4, 0.6}}});
      runs::write_attention(runs::attention_path(run, "train", 8, 3),
                            testing::attention_record(8, 1, {encoding}));
      runs::MetricsWriter(run + "/metrics.jsonl")
          .append(parse_json(R"({"kind":"train","step":50,"loss":1.5,"accuracy":0.5})", "row"));
    }
  }
}

// Everything that a report shows, with `from` written as `to`.
std::string page(const std::string& place, const std::string& from, const std::string& to) {
  std::string text = html_report({.runs = find_runs({place}), .compare = {}, .title = "x"});
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

std::vector<std::string> paths_of(const std::vector<Run>& runs) {
  std::vector<std::string> paths;
  for (const Run& run : runs) paths.push_back(run.path.string());
  return paths;
}

TEST(Packs, AreReportedAsTheirRunsAre) {
  const TemporaryFolder folder;
  write_runs(folder / "runs");
  const std::string pack = folder / "main.tar.zst";
  runs::pack_runs({folder / "runs"}, pack);
  const std::string of_folder = page(folder / "runs", folder / "runs", "HERE");
  EXPECT_NE(of_folder.find("HERE/rope-1"), std::string::npos);
  EXPECT_NE(of_folder.find("data:image/png"), std::string::npos) << "attention maps";
  EXPECT_EQ(page(pack, pack, "HERE"), of_folder);
}

TEST(Packs, NoCommandIsGivenThatNeedsADirectory) {
  const TemporaryFolder folder;
  write_run(folder / "runs/a", {.rows = {{"train", 1, 0.9, 0.88, 0.92}}});
  const std::string pack = folder / "p.tar";
  runs::pack_runs({folder / "runs"}, pack);
  const std::string shown = page(pack, pack, "PACK");
  EXPECT_NE(shown.find("These runs have no attention records."), std::string::npos);
  EXPECT_EQ(shown.find("posenc attention PACK"), std::string::npos);
  EXPECT_NE(shown.find("<code>posenc runs unpack</code>"), std::string::npos);
}

TEST(Packs, ACommandNamesTheFirstRunThatIsADirectory) {
  const TemporaryFolder folder;
  write_run(folder / "alone/a", {.seed = 0, .rows = {{"train", 1, 0.9, 0.88, 0.92}}});
  write_run(folder / "both/b", {.seed = 1, .rows = {{"train", 1, 0.9, 0.88, 0.92}}});
  runs::pack_runs({folder / "alone"}, folder / "both/a.tar");
  const std::string shown = page(folder / "both", folder / "both", "HERE");
  ASSERT_NE(shown.find("HERE/a.tar/a"), std::string::npos);
  EXPECT_NE(shown.find("posenc attention HERE/b --sample 0"), std::string::npos);
}

TEST(Packs, BelowFoldersAreFound) {
  const TemporaryFolder folder;
  write_runs(folder / "runs");
  fs::create_directories(folder / "evidence/deep");
  runs::pack_runs({folder / "runs/none-0"}, folder / "evidence/deep/a.tar.gz");
  runs::pack_runs({folder / "runs/rope-0"}, folder / "evidence/b.tar");
  fs::rename(folder / "runs/rope-1", folder / "evidence/c");
  ASSERT_EQ(std::system(("tar -C " + (folder / "runs") + " -cf " + (folder / "evidence/other.tar") +
                         " none-0")
                            .c_str()),
            0);
  const std::string evidence = folder / "evidence";
  EXPECT_EQ(paths_of(find_runs({evidence, evidence + "/b.tar"})),
            (std::vector<std::string>{evidence + "/b.tar/rope-0", evidence + "/c",
                                      evidence + "/deep/a.tar.gz/none-0"}));
}

TEST(Packs, ADamagedOneIsARemarkOrAnErrorWhereItWasNamed) {
  const TemporaryFolder folder;
  write_runs(folder / "runs");
  const std::string pack = folder / "runs/p.tar.zst";
  runs::pack_runs({folder / "runs/rope-0"}, pack);
  const std::string whole = file_content(pack);
  for (const std::size_t size : {std::size_t{10}, whole.size() / 2, whole.size() - 3}) {
    write_content(pack, whole.substr(0, size));
    const Comparison comparison = compare(find_runs({folder / "runs"}));
    ASSERT_EQ(comparison.left_out.size(), 1U) << size;
    EXPECT_EQ(comparison.left_out[0].rfind(pack + " cannot be read: [" + pack + "]", 0), 0U)
        << comparison.left_out[0];
    EXPECT_THROW((void)find_runs({pack}), Error);
  }
}

TEST(Packs, NoTemporaryPathIsShownAndNoneIsLeft) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "tmp");
  ::setenv("TMPDIR", (folder / "tmp").c_str(), 1);
  write_runs(folder / "runs");
  runs::pack_runs({folder / "runs"}, folder / "p.tar");
  {
    const auto found = find_runs({folder / "p.tar"});
    EXPECT_FALSE(fs::is_empty(folder / "tmp"));
    const std::string shown = html_report({.runs = found, .compare = {}, .title = "x"});
    EXPECT_EQ(shown.find("posenc-pack.tmp"), std::string::npos);
    const RunFolder& in_pack = found.front().folder;
    EXPECT_EQ(shown_message("[" + (in_pack.path / "x").string() + "] is torn", in_pack, "p.tar/a"),
              "[p.tar/a/x] is torn");
  }
  EXPECT_TRUE(fs::is_empty(folder / "tmp"));
  ::unsetenv("TMPDIR");
}

}  // namespace
}  // namespace posenc::report

// posenc report as a user meets it.
#include <gtest/gtest.h>

#include "cli/run_cli.h"
#include "report/page_case.h"

namespace posenc::testing {
namespace {

using nlohmann::json;

void write_two(const TemporaryFolder& folder) {
  for (const char* encoding : {"none", "rope"}) {
    write_run(folder / (std::string("runs/") + encoding),
              {.encoding = encoding,
               .rows = {{"train", 1, 0.9, 0.88, 0.92}, {"longer", 2, 0.5, 0.4, 0.6}}});
  }
}

TEST(ReportVerb, WritesThePageAndSaysWhere) {
  const TemporaryFolder folder;
  write_two(folder);
  const std::string out = folder / "report.html";
  const Result result =
      run("report " + (folder / "runs") + " -o " + out + " --title 'Two of them' --threshold 0.45");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.out.rfind(out + " (0.", 0), 0U) << result.out;
  EXPECT_EQ(count_of(result.out, "\n"), 1U);
  const std::string page = file_content(out);
  EXPECT_NE(page.find("<h1>Two of them</h1>"), std::string::npos);
  EXPECT_EQ(data_block(page, "comparison-data"),
            run_json("compare " + (folder / "runs") + " --threshold 0.45"));
}

TEST(ReportVerb, SaysInOneLineWhatIsWrongAndLeavesNothing) {
  const TemporaryFolder folder;
  write_two(folder);
  std::filesystem::create_directories(folder / "empty");
  const auto refused = [&](const std::string& words, const std::string& why) {
    const Result result = run("report " + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(count_of(result.out, "\n"), 1U) << result.out;
    EXPECT_NE(result.out.find(why), std::string::npos) << result.out;
  };
  const std::string out = " -o " + (folder / "report.html");
  refused((folder / "empty") + out, "holds no runs");
  refused((folder / "nowhere") + out, "is not a folder");
  refused((folder / "runs") + " -o " + (folder / "empty"), "is a folder");
  refused((folder / "runs") + " -o " + (folder / "nowhere/report.html"), "cannot be written");
  const std::filesystem::path run = std::filesystem::directory_iterator(folder / "runs")->path();
  refused((folder / "runs") + " -o " + (run / "results.json").string(),
          "is a file of a run, which must not be replaced");
  refused(out, "DIR is required");
  refused((folder / "runs") + out + " --threshold 2", "--threshold");
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"empty", "runs"}));
}

TEST(ReportVerb, ReplacesAnOlderPageAtOnce) {
  const TemporaryFolder folder;
  write_two(folder);
  write_content(folder / "report.html", "old");
  EXPECT_EQ(run("report " + (folder / "runs") + " -o " + (folder / "report.html")).code, 0);
  EXPECT_NE(file_content(folder / "report.html").find("</html>"), std::string::npos);
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"report.html", "runs"}));
}

}  // namespace
}  // namespace posenc::testing

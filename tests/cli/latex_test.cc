// Tables for papers: well formed, whatever the names of encodings hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <vector>

#include "cli/run_cli.h"
#include "report/run_case.h"

namespace posenc::testing {
namespace {

class Latex : public ::testing::Test {
 protected:
  // Two encodings with three seeds each, the second one called `name` in its results.
  std::string table_of(const std::string& name) {
    for (const std::string& encoding : {std::string("none"), std::string("alibi")}) {
      for (int seed = 0; seed < 3; ++seed) {
        const std::string run_folder = folder_ / fmt::format("{}-{}", encoding, seed);
        write_run(run_folder, {.encoding = encoding,
                               .seed = seed,
                               .rows = {{"train", 1, 0.995, 0.99, 0.998},
                                        {"longer", 2, 0.4524, 0.41, 0.4961}}});
        std::string results = file_content(run_folder + "/results.json");
        if (const auto at = results.find("\"alibi\""); at != std::string::npos) {
          results.replace(at, 7, nlohmann::json(name).dump());
          write_content(run_folder + "/results.json", results);
        }
      }
    }
    const Result result = run("compare " + folder_.path() + " --latex");
    EXPECT_EQ(result.code, 0) << result.out;
    return result.out;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Latex, IsWellFormed) {
  const std::string text = table_of("a&b%c$d#e_f{g}h~i^j\\k");
  std::istringstream lines(text);
  std::vector<std::string> open;
  std::ptrdiff_t columns = -1;
  std::size_t rows = 0;
  const std::regex begin(R"(\\begin\{(\w+)\}(?:\{(\w+)\})?)");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('%')) continue;
    std::smatch match;
    if (std::regex_search(line, match, begin)) {
      open.push_back(match[1]);
      if (match[2].matched) columns = match[2].length();
    } else if (const auto end = line.find("\\end{"); end != std::string::npos) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(line.substr(end), "\\end{" + open.back() + "}");
      open.pop_back();
    } else if (line.ends_with("\\\\")) {
      const std::string plain = std::regex_replace(line, std::regex(R"(\\[&%$#_{}])"), "");
      EXPECT_EQ(std::count(plain.begin(), plain.end(), '&') + 1, columns) << line;
      EXPECT_EQ(plain.find_first_of("%#_~^"), std::string::npos) << line;
      ++rows;
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(rows, 8U) << "two tables of a header, two encodings and chance: " << text;
}

TEST_F(Latex, IsOneFormOfSeveral) {
  const Result result = run("compare runs --latex --json");
  EXPECT_EQ(result.code, 2);
}

}  // namespace
}  // namespace posenc::testing

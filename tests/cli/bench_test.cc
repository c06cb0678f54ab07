// posenc bench: one real row from end to end, and mistakes. Times are never looked at.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_cli.h"

namespace posenc {
namespace {

using testing::run;

TEST(CliBench, PrintsRowsWithEveryKey) {
  const auto rows = testing::run_json("bench cpu --filter rope/half/bfloat16/T512 --seconds 0");
  ASSERT_EQ(rows.size(), 1u);
  for (const char* key :
       {"name", "op", "encoding", "pass", "shape", "dtype", "threads", "ms", "baseline_ms",
        "speedup", "limit", "fraction_of_limit", "relative_to_plain", "peak_bytes",
        "baseline_peak_bytes", "path", "checked"}) {
    EXPECT_TRUE(rows[0].contains(key)) << key;
  }
  EXPECT_EQ(rows[0]["name"], "rope/half/bfloat16/T512/D64");
  EXPECT_EQ(rows[0]["checked"], true);
  EXPECT_GT(rows[0]["ms"], 0.0);
}

TEST(CliBench, ListsItsRowsAndMeasuresNothing) {
  const auto result = run("bench cpu --list --filter decode");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("decode/none/K32768/D128/bfloat16\n"), std::string::npos);
  EXPECT_EQ(result.out.find("rope/half"), std::string::npos);
}

TEST(CliBench, MistakesAreOneLine) {
  const auto unknown = run("bench cpu --filter nothing_like_it");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.out.find("--filter matches no row"), std::string::npos) << unknown.out;
  const auto option = run("bench cpu --second 3");
  EXPECT_EQ(option.code, 2);
  EXPECT_NE(option.out.find("see posenc bench --help"), std::string::npos) << option.out;
  const auto help = run("bench --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("cpu"), std::string::npos);
}

}  // namespace
}  // namespace posenc

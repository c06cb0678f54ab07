#include "report/evidence_measured.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runs/run_case.h"

namespace posenc::report {
namespace {

using testing::error_of;

std::string row(const std::string& encoding, int length, int layers, int speed) {
  return fmt::format(
      R"({{"encoding": "{}", "length": {}, "layers": {}, "dim": 64, "heads": 2, "device": "cpu",
           "precision": "float32", "tokens_per_s": {}, "composed_tokens_per_s": null,
           "peak_bytes": 1048576, "composed_peak_bytes": 2097152}})",
      encoding, length, layers, speed);
}

TEST(EvidenceMeasured, RowsOfDifferentModelsAreDifferentTables) {
  const auto tables = measured_tables(
      fmt::format("[{}, {}, {}]", row("rope", 128, 1, 5000), row("rope", 128, 4, 2000),
                  row("learned(max_positions=256) + t5", 256, 1, 40000)),
      "x.json");
  ASSERT_EQ(tables.size(), 4U);
  EXPECT_EQ(tables[0].title,
            "Thousand tokens per second (1 layer, width 64, 2 heads, float32, cpu)");
  EXPECT_EQ(tables[0].header, (std::vector<std::string>{"encoding", "128", "256"}));
  EXPECT_EQ(tables[0].rows, (std::vector<std::vector<std::string>>{
                                {"rope", "5.00 / -", ""}, {"learned + t5", "", "40.0 / -"}}));
  EXPECT_EQ(tables[1].rows[0][1], "1.00 / 2.00");
  EXPECT_EQ(tables[3].title, "Memory of a step in MiB (4 layers, width 64, 2 heads, float32, cpu)");
  EXPECT_EQ(tables[2].rows, (std::vector<std::vector<std::string>>{{"rope", "2.00 / -"}}));
}

TEST(EvidenceMeasured, OtherFilesAreRefused) {
  EXPECT_TRUE(measured_tables("[]", "x.json").empty());
  EXPECT_TRUE(error_of([] {
                (void)measured_tables(R"([{"encoding": "rope"}])", "x.json");
              }).starts_with("[x.json] rows must be the rows of posenc bench train --output; "));
}

}  // namespace
}  // namespace posenc::report

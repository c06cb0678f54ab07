#include "serve/metrics_tail.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runs/metrics.h"
#include "serve/site_case.h"

namespace posenc::testing {
namespace {

using nlohmann::json;
using serve::MetricsPart;

class MetricsTail : public ::testing::Test {
 protected:
  MetricsPart part(std::uint64_t from, std::size_t longest = serve::kMetricsPart) {
    const auto folder = serve::Folder::open(folder_.path());
    return serve::metrics_since(*folder->file("m"), from, longest);
  }
  void write(const std::string& text) { write_content(folder_ / "m", text); }
  void append(const std::string& text) {
    std::ofstream(folder_ / "m", std::ios::app | std::ios::binary) << text;
  }
  TemporaryFolder folder_;
};

TEST_F(MetricsTail, OnlyWholeLinesAndWhereToGoOn) {
  write("{\"a\":1}\n{\"a\":2}\n{\"a\"");
  const MetricsPart first = part(0);
  EXPECT_EQ(first.lines, (std::vector<std::string>{"{\"a\":1}", "{\"a\":2}"}));
  EXPECT_EQ(first.next, 16U);
  EXPECT_FALSE(first.restarted);
  EXPECT_TRUE(part(first.next).lines.empty());
  EXPECT_EQ(part(first.next).next, 16U);
  append(":3}\n");
  EXPECT_EQ(part(first.next).lines, std::vector<std::string>{"{\"a\":3}"});
}

TEST_F(MetricsTail, AFileThatBecameShorterIsReadAnew) {
  write("{\"a\":1}\n{\"a\":2}\n");
  EXPECT_TRUE(part(17).restarted);
  EXPECT_EQ(part(17).lines.size(), 2U);
  EXPECT_TRUE(part(3).restarted);  // within a line
  EXPECT_FALSE(part(8).restarted);
  EXPECT_FALSE(part(16).restarted);
  EXPECT_TRUE(part(std::uint64_t{1} << 53U).restarted);
}

TEST_F(MetricsTail, LongFilesComeInParts) {
  std::string all;
  for (int i = 0; i < 1000; ++i) all += "{\"i\":" + std::to_string(i) + "}\n";
  write(all);
  std::vector<std::string> lines;
  std::uint64_t from = 0;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    const MetricsPart got = part(from, 100);
    lines.insert(lines.end(), got.lines.begin(), got.lines.end());
    more = got.more;
    from = got.next;
  }
  EXPECT_EQ(lines.size(), 1000U);
  EXPECT_EQ(lines.back(), "{\"i\":999}");
  EXPECT_EQ(from, all.size());
  EXPECT_GT(parts, 50);
  EXPECT_FALSE(part(0, 4).more);  // a line longer than a part: no end of asking
}

TEST_F(MetricsTail, DamagedLinesAreCountedAndTheRestIsJson) {
  write("{\"a\":1}\nnoise\n[1]\n\n\xff\n{\"a\":2}\n");
  const MetricsPart got = part(0);
  EXPECT_EQ(got.damaged, 4);
  const json j = json::parse(serve::metrics_json(got));
  EXPECT_EQ(j["rows"].size(), 2U);
  EXPECT_EQ(j["rows"][1]["a"], 2);
  EXPECT_EQ(j["damaged"], 4);
}

TEST_F(MetricsTail, PaceOfTheLastRows) {
  std::string rows;
  for (int step = 10; step <= 300; step += 10) rows += SiteCase::row(step);
  write(rows + "{\"kind\":\"eval\",\"step\":300,\"value\":1}\n{\"kind\":\"train\",\"st");
  const auto folder = serve::Folder::open(folder_.path());
  const serve::Pace pace = serve::read_pace(*folder->file("m"));
  EXPECT_EQ(pace.step, 300);
  EXPECT_DOUBLE_EQ(*pace.loss, 1.0 / 300);
  EXPECT_DOUBLE_EQ(*pace.seconds_per_step, 2.0);
  write("");
  EXPECT_EQ(serve::read_pace(*folder->file("m")).step, 0);
  write("\n\n\n");
  EXPECT_FALSE(serve::read_pace(*folder->file("m")).loss.has_value());
}

// The writer of the lab and a reader that follows it: every row arrives once, in order.
TEST_F(MetricsTail, FollowsAWriter) {
  constexpr int kRows = 400;
  std::thread writer([&] {
    runs::MetricsWriter metrics(folder_ / "m");
    for (int i = 0; i < kRows; ++i) {
      metrics.append({Value::Data(Value::Map{{"kind", Value::of_string("train")},
                                             {"step", {Value::Data(std::int64_t{i})}}})});
    }
  });
  std::vector<std::string> lines;
  std::uint64_t from = 0;
  const auto folder = serve::Folder::open(folder_.path());
  const bool all = eventually([&] {
    if (const auto file = folder->file("m")) {
      const MetricsPart got = serve::metrics_since(*file, from);
      EXPECT_FALSE(got.restarted);
      lines.insert(lines.end(), got.lines.begin(), got.lines.end());
      from = got.next;
    }
    return lines.size() >= kRows;
  });
  writer.join();
  ASSERT_TRUE(all);
  ASSERT_EQ(lines.size(), std::size_t{kRows});
  for (int i = 0; i < kRows; ++i) {
    EXPECT_EQ(json::parse(lines[static_cast<std::size_t>(i)])["step"], i);
  }
}

}  // namespace
}  // namespace posenc::testing

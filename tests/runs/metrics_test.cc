#include "runs/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runs/numbers.h"
#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::error_of;
using posenc::testing::file_content;
using posenc::testing::map_of;
using posenc::testing::number;
using posenc::testing::TemporaryFolder;
using posenc::testing::text;
using posenc::testing::whole;
using posenc::testing::write_content;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Value row(const char* kind, std::int64_t step, double loss) {
  return map_of({{"kind", text(kind)}, {"step", whole(step)}, {"loss", number(loss)}});
}

std::vector<std::int64_t> steps_in(const std::string& path) {
  std::vector<std::int64_t> steps;
  for (const Value& r : read_metrics(path))
    steps.push_back(*r.find("step")->get_if<std::int64_t>());
  return steps;
}

TEST(Metrics, ARowIsALine) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  EXPECT_TRUE(read_metrics(path).empty());
  MetricsWriter metrics(path);
  metrics.append(row("train", 1, 0.1));
  metrics.append(row("eval", 1, 1.0 / 3.0));
  EXPECT_EQ(file_content(path),
            "{\"kind\":\"train\",\"step\":1,\"loss\":0.1}\n"
            "{\"kind\":\"eval\",\"step\":1,\"loss\":0.3333333333333333}\n");
  const std::vector<Value> rows = read_metrics(path);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1], row("eval", 1, 1.0 / 3.0)) << "to the last bit";
}

TEST(Metrics, RowsNeedKindAndStep) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m");
  EXPECT_EQ(error_of([&] {
              metrics.append(map_of({{"step", whole(1)}}));
            }),
            "[" + folder.path() +
                "/m] takes rows with kind (text) and step (integer) but got a map with 'step'");
  EXPECT_NE(error_of([&] {
              metrics.append(map_of({{"kind", text("a")}, {"step", number(1.5)}}));
            }),
            "");
  EXPECT_EQ(file_content(folder / "m"), "");
}

TEST(Metrics, NumbersThatAreNotFiniteComeBack) {
  const TemporaryFolder folder;
  const Value list(Value::Data(Value::List{number(1.5), number(-kInf), Value()}));
  const Value given = map_of({{"kind", text("train")},
                              {"step", whole(3)},
                              {"loss", number(kNan)},
                              {"norm", number(kInf)},
                              {"list", list},
                              {"inner", map_of({{"loss", number(-kInf)}, {"gap", Value()}})}});
  MetricsWriter(folder / "m").append(given);
  EXPECT_EQ(file_content(folder / "m"),
            "{\"kind\":\"train\",\"step\":3,\"loss\":null,\"norm\":null,\"list\":[1.5,null,null],"
            "\"inner\":{\"loss\":null,\"gap\":null,\"not_finite\":{\"loss\":\"-inf\"}},"
            "\"not_finite\":{\"loss\":\"nan\",\"norm\":\"inf\",\"list[1]\":\"-inf\"}}\n");
  const Value back = read_metrics(folder / "m").at(0);
  EXPECT_TRUE(std::isnan(*back.find("loss")->get_if<double>()));
  EXPECT_EQ(*back.find("norm"), number(kInf));
  EXPECT_EQ(*back.find("list"), list);
  EXPECT_EQ(*back.find("inner"), *given.find("inner"));
  EXPECT_EQ(back.find(kNotFinite), nullptr);
}

// Killed in the middle of a line, at every place.
TEST(Metrics, ATornLastLineIsPassedOverAndThenCutOff) {
  const TemporaryFolder folder;
  const std::string path = folder / "m";
  const std::string first = to_json(row("train", 1, 0.5)) + "\n";
  const std::string second = to_json(row("train", 2, 0.25)) + "\n";
  for (std::size_t length = 0; length < second.size(); ++length) {
    write_content(path, first + second.substr(0, length));
    std::string torn = "?";
    EXPECT_EQ(read_metrics(path, &torn).size(), 1U) << length;
    EXPECT_EQ(torn, second.substr(0, length));
    MetricsWriter(path).append(row("train", 2, 0.125));
    EXPECT_EQ(file_content(path), first + to_json(row("train", 2, 0.125)) + "\n") << length;
  }
  // A machine that crashed may have the length of a line without its content.
  write_content(path, first + std::string(20, '\0') + "\n");
  EXPECT_EQ(steps_in(path), std::vector<std::int64_t>{1});
  write_content(path, second.substr(0, 5));
  EXPECT_TRUE(read_metrics(path).empty());
}

TEST(Metrics, ADamagedLineInTheMiddleIsAnError) {
  const TemporaryFolder folder;
  const std::string good = to_json(row("train", 1, 0.5)) + "\n";
  write_content(folder / "m", good + "{\"kind\":\"tr\n" + good);
  const std::string want =
      "[" + folder.path() +
      "/m] has in line 2 no JSON object with kind and step; the file is damaged; remove that line";
  EXPECT_EQ(error_of([&] { (void)read_metrics(folder / "m"); }), want);
  EXPECT_EQ(error_of([&] { MetricsWriter(folder / "m"); }), want);
}

TEST(Metrics, ResumingDropsWhatWillBeDoneAgain) {
  const TemporaryFolder folder;
  const std::string path = folder / "m";
  {
    MetricsWriter metrics(path);
    for (std::int64_t step = 1; step <= 10; ++step) metrics.append(row("train", step, 0.5));
  }
  write_content(path, file_content(path) + "{\"kind\":");
  MetricsWriter metrics(path);
  metrics.truncate_after(7);
  metrics.append(row("train", 8, 0.25));
  EXPECT_EQ(steps_in(path), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  metrics.truncate_after(100);
  EXPECT_EQ(steps_in(path).size(), 8U);
  metrics.truncate_after(0);
  EXPECT_EQ(file_content(path), "");
}

// An evaluation may be logged after steps that follow it.
TEST(Metrics, RowsOutOfOrderAreDroppedToo) {
  const TemporaryFolder folder;
  MetricsWriter metrics(folder / "m");
  for (const std::int64_t step : {1, 5, 2, 6, 3}) metrics.append(row("train", step, 0.5));
  metrics.truncate_after(4);
  metrics.append(row("train", 4, 0.5));
  metrics.sync();
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(folder.files(), std::vector<std::string>{"m"});
}

TEST(Metrics, AFullDiskTearsNoLine) {
  const TemporaryFolder folder;
  const std::string path = folder / "m";
  const std::string line = to_json(row("train", 1, 0.5)) + "\n";
  MetricsWriter metrics(path);
  std::string message;
  {
    const posenc::testing::SmallDisk disk(line.size() * 3 + 10);
    for (int i = 0; i < 3; ++i) metrics.append(row("train", 1, 0.5));
    message = error_of([&] { metrics.append(row("train", 1, 0.5)); });
  }
  EXPECT_NE(message.find("cannot be written: File too large; make room"), std::string::npos);
  EXPECT_EQ(file_content(path), line + line + line);
  metrics.append(row("train", 1, 0.5));
  EXPECT_EQ(read_metrics(path).size(), 4U);
}

}  // namespace
}  // namespace posenc::runs

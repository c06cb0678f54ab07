#include "runs/events.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runs/result_events.h"
#include "runs/run_case.h"
#include "support/event_file.h"
#include "support/paths.h"

namespace posenc::runs {
namespace {

using posenc::testing::file_content;
using posenc::testing::read_event_file;
using posenc::testing::ReadEvent;
using posenc::testing::TemporaryFolder;
using posenc::testing::write_content;

std::string hex(const std::string& bytes) {
  std::string text;
  std::array<char, 3> two{};
  for (const char c : bytes) {
    std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned char>(c));
    text += two.data();
  }
  return text;
}

// RFC 3720, appendix B.4, and the usual check value.
TEST(Events, KnownChecksums) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

// Written down from the format, field by field.
TEST(Events, GoldenBytes) {
  EXPECT_EQ(hex(event_record(version_event(1.0))),
            "1800000000000000"    // 24 bytes follow
            "a37f4b22"            // crc of the length
            "09000000000000f03f"  // wall_time: 1.0
            "1a0d"                // file_version: 13 bytes
            "627261696e2e4576656e743a32"
            "86bf577a");  // crc of the payload
  EXPECT_EQ(hex(event_record(scalar_event(1.0, 1, "a", 0.5F))),
            "1700000000000000"
            "e7cef81e"
            "09000000000000f03f"
            "1001"        // step: 1
            "2a0a"        // summary of 10 bytes
            "0a08"        // its value of 8
            "0a0161"      // tag: a
            "150000003f"  // simple_value: 0.5
            "5ca8c137");
  EXPECT_EQ(hex(session_start_event(1.0, 300)),
            "09000000000000f03f"
            "10ac02"      // step: 300
            "3a020801");  // session_log: status START
}

TEST(Events, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  EventWriter events(folder.path());
  const std::string long_tag(300, 't');
  events.scalar("train/loss", 1, 0.25);
  events.scalar(long_tag, std::int64_t{1} << 40, -3.5);
  events.scalar("train/loss", 2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(read_event_file(events.path()).size(), 2U) << "the rest waits for flush";
  events.flush();
  const std::vector<ReadEvent> read = read_event_file(events.path());
  ASSERT_EQ(read.size(), 5U);
  EXPECT_EQ(read[0].file_version, "brain.Event:2");
  EXPECT_TRUE(read[1].session_start);
  EXPECT_EQ(read[1].step, 0);
  EXPECT_EQ(read[2].tag, "train/loss");
  EXPECT_EQ(read[2].value, 0.25F);
  EXPECT_EQ(read[2].step, 1);
  EXPECT_GT(read[2].wall_time, 1.7e9);
  EXPECT_EQ(read[3].tag, long_tag);
  EXPECT_EQ(read[3].step, std::int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(read[4].value));
}

TEST(Events, EveryStartHasAFileThatSortsLast) {
  const TemporaryFolder folder;
  std::vector<std::string> paths;
  write_content(folder / "metrics.jsonl", "");
  for (int i = 0; i < 3; ++i) {
    EventWriter events(folder.path(), i == 0 ? std::nullopt : std::optional<std::int64_t>(10 * i));
    paths.push_back(events.path().string());
    events.scalar("loss", 10 * i + 1, 1.0);
  }
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  EXPECT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end());
  EXPECT_EQ(read_event_file(paths[0])[1].step, 0) << "the first START counts as the beginning";
  const std::vector<ReadEvent> resumed = read_event_file(paths[2]);
  ASSERT_EQ(resumed.size(), 3U) << "the destructor flushes";
  EXPECT_TRUE(resumed[1].session_start);
  EXPECT_EQ(resumed[1].step, 21) << "what follows the checkpoint of step 20 is done again";
  // A clock that goes back.
  write_content(folder / "events.out.tfevents.9999999999.posenc.000003", "");
  EXPECT_GT(EventWriter(folder.path()).path().filename(),
            "events.out.tfevents.9999999999.posenc.000003");
}

TEST(Events, AFullDiskTearsNoRecord) {
  const TemporaryFolder folder;
  EventWriter events(folder.path());
  {
    const posenc::testing::SmallDisk disk(200);
    events.scalar("loss", 1, 1.0);
    events.flush();
    for (int i = 2; i < 20; ++i) events.scalar("loss", i, 1.0);
    EXPECT_THROW(events.flush(), Error);
  }
  events.scalar("loss", 20, 1.0);
  events.flush();
  const std::vector<ReadEvent> read = read_event_file(events.path());
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(read[3].step, 20);
}

// A decoder in another language, from the format's description alone.
TEST(Events, PythonReadsThem) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  const TemporaryFolder folder;
  std::string path;
  {
    EventWriter events(folder.path(), 4);
    path = events.path();
    events.scalar("train/loss", 5, 0.75);
    events.scalar("eval/accuracy", 200, 0.5);
  }
  const std::string out = folder / "out";
  const std::string command = std::string("python3 ") + posenc::testing::kTestData +
                              "/runs/read_events.py '" + path + "' > '" + out + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(file_content(out),
            "version brain.Event:2\nstart 5 1\nscalar train/loss 5 0.75\n"
            "scalar eval/accuracy 200 0.5\n");
  std::string altered = file_content(path);
  altered[altered.size() - 10] ^= 1;
  write_content(path, altered);
  EXPECT_NE(std::system((command + " 2>/dev/null").c_str()), 0);
  EXPECT_THROW(read_event_file(path), std::runtime_error);
}

// The end of a run, read by the decoder in another language.
TEST(Events, ResultsAndHyperparameters) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  const TemporaryFolder folder;
  const Value config = parse_json(
      R"({"name": "a", "seed": 3, "model": {"encoding": ["rope", "alibi"], "bias": true},
          "train": {"lr": 0.5, "optimizer": "adamw"}, "eval": {"samples": 9}})",
      "config");
  const Value results = parse_json(
      R"({"metric": "accuracy", "step": 40, "rows": [
          {"axis": "train", "length": 70, "value": 0.75},
          {"axis": "longer", "length": 140, "schedule": "yarn", "value": 0.5},
          {"axis": "longer", "length": 280, "skipped": "too long"}]})",
      "results");
  std::string path;
  {
    EventWriter events(folder.path(), 40);
    path = events.path();
    add_result_events(events, config, results);
  }
  const std::string out = folder / "out";
  ASSERT_EQ(std::system((std::string("python3 ") + posenc::testing::kTestData +
                         "/runs/read_events.py '" + path + "' > '" + out + "'")
                            .c_str()),
            0);
  EXPECT_EQ(file_content(out),
            "version brain.Event:2\nstart 41 1\n"
            "scalar results/train_70/accuracy 40 0.75\n"
            "scalar results/longer_140_yarn/accuracy 40 0.5\n"
            "plugin hparams _hparams_/session_start_info\n"
            "  seed=3.0\n  model.encoding='[\"rope\",\"alibi\"]'\n  model.bias=True\n"
            "  train.lr=0.5\n  train.optimizer='adamw'\n"
            "plugin hparams _hparams_/session_end_info\n  status 1\n");
}

}  // namespace
}  // namespace posenc::runs

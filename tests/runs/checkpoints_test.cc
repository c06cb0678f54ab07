#include "runs/checkpoints.h"

#include <gtest/gtest.h>

#include <limits>

#include "runs/manifest.h"
#include "runs/saved_steps.h"

namespace posenc::runs {
namespace {

using posenc::testing::error_of;
using posenc::testing::expect_step;
using posenc::testing::file_content;
using posenc::testing::save_step;
using posenc::testing::SmallDisk;
using posenc::testing::step_state;
using posenc::testing::steps_of;
using posenc::testing::StepTensors;
using posenc::testing::TemporaryFolder;
using posenc::testing::write_content;
using Steps = std::vector<std::int64_t>;

const std::vector<std::string> kFiles = {"manifest.json", "model.safetensors",
                                         "optimizer.safetensors", "state.json"};

TEST(Checkpoints, SavedAndLoaded) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "checkpoints");
  EXPECT_FALSE(checkpoints.load_latest());
  save_step(checkpoints, 1000, 0.25);
  const auto loaded = CheckpointReader(folder / "checkpoints").load_latest();
  ASSERT_TRUE(loaded);
  expect_step(*loaded, 1000);
  EXPECT_EQ(loaded->score, 0.25);
  EXPECT_EQ(loaded->path.filename(), "step-00001000");
  EXPECT_EQ(error_of([&] { (void)loaded->group("ema"); }),
            "[" + loaded->path.string() + "] ema.safetensors is not in this checkpoint");
}

TEST(Checkpoints, KeepsTheLastAndTheBest) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c", {.last = 2, .best = true});
  const std::vector<double> scores = {0.1, 0.9, 0.3, 0.9, 0.2, 0.4};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    save_step(checkpoints, static_cast<std::int64_t>(i + 1) * 10, scores[i]);
  }
  EXPECT_EQ(steps_of(checkpoints), (Steps{20, 50, 60})) << "the earlier of two equal scores";
  expect_step(*checkpoints.best(), 20);
  expect_step(*checkpoints.load_latest(), 60);

  Checkpoints only_last(folder / "c", {.last = 1, .best = false});
  save_step(only_last, 70, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(steps_of(only_last), Steps{70});
  EXPECT_FALSE(only_last.best()) << "a score that is no number is none";
}

TEST(Checkpoints, StepsBeyondEightDigitsStayInOrder) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c", {.last = 3, .best = false});
  for (const std::int64_t step : {99'999'999, 100'000'000, 100'000'001}) {
    save_step(checkpoints, step);
  }
  EXPECT_EQ(steps_of(checkpoints), (Steps{99'999'999, 100'000'000, 100'000'001}));
  EXPECT_EQ(step_of_name("step-00000007"), 7);
  for (const char* name : {"step-7", "step-000000007", "step-", "step--0000007", "step-0000000x",
                           "step-00000007.tmp-0123abcd", "Step-00000007"}) {
    EXPECT_FALSE(step_of_name(name)) << name;
  }
}

TEST(Checkpoints, TheSameStepIsReplacedAndLaterOnesAreDropped) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c", {.last = 4, .best = true});
  for (const std::int64_t step : {10, 20, 30, 40})
    save_step(checkpoints, step, 0.01 * double(step));
  const auto old = checkpoints.load(20);
  checkpoints.save(20, StepTensors(7).groups(), step_state(7));
  EXPECT_EQ(steps_of(checkpoints), (Steps{10, 20}));
  EXPECT_EQ(checkpoints.load(20).state, step_state(7));
  expect_step(old, 20);  // open, so still readable
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "c"), {}), 2);
}

// Cuts, gaps and single flipped bits, everywhere in every file.
TEST(Checkpoints, WhatIsNotWholeIsPassedOverWithAWord) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c");
  save_step(checkpoints, 1, 0.5);
  save_step(checkpoints, 2, 0.75);
  Rng rng(5);
  for (const std::string& file : kFiles) {
    const std::string path = folder / "c/step-00000002/" + file;
    const std::string content = file_content(path);
    const auto damaged = [&](const std::string& what) {
      std::vector<std::string> words;
      const auto loaded = checkpoints.load_latest(&words);
      ASSERT_TRUE(loaded) << file << " " << what;
      expect_step(*loaded, 1);
      ASSERT_EQ(words.size(), 1U) << file << " " << what;
      EXPECT_NE(words[0].find("checkpoint of step 2 is skipped: [" + path), std::string::npos)
          << words[0];
      EXPECT_EQ(words[0].find('\n'), std::string::npos);
      expect_step(*checkpoints.best(), 1);
    };
    for (const std::size_t length : {std::size_t{0}, content.size() / 2, content.size() - 1}) {
      write_content(path, content.substr(0, length));
      damaged("cut");
      EXPECT_FALSE(checkpoints.list().back().problem.empty()) << "a length is seen without hashing";
    }
    write_content(path, content + "\n");
    damaged("longer");
    for (int flip = 0; flip < 60; ++flip) {
      std::string altered = content;
      auto& byte = altered[static_cast<std::size_t>(
          rng.integer(0, static_cast<std::int64_t>(content.size()) - 1))];
      byte = static_cast<char>(byte ^ (1 << rng.integer(0, 7)));
      write_content(path, altered);
      damaged("flipped");
    }
    std::filesystem::remove(path);
    damaged("removed");
    write_content(path, content);
    expect_step(*checkpoints.load_latest(), 2);
  }
}

TEST(Checkpoints, NothingWholeIsNothingWithWords) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c");
  save_step(checkpoints, 1);
  save_step(checkpoints, 2);
  write_content(folder / "c/step-00000001/state.json", "{}");
  std::filesystem::remove_all(folder / "c/step-00000002/manifest.json");
  std::vector<std::string> words;
  EXPECT_FALSE(checkpoints.load_latest(&words));
  EXPECT_EQ(words.size(), 2U);
}

TEST(Checkpoints, ARequiredOneSaysWhatWasSkipped) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "checkpoints", {.last = 3, .best = true});
  for (const std::int64_t step : {1, 2, 3}) save_step(checkpoints, step, 0.1 * double(step));
  const auto first_message = [&](bool best) {
    std::vector<std::string> messages;
    expect_step(require_checkpoint(folder.path(), best, messages), 2);
    return messages.size() == 1 ? messages[0] : "not one message";
  };
  write_content(folder / "checkpoints/step-00000003/model.safetensors", "short");
  for (const bool best : {false, true}) {
    EXPECT_TRUE(first_message(best).starts_with("checkpoint of step 3 is skipped: [")) << best;
  }
  write_content(folder / "checkpoints/step-00000003/manifest.json", "{");
  EXPECT_TRUE(first_message(true).starts_with("checkpoint of step 3 is skipped: ["))
      << "its score cannot be read";
}

TEST(Checkpoints, ARequiredOneThatIsNotThereSaysWhy) {
  const TemporaryFolder folder;
  std::vector<std::string> messages;
  const auto said = [&](bool best) {
    return error_of([&] { (void)require_checkpoint(folder.path(), best, messages); });
  };
  const std::string scope = "[" + folder.path() + "] ";
  EXPECT_EQ(said(false), scope + "has no checkpoint; train it first: posenc train");
  Checkpoints checkpoints(folder / "checkpoints");
  save_step(checkpoints, 1);
  EXPECT_EQ(said(true), scope + "has no checkpoint with a score; train it first: posenc train");
  write_content(folder / "checkpoints/step-00000001/state.json", "{}");
  EXPECT_TRUE(said(false).starts_with(
      scope + "has no checkpoint that is whole: checkpoint of step 1 is skipped: ["))
      << said(false);
}

// A damaged one must not count as one of the last two, or the whole one before it would go.
TEST(Checkpoints, DamagedOnesGoBeforeWholeOnes) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c", {.last = 2, .best = false});
  save_step(checkpoints, 1);
  save_step(checkpoints, 2);
  std::filesystem::resize_file(folder / "c/step-00000002/model.safetensors", 10);
  save_step(checkpoints, 3);
  EXPECT_EQ(steps_of(checkpoints), (Steps{1, 3}));
}

// A checkpoint under another's name would make a run go back or ahead without a word.
TEST(Checkpoints, AFolderThatWasRenamedIsRefused) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c");
  save_step(checkpoints, 1);
  std::filesystem::rename(folder / "c/step-00000001", folder / "c/step-00000009");
  EXPECT_NE(error_of([&] { (void)checkpoints.load(9); }).find("is of step 1"), std::string::npos);
}

TEST(Checkpoints, LeftoversAreRemovedByTheWriterAndIgnoredByReaders) {
  const TemporaryFolder folder;
  {
    Checkpoints checkpoints(folder / "c");
    save_step(checkpoints, 1);
  }
  std::filesystem::copy(folder / "c/step-00000001", folder / "c/step-00000002.tmp-00c0ffee",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder / "c/notes");
  EXPECT_EQ(steps_of(CheckpointReader(folder / "c")), Steps{1});
  EXPECT_TRUE(std::filesystem::exists(folder / "c/step-00000002.tmp-00c0ffee"));
  const Checkpoints again(folder / "c");
  EXPECT_FALSE(std::filesystem::exists(folder / "c/step-00000002.tmp-00c0ffee"));
  EXPECT_TRUE(std::filesystem::exists(folder / "c/notes")) << "not ours";
  EXPECT_EQ(steps_of(again), Steps{1});
}

TEST(Checkpoints, RefusesWhatItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of([&] { Checkpoints(folder / "c", {.last = 0}); }).find("last must be >= 1"),
            std::string::npos);
  Checkpoints checkpoints(folder / "c");
  EXPECT_NE(error_of([&] { save_step(checkpoints, -1); }).find("step must be >= 0 but got -1"),
            std::string::npos);
  const std::vector<float> three(3);
  const std::vector<TensorGroup> wrong = {
      {"model", {{"w", weights::ElementType::kF32, {4}, std::as_bytes(std::span(three))}}}};
  EXPECT_NE(
      error_of([&] { checkpoints.save(1, wrong, {}); }).find("'w' as F32 [4] takes but got 12"),
      std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "c"));
}

TEST(Checkpoints, ADiskThatFillsUpLeavesTheOldOnes) {
  const TemporaryFolder folder;
  Checkpoints checkpoints(folder / "c");
  save_step(checkpoints, 1);
  save_step(checkpoints, 2);
  std::string message;
  {
    const SmallDisk disk(3000);
    message = error_of([&] { save_step(checkpoints, 3, {}, 1000); });
  }
  EXPECT_EQ(message, "[" + folder.path() +
                         "/c/step-00000003/model.safetensors] cannot be written: File too large; "
                         "make room; what was there is untouched");
  EXPECT_EQ(steps_of(checkpoints), (Steps{1, 2}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "c"), {}), 2);
  expect_step(*checkpoints.load_latest(), 2);
}

}  // namespace
}  // namespace posenc::runs

// Tasks from files of questions and answers.
#include "tasks/custom.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "posenc/core/error.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

class CustomTasks : public ::testing::Test {
 protected:
  [[nodiscard]] std::string write(const std::string& name, const std::string& lines) const {
    folder_.write(name, lines);
    return folder_.path() + "/" + name;
  }
  // 200 sums; every tenth is written twice.
  [[nodiscard]] std::string sums() const {
    std::string lines;
    for (int i = 0; i < 200; ++i) {
      const int a = i % 20;
      const int b = i / 20;
      const std::string line = R"({"input": ")" + std::to_string(a) + "+" + std::to_string(b) +
                               R"(=", "answer": ")" + std::to_string(a + b) + "\"}\n";
      lines += i % 10 == 0 ? line + line : line;
    }
    return write("sums.jsonl", lines);
  }
  // What follows "[<folder>/", so that no temporary name is in it.
  [[nodiscard]] std::string error_of(const Custom& config) const {
    try {
      make_task(config);
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::size_t folder = text.find(folder_.path());
      return folder == 1 ? "[" + text.substr(folder_.path().size() + 2) : text;
    }
    return "no error";
  }
  [[nodiscard]] std::string error_of(const std::string& lines) const {
    return error_of(Custom{.path = write("bad.jsonl", lines)});
  }

  TextFiles folder_;
};

// The words before <sep>, and the targets, each as one text.
std::pair<std::string, std::string> question_and_answer(const Task& task, const Batch& batch,
                                                        std::int64_t row) {
  std::string question;
  std::string answer;
  const Words words = row_words(task, batch, row);
  for (std::size_t t = 0; words[t] != "<sep>"; ++t) question += words[t];
  for (std::int64_t t = 0; t < batch.length; ++t) {
    const std::int32_t target = batch.targets[place(batch, row, t)];
    if (target != kUnscored) answer += task.token_text(target);
  }
  return {question, answer};
}

TEST_F(CustomTasks, AskForTheAnswersOfTheFile) {
  const auto task = make_task(Custom{.path = sums()});
  EXPECT_EQ(task->info().vocabulary, 258);
  EXPECT_EQ(task->info().length, 7);      // 19+9= and 28
  EXPECT_EQ(task->info().min_length, 5);  // 0+0= and 0
  const Batch batch = make_batch(*task, {"train", 8}, 1, 0, 500);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const auto [question, answer] = question_and_answer(*task, batch, row);
    const std::size_t plus = question.find('+');
    EXPECT_EQ(std::stoi(question.substr(0, plus)) + std::stoi(question.substr(plus + 1)),
              std::stoi(answer));
  }
}

TEST_F(CustomTasks, AnswersAreSaidOneStepAhead) {
  const auto task = make_task(
      Custom{.path = write("one.jsonl", "{\"input\": [7, 3], \"answer\": [3, 0, 7], \"id\": 1}\n"),
             .test_share = 0,
             .validation_share = 0});
  EXPECT_EQ(task->info().vocabulary, 10);
  const Batch batch = make_batch(*task, {"train", 7}, 1, 0, 1);
  EXPECT_EQ(render(*task, batch, 0), "7 3 <sep> 3 0 <pad> <pad>\n    3     0 7\n");
}

TEST_F(CustomTasks, HoldOutInputsAndShowEachOnce) {
  const auto task = make_task(Custom{.path = sums(), .test_share = 0.3, .validation_share = 0.2});
  std::map<std::string, int> held_out;
  std::size_t before = 0;
  for (const auto& [split, share] : {std::pair(Split::kTest, 0.3), {Split::kValidation, 0.2}}) {
    const Condition condition{"train", 7, 7, split};
    const std::int64_t rows = task->rows(condition).value();
    EXPECT_NEAR(static_cast<double>(rows), share * 220, 25);
    std::set<std::string> questions;
    const Batch all = make_batch(*task, condition, 1, 0, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::string question = question_and_answer(*task, all, row).first;
      ++held_out[question];
      questions.insert(question);
    }
    EXPECT_EQ(held_out.size(), before + questions.size()) << "an input in two splits";
    before = held_out.size();
    EXPECT_EQ(make_batch(*task, condition, 2, 0, rows).tokens, all.tokens) << "they are no draws";
    EXPECT_THROW(make_batch(*task, condition, 1, static_cast<std::uint64_t>(rows), 1), Error);
  }
  for (const auto& [question, count] : held_out) EXPECT_LE(count, 2) << question;
  std::set<std::string> trained;
  const Batch train = make_batch(*task, {"train", 7}, 1, 0, 4000);
  for (std::int64_t row = 0; row < train.rows; ++row) {
    trained.insert(question_and_answer(*task, train, row).first);
  }
  EXPECT_EQ(trained.size() + held_out.size(), 200u);
  for (const std::string& question : trained) EXPECT_EQ(held_out.count(question), 0u) << question;
  EXPECT_EQ(task->rows({"train", 7}), std::nullopt);
}

TEST_F(CustomTasks, LongerExamplesAreAnAxisOfTheirOwn) {
  const auto task = make_task(Custom{.path = sums(), .test_share = 0.5});
  for (const bool held_out : {false, true}) {
    const Batch batch =
        make_batch(*task, {"longer", 7, 5, held_out ? Split::kTest : Split::kTrain}, 1, 0, 20);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const auto [question, answer] = question_and_answer(*task, batch, row);
      EXPECT_GT(question.size() + answer.size(), 5u);
    }
  }
  EXPECT_THROW(make_batch(*task, {"longer", 14, 7}, 1, 0, 1), Error) << "there are none";
  EXPECT_THROW(make_batch(*task, {"train", 4}, 1, 0, 1), Error);
}

TEST_F(CustomTasks, TakeHeldOutExamplesFromAnotherFile) {
  const std::string test = write("test.jsonl", R"({"input": "100+1=", "answer": "101"})");
  const auto task = make_task(Custom{.path = sums(), .test_path = test});
  EXPECT_EQ(task->rows({"train", 9, 9, Split::kTest}), 1);
  EXPECT_EQ(question_and_answer(*task, make_batch(*task, {"train", 9, 9, Split::kTest}, 1, 0, 1), 0)
                .first,
            "100+1=");
  const std::string leak = write("leak.jsonl",
                                 "\n"
                                 R"({"input": "1+0=", "answer": "1"})");
  EXPECT_EQ(
      error_of(Custom{.path = sums(), .test_path = leak}),
      "[custom] test_path must share no input with path, but line 2 has the input of line 3 of " +
          folder_.path() + "/sums.jsonl but got " + leak +
          "; remove it from one file, or give path alone and test_share");
  EXPECT_NE(error_of(Custom{.path = sums(),
                            .test_path = write("n.jsonl", R"({"input": [1], "answer": [2]})")})
                .find("must hold text or integers, as path does"),
            std::string::npos);
}

TEST_F(CustomTasks, ErrorsNameTheLine) {
  const std::string form =
      R"(; write {"input": ..., "answer": ...} with text or lists of integers)";
  const std::string good = "{\"input\": \"a\", \"answer\": \"b\"}\n\n";
  EXPECT_EQ(error_of(good + R"({"input": "a"})"), "[bad.jsonl:3] answer is required" + form);
  EXPECT_EQ(error_of(R"({"input": 3, "answer": "b"})"),
            "[bad.jsonl:1] input must be text or a list of integers but got 3" + form);
  EXPECT_EQ(error_of(good + R"({"input": "a", "answer": [1, 2]})"),
            "[bad.jsonl:3] answer must be text, as the file is but got a list of 2" + form);
  EXPECT_EQ(error_of(R"({"input": "a", "answer": ""})"),
            "[bad.jsonl:1] answer must not be empty" + form);
  EXPECT_EQ(error_of(R"({"input": [1], "answer": [-1]})"),
            "[bad.jsonl:1] answer must hold integers in [0, 1000000) but got -1" + form);
  EXPECT_EQ(error_of(good + "[1, 2\n").substr(0, 13), "[bad.jsonl:3]");
  EXPECT_EQ(error_of(good + "7\n"), "[bad.jsonl:3] input is required" + form);
  EXPECT_NE(error_of("\n\n").find("path must hold examples to train on"), std::string::npos);
  EXPECT_NE(error_of(Custom{}).find("[custom] path must name a JSONL file"), std::string::npos);
  EXPECT_NE(error_of(Custom{.path = folder_.path() + "/none.jsonl"}).find("none.jsonl"),
            std::string::npos);
}

TEST_F(CustomTasks, SayWhenNothingIsHeldOut) {
  const auto task = make_task(Custom{.path = sums(), .test_share = 0});
  EXPECT_THROW(make_batch(*task, {"train", 7, 7, Split::kTest}, 1, 0, 1), Error);
}

}  // namespace
}  // namespace posenc::tasks

// Every task is learned to its known ceiling by a tiny model, on samples that training never drew.
//
// Few steps at short lengths, seeds fixed, one thread: a figure here is the same on every run of a machine.
// `Slow` ones take up to a minute or two and are left out of `make test`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "config/load.h"
#include "train/evaluate.h"
#include "train/machine.h"
#include "train/trainer.h"
#include "train/written_corpora.h"

namespace posenc::train {
namespace {

using testing::TemporaryFolder;

enum class Files { kNone, kText, kDocuments, kExamples };

struct Lesson {
  std::string task;
  std::string config;
  double ceiling = 1.0;  // in the task's metric
  double margin = 0.02;
  Files files = Files::kNone;
  std::string kind = {};  // for tasks that have several
};

constexpr int kTextLength = 24;

std::vector<Lesson> quick() {
  return {
      {"flip_flop",
       R"(task: flip_flop
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 16, batch: 16, steps: 250, lr: 5e-3}
)",
       0.0},
      {"passkey",
       R"(task: {passkey: {digits: 2, words: 8}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 20, batch: 32, steps: 300, lr: 4e-3}
)"},
      {"language_model",
       R"(task: {language_model: {test_share: 0.2}}
model: {encoding: learned(max_positions=32) + rope, layers: 1, dim: 32, heads: 2}
train: {length: 24, batch: 16, steps: 300, lr: 1e-2}
)",
       testing::interleaved::best_next(kTextLength), 0.1, Files::kText},
  };
}

std::vector<Lesson> slow() {
  return {
      {"parity",
       R"(task: {parity: {answer: final}}
model: {encoding: learned(max_positions=16), layers: 2, dim: 32, heads: 2}
train:
  stages:
    - {length: 4, batch: 32, steps: 150}
    - {length: 6, batch: 64, steps: 350}
    - {length: 9, batch: 64, steps: 1500}
  lr: 3e-3
)"},
      {"counting_program",
       R"(task: {counting_program: {variables: 1, set_weight: 0.3, pass_weight: 2, max_operations: 8}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 36, batch: 32, steps: 600, lr: 3e-3}
)"},
      {"mqar",
       R"(task: {mqar: {pairs: 2, vocabulary: 16, random_fillers: false}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 12, batch: 64, steps: 800, lr: 3e-3}
)"},
      {"n_back",
       R"(task: {n_back: {back: 2, variables: 2, values: 4, filler: 0.1}}
model: {encoding: rope, layers: 3, dim: 64, heads: 4}
train: {length: 16, batch: 64, steps: 1500, lr: 3e-3}
)"},
      {"ith_word",
       R"(task: {ith_word: {letters: 6, max_letters: 3, max_index: 3}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 16, batch: 64, steps: 1200, lr: 3e-3}
)"},
      {"last_sentence",
       R"(task: {last_sentence: {words: 6, min_words: 1, max_words: 3, max_index: 3}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 16, batch: 64, steps: 1500, lr: 3e-3}
)"},
      {"selective_copy",
       R"(task: {selective_copy: {symbols: 4}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 12, batch: 32, steps: 1000, lr: 3e-3}
)",
       0.0},
      {"selective_counting",
       R"(task: {selective_counting: {classes: 4, min_named: 1, max_named: 1, cap: 4, max_label: 4}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 16, batch: 32, steps: 2000, lr: 3e-3}
)"},
      {"word_problem",
       R"(task: {word_problem: {group: s3}}
model: {encoding: learned(max_positions=16), layers: 3, dim: 32, heads: 2}
train: {length: 5, batch: 64, steps: 1500, lr: 4e-3}
)"},
      {"navigation",
       R"(task: {navigation: {dimensions: 1, objects: 4, max_run: 2, grid: 5, empty: 0.2}}
model: {encoding: learned(max_positions=16), layers: 3, dim: 32, heads: 2}
train: {length: 12, batch: 32, steps: 1500, lr: 3e-3}
)"},
      {"indirect_indexing",
       R"(task: {indirect_indexing: {letters: 6, min_letters: 3, max_letters: 4, max_shift: 1}}
model: {encoding: rope, layers: 3, dim: 32, heads: 2}
train: {length: 9, batch: 64, steps: 1500, lr: 3e-3}
)"},
      {"custom",
       R"(task: {custom: {test_share: 0.2}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 8, batch: 32, steps: 600, lr: 4e-3}
)",
       1.0, 0.02, Files::kExamples},
      {"masked_language_model",
       R"(task:
  masked_language_model: {test_share: 0.2, random: 0, keep: 0}
model: {encoding: rope, layers: 2, dim: 32, heads: 4}
train: {length: 24, batch: 64, steps: 2000, lr: 5e-3}
eval: {samples: 4096}
)",
       testing::interleaved::best_masked(kTextLength, 0.15), 0.1, Files::kText},
      {"passage_matching",
       R"(task: {passage_matching: {test_share: 0.2, longest_context: 34}}
model: {encoding: rope, layers: 2, dim: 32, heads: 2}
train: {length: 34, batch: 32, steps: 3000, lr: 3e-3}
)",
       1.0, 0.05, Files::kDocuments},
  };
}

std::vector<Lesson> chomsky() {
  std::vector<Lesson> lessons;
  for (const auto& [kind, length] : {std::pair{"even_pairs", 16},
                                     {"reverse", 16},
                                     {"duplicate", 12},
                                     {"missing_duplicate", 9},
                                     {"odds_first", 12},
                                     {"bucket_sort", 12},
                                     {"stack", 11}}) {
    lessons.push_back({"chomsky", fmt::format(R"(task: {{chomsky: {{kind: {}}}}}
model: {{encoding: learned(max_positions=16) + rope, layers: 3, dim: 32, heads: 2}}
train: {{length: {}, batch: 32, steps: 1200, lr: 3e-3}}
)",
                                              kind, length)});
    lessons.back().kind = kind;
  }
  return lessons;
}

class Learning : public ::testing::TestWithParam<Lesson> {
 protected:
  void SetUp() override {
    set_threads(1);
    set_onednn(false);
  }
  [[nodiscard]] config::LabConfig config() const {
    std::vector<std::string> overrides;
    if (GetParam().files == Files::kText) testing::interleaved::write(folder_);
    if (GetParam().files == Files::kDocuments) testing::write_documents(folder_);
    if (GetParam().files != Files::kNone) {
      const bool one_file = GetParam().files == Files::kExamples;
      const std::string path = one_file ? write_reversals() : folder_.path();
      overrides.push_back("task." + GetParam().task + ".path=" + path);
    }
    return config::parse_config(GetParam().config, GetParam().task, overrides).config;
  }
  // All strings of three letters among six, each with the answer backwards.
  [[nodiscard]] std::string write_reversals() const {
    std::ofstream file(folder_ / "examples.jsonl");
    for (int i = 0; i < 216; ++i) {
      std::string text = {static_cast<char>('a' + i % 6), static_cast<char>('a' + i / 6 % 6),
                          static_cast<char>('a' + i / 36)};
      file << R"({"input": ")" << text << R"(", "answer": ")";
      std::reverse(text.begin(), text.end());
      file << text << "\"}\n";
    }
    return folder_ / "examples.jsonl";
  }
  TemporaryFolder folder_;
};

EvalRow learn(const config::LabConfig& config, const tasks::Task& task) {
  Trainer trainer(config, task);
  const std::int64_t steps = config::total_steps(config.train);
  while (trainer.steps() < steps) trainer.step();
  EvalSetting setting;
  setting.config = config.eval;
  setting.train_length = config::train_length(config.train);
  setting.longest = longest_length(config.model);
  return *evaluate_row(trainer.model(), task, {"train", setting.train_length}, setting);
}

TEST_P(Learning, ReachesItsCeiling) {
  const Lesson& lesson = GetParam();
  const config::LabConfig config = this->config();
  ASSERT_EQ(config::task_name(config), lesson.task);
  const auto task = tasks::make_task(config.task);
  const EvalRow row = learn(config, *task);
  fmt::print("{} {}: {} {:.4f} [{:.4f}, {:.4f}], ceiling {:.4f}, chance {:.4f}\n", lesson.task,
             lesson.kind, name_of(task->info().metric), row.headline().value,
             row.headline().interval.low, row.headline().interval.high, lesson.ceiling,
             row.region(runs::Region::kHeadline).chance);
  // From below too: better than the entropy of a text would be an answer in the input.
  EXPECT_NEAR(row.headline().value, lesson.ceiling, lesson.margin);
  EXPECT_GT(std::abs(row.region(runs::Region::kHeadline).chance - lesson.ceiling),
            5 * lesson.margin);
}

std::string task_of(const ::testing::TestParamInfo<Lesson>& info) {
  return info.param.task + (info.param.kind.empty() ? "" : "_" + info.param.kind);
}

INSTANTIATE_TEST_SUITE_P(Quick, Learning, ::testing::ValuesIn(quick()), task_of);
INSTANTIATE_TEST_SUITE_P(Slow, Learning, ::testing::ValuesIn(slow()), task_of);
INSTANTIATE_TEST_SUITE_P(SlowChomsky, Learning, ::testing::ValuesIn(chomsky()), task_of);

template <class... Configs>
std::set<std::string> names_of(const std::variant<Configs...>& /*tag*/) {
  return {std::string(Configs::kTraits.name)...};
}

TEST(Lessons, AreThereForEveryTask) {
  std::set<std::string> taught;
  for (const auto& lessons : {quick(), slow(), chomsky()}) {
    for (const Lesson& lesson : lessons) taught.insert(lesson.task);
  }
  EXPECT_EQ(taught, names_of(tasks::TaskConfig()));
}

}  // namespace
}  // namespace posenc::train

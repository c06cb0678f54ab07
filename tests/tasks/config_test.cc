// Configs as files write them, and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "core/bind.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

TaskConfig read(const char* yaml) {
  static constexpr FieldRule kRule{};
  TaskConfig config;
  read_field(parse_yaml(yaml, "config"), FieldContext{"config", "task", kRule}, config);
  return config;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TaskConfigs, AreReadFromYaml) {
  EXPECT_EQ(read("flip_flop"), TaskConfig(FlipFlop{}));
  EXPECT_EQ(
      read("{selective_counting: {density: 0.1, answer: final, labels: mixed}}"),
      TaskConfig(SelectiveCounting{
          .answer = Answer::kFinal, .labels = SelectiveCounting::Labels::kMixed, .density = 0.1}));
  const TaskConfig code = read("{language_model: {path: /usr/lib/python3, suffixes: .py}}");
  EXPECT_EQ(std::get<LanguageModel>(code).files.suffixes, ".py");
}

TEST(TaskConfigs, AreWrittenAsTheyAreRead) {
  for (const SampleTask& sample : generated_tasks()) {
    EXPECT_EQ(read(to_yaml(write_field(sample.config)).c_str()), sample.config) << sample.title;
  }
}

TEST(TaskConfigs, RefuseUnknownNamesWithASuggestion) {
  EXPECT_EQ(error_of([] { read("{selective_counting: {densty: 0.2}}"); }),
            "[selective_counting] densty is not a known key (line 1, column 23); did you mean "
            "'density'?");
  EXPECT_NE(error_of([] { read("flipflop"); }).find("did you mean 'flip_flop'?"),
            std::string::npos);
}

TEST(TaskConfigs, EveryFieldIsDocumented) {
  const auto check = []<class Config>(const Config& /*tag*/) {
    EXPECT_FALSE(Config::kTraits.doc.empty());
    for (const FieldDoc& field : describe_fields<Config>()) {
      EXPECT_FALSE(field.doc.empty()) << Config::kTraits.name << " " << field.name;
    }
  };
  [&]<class... Configs>(const std::variant<Configs...>& /*tag*/) {
    (check(Configs{}), ...);
  }(TaskConfig{});
}

TEST(TaskConfigs, FieldsSetInCodeObeyTheSameRules) {
  EXPECT_EQ(error_of([] { make_task(FlipFlop{.sparse_ignore = 1.5}); }),
            "[flip_flop] sparse_ignore must be in [0, 1] but got 1.5");
  EXPECT_EQ(error_of([] { make_task(FlipFlop{.sparse_ignore = std::nan("")}); }),
            "[flip_flop] sparse_ignore must be a finite number but got nan");
  EXPECT_EQ(error_of([] { make_task(Parity{.modulo = 1}); }),
            "[parity] modulo must be in [2, 10000] but got 1");
  EXPECT_EQ(error_of([] { make_task(Mqar{.vocabulary = 63}); }),
            "[mqar] vocabulary must be even but got 63");
}

TEST(TaskConfigs, RefuseWhatDoesNotGoTogether) {
  EXPECT_EQ(error_of([] { make_task(Mqar{.pairs = 32, .vocabulary = 64}); }),
            "[mqar] pairs must be < 32, half of the vocabulary but got 32");
  EXPECT_EQ(error_of([] { make_task(NBack{.question = 0.5}); }),
            "[n_back] question and filler (at most 0.7) together must be <= 1 but got 0.5");
  EXPECT_EQ(error_of([] { make_task(CountingProgram{.min_operations = 600}); }),
            "[counting_program] max_operations must be >= min_operations 600 but got 512");
  EXPECT_EQ(error_of([] { make_task(IthWord{.min_letters = 7}); }),
            "[ith_word] max_letters must be >= the shortest, 7 but got 6");
  EXPECT_EQ(error_of([] { make_task(MaskedLanguageModel{.random = 0.6, .keep = 0.6}); }),
            "[masked_language_model] random and keep 0.6 together must be <= 1 but got 0.6");
}

TEST(Conditions, RefuseWhatATaskCannotDo) {
  const auto fill = [](const TaskConfig& config, const Condition& condition) {
    return error_of([&] { make_batch(*make_task(config), condition, 1, 0, 1); });
  };
  EXPECT_EQ(fill(FlipFlop{}, {"spares", 64}),
            "[flip_flop] axis must be a known name but got 'spares'; did you mean 'sparse'?");
  EXPECT_EQ(fill(FlipFlop{}, {"train", 63}),
            "[flip_flop] length must be even, as instructions and bits are but got 63");
  EXPECT_EQ(fill(FlipFlop{}, {"train", 0}), "[flip_flop] length must be >= 1 positions but got 0");
  EXPECT_EQ(fill(SelectiveCounting{}, {"train", 6}),
            "[selective_counting] length must be >= 7 for the instruction and one token but got 6");
  EXPECT_EQ(fill(SelectiveCounting{}, {"longer", 64, 5}),
            "[selective_counting] length must be >= 7 in training, which longer is measured by but "
            "got 5");
  EXPECT_EQ(fill(SelectiveCounting{}, {"more", 64}),
            "[selective_counting] axis must be a known name but got 'more'; known: train, longer, "
            "beyond");
  EXPECT_EQ(fill(Parity{}, {"train", 8, -1}), "[parity] train_length must be >= 0 but got -1");
  EXPECT_EQ(fill(Mqar{}, {"train", 31}),
            "[mqar] length must be >= 32 for 8 pairs and their questions but got 31");
  EXPECT_NE(fill(Parity{}, {"train", std::int64_t{1} << 40}), "no error");
}

TEST(Conditions, RefuseABatchOfNegativeSize) {
  Batch batch;
  batch.rows = -1;
  EXPECT_EQ(error_of([&] {
              make_task(Parity{})->fill({"train", 8}, 1, 0, batch);
            }),
            "[parity] rows must be >= 0 and fit into memory but got -1");
}

TEST(Render, PutsTargetsBelowTheirTokens) {
  const auto task = make_task(FlipFlop{});
  Batch batch{1, 6, {0, 4, 2, 3, 1, 4}, {-1, -1, -1, -1, 4, -1}};
  EXPECT_EQ(render(*task, batch, 0), "w 1 i 0 r 1\n        1\n");
  EXPECT_THROW(render(*task, batch, 1), Error);
}

TEST(Render, BreaksLongRows) {
  const auto task = make_task(SelectiveCounting{});
  const std::string text = render(*task, make_batch(*task, {"train", 128}, 1, 0, 1), 0);
  std::size_t start = 0;
  int lines = 0;
  for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    EXPECT_LE(end - start, 101u);
    ++lines;
  }
  EXPECT_GE(lines, 6);
}

}  // namespace
}  // namespace posenc::tasks

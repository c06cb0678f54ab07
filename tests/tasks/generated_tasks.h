// The table of small tasks that need no files.
#pragma once

#include "tasks/solvers.h"

namespace posenc::tasks {

inline SelectiveCounting reproduction() {
  return {.answer = Answer::kFinal,
          .classes = 10,
          .min_named = 1,
          .max_named = 2,
          .noise = 4800,
          .share = SelectiveCounting::Share::kObjects,
          .density = 0.5,
          .cap = 0,
          .max_label = 1023};
}

inline std::vector<SampleTask> generated_tasks() {
  using Labels = SelectiveCounting::Labels;
  const SelectiveCounting three{.answer = Answer::kFinal,
                                .labels = Labels::kModulo,
                                .modulo = 4,
                                .min_named = 1,
                                .max_named = 3,
                                .density = 0.05,
                                .density_max = 0.6};
  const SelectiveCounting mixed{.labels = Labels::kMixed, .modulo = 3, .noise = 5};
  const CountingProgram stops{.variables = 5, .overflow = CountingProgram::Overflow::kStop};
  const CountingProgram cut{.variables = 3, .max_operations = 60};
  const Navigation ring{
      .dimensions = 1, .objects = 8, .max_run = 4, .grid = 7, .dense_grid = 7, .sparse_grid = 7};
  const Navigation torus{.objects = 8, .max_run = 3, .grid = 5, .dense_grid = 5, .sparse_grid = 5};
  const IndirectIndexing indexing{
      .letters = 30, .min_letters = 6, .max_letters = 20, .max_shift = 5};
  std::vector<SampleTask> tasks = {
      {"counting demo", SelectiveCounting{}, counting_solver(true, 10), 32},
      {"counting reproduction", reproduction(), counting_solver(false, 10), 96},
      {"counting modulo", three, counting_solver(false, 4), 48},
      {"counting mixed", mixed, counting_solver(true, 3), 40},
      {"flip_flop", FlipFlop{}, solve_flip_flop, 64},
      {"copy cope", SelectiveCopy{}, solve_copy, 60},
      {"copy mamba", SelectiveCopy{.form = SelectiveCopy::Form::kMamba, .copied = 6}, solve_copy,
       70},
      {"program one", CountingProgram{.max_operations = 20}, solve_program, 96},
      {"program cut", cut, solve_program, 64},
      {"program stops", stops, solve_program, 64},
      {"mqar", Mqar{.pairs = 6, .vocabulary = 64}, mqar_solver(6), 48, true},
      {"mqar blanks", Mqar{.pairs = 5, .vocabulary = 60, .random_fillers = false}, mqar_solver(5),
       33},
      {"n_back", NBack{}, n_back_solver(2), 64},
      {"n_back three", NBack{.back = 3, .variables = 2, .values = 5}, n_back_solver(3), 41},
      {"ith_word", IthWord{}, segments_solver("_", false), 64},
      {"last_sentence", LastSentence{}, segments_solver(".", true), 80},
      {"passkey", Passkey{}, solve_passkey, 64},
      {"passkey random", Passkey{.digits = 3, .filler = Passkey::Filler::kRandom}, solve_passkey,
       50},
      {"passkey distractors", Passkey{.digits = 2, .distractors = 3}, solve_passkey, 60},
      {"indirect_indexing", indexing, solve_indirect_indexing, 25},
      {"navigation ring", ring, navigation_solver(7), 40},
      {"navigation torus", torus, navigation_solver(5), 48},
      {"word_problem s5", WordProblem{}, word_problem_solver(true), 20},
      {"word_problem a5", WordProblem{WordProblem::Group::kA5, Answer::kFinal},
       word_problem_solver(false), 12},
      {"word_problem s3", WordProblem{.group = WordProblem::Group::kS3}, word_problem_solver(true),
       16},
      {"parity", Parity{}, parity_solver(false, 2), 24},
      {"sums", Parity{.modulo = 7, .answer = Answer::kRunning}, parity_solver(true, 7), 24},
  };
  const auto kinds = enum_names(Chomsky::Kind{});
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::string kind(kinds[k]);
    tasks.push_back(
        {"chomsky " + kind, Chomsky{static_cast<Chomsky::Kind>(k)}, chomsky_solver(kind), 27});
  }
  return tasks;
}

}  // namespace posenc::tasks

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
  return {
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
      {"parity", Parity{}, parity_solver(false, 2), 24},
      {"sums", Parity{.modulo = 7, .answer = Answer::kRunning}, parity_solver(true, 7), 24},
  };
}

}  // namespace posenc::tasks

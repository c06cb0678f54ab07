// The closed set of tasks. In YAML: `task: flip_flop` or `task: {flip_flop: {sparse_ignore: 0.9}}`.
#pragma once

#include <variant>

#include "tasks/chomsky.h"
#include "tasks/counting_program.h"
#include "tasks/custom.h"
#include "tasks/flip_flop.h"
#include "tasks/indirect_indexing.h"
#include "tasks/language_model.h"
#include "tasks/masked_language_model.h"
#include "tasks/mqar.h"
#include "tasks/n_back.h"
#include "tasks/navigation.h"
#include "tasks/parity.h"
#include "tasks/passage_matching.h"
#include "tasks/passkey.h"
#include "tasks/segments.h"
#include "tasks/selective_copy.h"
#include "tasks/selective_counting.h"
#include "tasks/word_problem.h"

namespace posenc::tasks {

using TaskConfig =
    std::variant<SelectiveCounting, FlipFlop, SelectiveCopy, CountingProgram, Mqar, NBack, IthWord,
                 LastSentence, IndirectIndexing, Navigation, Passkey, Parity, WordProblem, Chomsky,
                 LanguageModel, MaskedLanguageModel, PassageMatching, Custom>;

}  // namespace posenc::tasks

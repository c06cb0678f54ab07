// Language modelling over token files, which may be larger than memory.
#pragma once

#include "tasks/language_model.h"

namespace posenc::tasks {

// Reads the index, checks the files' sizes and the tokenizer and, up to 256 MB, all checksums. An Error
// names the file.
std::unique_ptr<Task> make_token_task(const LanguageModel& config);

}  // namespace posenc::tasks

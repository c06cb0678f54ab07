// Names of tokens that several tasks share.
#pragma once

#include <cstdint>
#include <string>

#include "tasks/task.h"

namespace posenc::tasks {

// A .. Z where there are that few, else C0, C1, ...; the same for small letters.
std::string class_name(std::int64_t index, std::int64_t classes);
std::string letter_name(std::int64_t index, std::int64_t letters);

// Tokens from first_number on are the numbers 0, 1, ... to the vocabulary's end; an Error past it.
std::string number_name(std::int32_t token, std::int32_t first_number, const TaskInfo& info);

// A byte as it is, or escaped where it would not be seen: \s for a space, \n, \x80.
std::string byte_name(std::int32_t byte);

}  // namespace posenc::tasks

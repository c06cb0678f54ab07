// Generated tables, such as Python's encodings/*.py: they repeat each other, and are not text.
#pragma once

#include "tasks/document.h"

namespace posenc::tasks {

// Whether more than half of the lines that are not blank start with a number or a character literal
// and a separator: "0x80: 0x20ac,", "'\x00'  #  NULL", "{0x41, 0x5a, 1},".
bool is_number_table(Bytes bytes);

}  // namespace posenc::tasks

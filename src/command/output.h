// Standard output at the end of a program: a full disk is noticed only when the last bytes are written.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

namespace posenc::command {

// Flushes the standard output. "[standard output] cannot be written: No space left on device" where that or an earlier
// write failed; `thrown` is the exception of that write, if there was one: without it the reason is not known. Empty for a
// pipe whose reader has gone.
std::string output_problem(std::FILE* standard_output, const std::exception* thrown = nullptr);

// Whether a write failed because the reader of the pipe has gone, where SIGPIPE is ignored: not worth a message.
bool is_closed_pipe(const std::exception& thrown);

}  // namespace posenc::command

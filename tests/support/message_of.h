// What a call says when it throws.
#pragma once

#include <exception>
#include <string>

namespace posenc::testing {

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "nothing was thrown";
}

}  // namespace posenc::testing

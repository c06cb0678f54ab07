// What every task's config names about itself, and words that several configs share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "posenc/core/fields.h"

namespace posenc::tasks {

struct TaskTraits {
  std::string_view name = {};  // as a config file writes it
  std::string_view doc = {};   // one line
  std::string_view paper = {};
};

class Task;  // task.h

// Whether a question is asked once, at the end, or after every token.
enum class Answer { kFinal, kRunning };
constexpr std::array<std::string_view, 2> enum_names(Answer /*tag*/) {
  return {"final", "running"};
}

}  // namespace posenc::tasks

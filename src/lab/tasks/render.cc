#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "posenc/core/error.h"
#include "tasks/task.h"

namespace posenc::tasks {
namespace {

constexpr std::size_t kColumns = 100;

void append_line(std::string line, std::string& text) {
  line.erase(line.find_last_not_of(' ') + 1);
  if (!line.empty()) text += line + "\n";
}

}  // namespace

std::string render(const Task& task, const Batch& batch, std::int64_t row) {
  if (row < 0 || row >= batch.rows) {
    throw Error(ErrorKind::kOutOfRange,
                {.scope = task.info().name,
                 .key = "row",
                 .rule = fmt::format("must be one of the batch's {} rows, from 0", batch.rows),
                 .value = std::to_string(row)});
  }
  std::string text;
  std::string tokens;
  std::string targets;
  for (std::int64_t t = 0; t < batch.length; ++t) {
    const auto i = static_cast<std::size_t>(row * batch.length + t);
    const std::string token = task.token_text(batch.tokens[i]);
    const std::string target =
        batch.targets[i] == kUnscored ? "" : task.token_text(batch.targets[i]);
    const std::size_t width = std::max(token.size(), target.size());
    if (!tokens.empty() && tokens.size() + width > kColumns) {
      append_line(std::exchange(tokens, ""), text);
      append_line(std::exchange(targets, ""), text);
    }
    tokens += fmt::format("{:<{}} ", token, width);
    targets += fmt::format("{:<{}} ", target, width);
  }
  append_line(tokens, text);
  append_line(targets, text);
  return text;
}

}  // namespace posenc::tasks

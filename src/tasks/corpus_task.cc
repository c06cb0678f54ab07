#include "tasks/corpus_task.h"

#include <fmt/format.h>

#include "tasks/words.h"

namespace posenc::tasks {

std::string CorpusTask::token_text(std::int32_t token) const {
  if (token == kPadByte) return "<pad>";
  if (token >= 0 && token < kPadByte) return byte_name(token);
  return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
}

std::span<const Document> CorpusTask::documents(const Request& request) const {
  const std::span<const Document> documents = corpus_.documents(request.held_out);
  if (!documents.empty()) return documents;
  throw error(
      ErrorKind::kConflict,
      {.key = "test_share",
       .rule = "must leave files of min_test_bytes or more to be held out, and there are none",
       .hint = "name more files, or lower min_test_bytes"});
}

WindowIndex CorpusTask::window_index(const Request& request, std::int64_t window) const {
  WindowIndex index(documents(request), window);
  if (index.starts() > 0) return index;
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must leave a {} file with a window of {} bytes in it",
                                   request.held_out ? "test" : "training", window),
               .value = std::to_string(request.length)});
}

void CorpusTask::require_rows(const Request& request, std::int64_t rows) const {
  const auto end = request.first_row + static_cast<std::uint64_t>(request.batch->rows);
  if (end <= static_cast<std::uint64_t>(rows) && end >= request.first_row) return;
  throw error(ErrorKind::kOutOfRange,
              {.key = "rows",
               .rule = fmt::format("must be among the {} that axis {} has at length {}", rows,
                                   axis(request.axis).name, request.length),
               .value = fmt::format("{} to {}", request.first_row, end)});
}

}  // namespace posenc::tasks

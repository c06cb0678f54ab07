#include "tasks/corpus_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "tasks/words.h"

namespace posenc::tasks {
namespace {

enum AxisIndex : std::size_t { kTrain, kLonger };

bool drawn_at_random(const Request& request) {
  return request.axis == kTrain && request.split == Split::kTrain;
}

}  // namespace

std::string CorpusTask::token_text(std::int32_t token) const {
  if (token >= 0 && token < kBytes) return byte_name(token);
  return number_name(token, static_cast<std::int32_t>(info().vocabulary), info());  // an error
}

std::span<const Document> CorpusTask::documents(const Request& request) const {
  const std::span<const Document> documents = corpus_.documents(request.split);
  if (!documents.empty()) return documents;
  if (request.split == Split::kTrain) {
    throw error(ErrorKind::kConflict,
                {.key = "max_shared",
                 .rule = "must leave files to train on, and all of them repeat held-out text",
                 .hint = "remove copies of files, or raise max_shared"});
  }
  throw error(
      ErrorKind::kConflict,
      {.key = request.split == Split::kTest ? "test_share" : "validation_share",
       .rule = fmt::format("must leave {} documents of more than longest_context ({}) bytes, "
                           "and there are none",
                           split_name(request.split), longest_context_),
       .hint = "name more files, raise the share, or lower longest_context"});
}

void CorpusTask::require_context(const Request& request) const {
  if (request.length <= longest_context_) return;
  throw error(ErrorKind::kOutOfRange,
              {.key = "length",
               .rule = fmt::format("must be <= {} (longest_context)", longest_context_),
               .value = std::to_string(request.length),
               .hint = "raise longest_context, which holds out longer documents"});
}

WindowTask::WindowTask(const CorpusFiles& files, std::int64_t scored, TaskInfo info)
    : CorpusTask(files, std::move(info),
                 {{"train", "windows scored everywhere", true},
                  {"longer", "the same bytes scored after a longer context"}}),
      scored_(scored) {}

// At most half the training length: in a training row, each scored byte then has the other half before it.
std::int64_t WindowTask::scored_bytes(const Request& request) const {
  if (request.axis == kTrain) return request.length;
  const std::int64_t half = std::max<std::int64_t>(1, request.train_length / 2);
  const std::int64_t scored = std::min({scored_, half, longest_context()});
  const std::int64_t more = request.length - request.train_length;
  if (request.length >= scored && (more <= 0 || more >= scored)) return scored;
  throw error(
      ErrorKind::kOutOfRange,
      {.key = "length",
       .rule = fmt::format("must be from {0} (scored) to the training length {1}, or at least "
                           "{0} more",
                           scored, request.train_length),
       .value = std::to_string(request.length),
       .hint = "choose another length, or lower scored"});
}

BlockList WindowTask::blocks(const Request& request) const {
  require_context(request);
  const std::int64_t scored = scored_bytes(request);
  return {documents(request), scored, request.axis == kTrain ? request.length : longest_context()};
}

std::optional<std::int64_t> WindowTask::rows(const Condition& condition) const {
  const Request request = checked(condition);
  if (drawn_at_random(request)) return std::nullopt;
  return blocks(request).size();
}

std::optional<std::uint32_t> WindowTask::cluster(const Condition& condition,
                                                 std::uint64_t row) const {
  const Request request = checked(condition);
  if (drawn_at_random(request)) return std::nullopt;
  const BlockList windows = blocks(request);
  if (row >= static_cast<std::uint64_t>(windows.size())) return std::nullopt;
  return static_cast<std::uint32_t>(windows.document(static_cast<std::int64_t>(row)));
}

void WindowTask::fill_rows(const Request& request) const {
  if (drawn_at_random(request)) return fill_random(request);
  const BlockList windows = blocks(request);
  require_rows(request, windows.size());
  const auto first_scored = static_cast<std::size_t>(request.length - scored_bytes(request));
  Request alike = request;
  alike.key = request.shared_key;
  for_each_row(alike, [&](Row row, Draw& draw, std::uint64_t number) {
    put(windows.window(static_cast<std::int64_t>(number), request.length + 1), first_scored, draw,
        row);
  });
}

void WindowTask::fill_random(const Request& request) const {
  const WindowIndex windows(documents(request), request.length + 1);
  if (windows.starts() == 0) {
    throw error(ErrorKind::kOutOfRange,
                {.key = "length",
                 .rule = fmt::format("must leave a training document of more than {} bytes",
                                     request.length),
                 .value = std::to_string(request.length)});
  }
  for_each_row(request, [&](Row row, Draw& draw, std::uint64_t /*number*/) {
    put(windows.at(draw.below_large(windows.starts())), 0, draw, row);
  });
}

}  // namespace posenc::tasks

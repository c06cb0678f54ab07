#include "serve/attention_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/bind.h"
#include "posenc/core/error.h"
#include "report/page_maps.h"
#include "report/record_choice.h"
#include "serve/request.h"
#include "weights/messages.h"

namespace posenc::serve {
namespace {

struct Record {
  std::string file;
  RecordName name;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

std::vector<Record> records_of(const Folder& run) {
  const std::string name = "attention";
  std::vector<Record> records;
  const auto folder = run.folder(std::span(&name, 1));
  if (!folder) return records;
  for (const std::string& file : folder->names()) {
    const auto parsed = parse_record_name(file);
    const auto open = parsed ? folder->file(file) : std::nullopt;
    if (open) records.push_back({file, *parsed, open->size, open->modified_ns});
  }
  return records;
}

Value record_value(const RunPath& path, const Record& record) {
  return {Value::Data(
      Value::Map{{"file", write_field(record.file)},
                 {"url", write_field(run_url(path) + "attention/" + percent_encoded(record.file))},
                 {"axis", write_field(record.name.axis)},
                 {"length", write_field(record.name.length)},
                 {"sample", write_field(record.name.sample)},
                 {"best", write_field(record.name.best)},
                 {"bytes", write_field(static_cast<std::int64_t>(record.bytes))}})};
}

// The newest record that matches the request.
std::optional<Record> record_for(const AttentionRequest& request, const Folder& run) {
  std::optional<Record> found;
  for (const Record& record : records_of(run)) {
    const bool fits = record.name.sample == request.sample &&
                      record.name.length == request.length && !record.name.best;
    if (fits && (!found || record.modified_ns > found->modified_ns)) found = record;
  }
  return found;
}

// A checkpoint is renamed into its folder, which changes the folder's time.
bool is_current(const Record& record, const Folder& run) {
  const std::string name = "checkpoints";
  const auto checkpoints = run.folder(std::span(&name, 1));
  return !checkpoints || checkpoints->modified_ns() <= record.modified_ns;
}

Response done(const RunPath& path, const Record& record) {
  return json_response({Value::Data(Value::Map{{"state", write_field(std::string("done"))},
                                               {"record", record_value(path, record)}})});
}

Response later(Response response, const char* seconds) {
  response.headers.emplace_back("Retry-After", seconds);
  return response;
}

Response running(const AttentionJobs::Answer& answer) {
  return later(json_response({Value::Data(Value::Map{{"state", write_field(std::string("running"))},
                                                     {"seconds", write_field(answer.seconds)}})},
                             202),
               "1");
}

}  // namespace

Value records_value(const RunPath& path, const Folder& run) {
  Value::List list;
  for (const Record& record : records_of(run)) list.push_back(record_value(path, record));
  return {Value::Data(Value::Map{{"records", {Value::Data(std::move(list))}}})};
}

Response maps_response(const RunPath& path, const File& file, const std::string& name) {
  if (file.size > report::kLargestRecord) {
    return error_response(
        500,
        fmt::format("[{}] has {} bytes, and the page shows records of up to {}; request a shorter "
                    "sample, or draw it with posenc attention",
                    name, file.size, report::kLargestRecord));
  }
  const std::string handle = file.handle_path();
  try {
    const std::string run = path.empty() ? "this run" : fmt::format("{}", fmt::join(path, "/"));
    return json_response(report::page_record(runs::read_attention(handle), run));
  } catch (const Error& error) {
    return error_response(500, with_name(error.what(), handle, name));
  }
}

Response record_response(AttentionJobs& jobs, const AttentionRequest& request, const RunPath& path,
                         const Folder& run) {
  AttentionJobs::Answer answer = jobs.look(request);
  using State = AttentionJobs::State;
  if (answer.state == State::kRunning) return running(answer);
  if (answer.state == State::kFailed) return error_response(500, answer.message);
  const auto record = record_for(request, run);
  if (record && (answer.state == State::kDone || is_current(*record, run))) {
    return done(path, *record);
  }
  if (answer.state == State::kDone) {
    return error_response(500,
                          "[attention] the program exited without an error but wrote no record");
  }
  if (answer.state != State::kBusy) {
    if (const auto other = run.find_other()) {
      return error_response(
          409, fmt::format("[attention] {} is a link or no regular file, which the server does not "
                           "follow; replace it by what it stands for",
                           weights::in_quotes(*other)));
    }
    // No descriptor left for it: as good as busy.
    if (auto own = run.folder({})) answer = jobs.start(request, *std::move(own));
  }
  if (answer.state == State::kRunning) return running(answer);
  return later(error_response(503, "[attention] another sample is being computed; try again soon"),
               "2");
}

}  // namespace posenc::serve

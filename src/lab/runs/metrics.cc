#include "runs/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "runs/files.h"
#include "runs/numbers.h"
#include "system/file_errors.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(const Value& row) {
  const Value* kind = row.find("kind");
  const Value* step = row.find("step");
  const auto* number = step == nullptr ? nullptr : step->get_if<std::int64_t>();
  if (kind == nullptr || kind->get_if<std::string>() == nullptr || number == nullptr) {
    return std::nullopt;
  }
  return *number;
}

struct Row {
  Value value;
  std::int64_t step = 0;
  std::size_t begin = 0;  // bytes of the file, newline included
  std::size_t end = 0;
};

struct Content {
  std::vector<Row> rows;
  std::string torn;
};

std::optional<Row> parse_row(std::string_view line, const std::string& path) {
  try {
    Row row{with_non_finite(parse_json(line, path))};
    const auto step = step_of(row.value);
    if (!step) return std::nullopt;
    row.step = *step;
    return row;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The last line counts only when its newline is there; after a crash of the machine it may also be
// there in length alone.
Content parse_rows(std::string_view text, const std::string& path) {
  Content content;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const std::size_t end = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view line = text.substr(begin, end - begin);
    std::optional<Row> row;
    if (newline != std::string_view::npos) row = parse_row(line, path);
    if (!row && end == text.size()) {
      content.torn = line;
      return content;
    }
    if (!row) {
      throw file_error(
          ErrorKind::kSyntax, path, "",
          fmt::format("has in line {} no JSON object with kind and step", content.rows.size() + 1),
          "", "the file is damaged; remove that line");
    }
    row->begin = begin;
    row->end = end;
    content.rows.push_back(*std::move(row));
    begin = end;
  }
  return content;
}

std::string text_of(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) || error ? read_file(path.string()) : "";
}

void cut(int file, std::size_t size, const fs::path& path) {
  if (::ftruncate(file, static_cast<off_t>(size)) != 0) {
    throw write_error(path.string(), errno);
  }
}

}  // namespace

MetricsWriter::MetricsWriter(fs::path path) : path_(std::move(path)) {
  const std::string text = text_of(path_);
  const Content content = parse_rows(text, path_.string());
  file_ = open_regular(path_.string(), O_WRONLY | O_CREAT | O_APPEND);
  if (file_.number() < 0) throw write_error(path_.string(), errno);
  if (!content.torn.empty()) cut(file_.number(), text.size() - content.torn.size(), path_);
}

void MetricsWriter::append(const Value& row) {
  if (!step_of(row)) {
    throw file_error(ErrorKind::kMissingKey, path_.string(), "",
                     "takes rows with kind (text) and step (integer)", describe(row), "");
  }
  append_whole(file_, to_json(without_non_finite(row)) + "\n", path_);
}

void MetricsWriter::truncate_after(std::int64_t step) {
  const std::string text = text_of(path_);
  const Content content = parse_rows(text, path_.string());
  std::string kept;
  bool from_the_end = true;  // are the rows to drop the last ones, as they should be?
  for (const Row& row : content.rows) {
    if (row.step > step) continue;
    from_the_end = from_the_end && row.begin == kept.size();
    kept.append(text, row.begin, row.end - row.begin);
  }
  if (kept.size() == text.size()) return;
  if (from_the_end) return cut(file_.number(), kept.size(), path_);
  atomic_write(path_, kept);
  file_ = open_regular(path_.string(), O_WRONLY | O_APPEND);
  if (file_.number() < 0) throw write_error(path_.string(), errno);
}

void MetricsWriter::sync() {
  if (::fsync(file_.number()) != 0) throw write_error(path_.string(), errno);
}

std::vector<Value> read_metrics(const fs::path& path, std::string* torn) {
  Content content = parse_rows(text_of(path), path.string());
  if (torn != nullptr) *torn = content.torn;
  std::vector<Value> rows;
  for (Row& row : content.rows) rows.push_back(std::move(row.value));
  return rows;
}

}  // namespace posenc::runs

#include "tasks/corpus_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/strings.h"
#include "tasks/draw.h"
#include "tasks/task.h"

namespace posenc::tasks {
namespace {

constexpr double kLargestFolder = 0.25;  // of all bytes, to stay together
constexpr std::int64_t kMostPieces = 16;
constexpr std::size_t kLongestLine =
    4096;  // where no line ends nearby, a cut is between any two bytes

std::string folder_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash + 1);
}

// Files that go to one side together.
struct Unit {
  std::uint64_t hash = 0;
  std::vector<Document> files;
  double long_bytes = 0.0;  // of files that are long enough to be evaluated
  Split side = Split::kTrain;
};

double total_bytes(std::span<const Document> files) {
  double total = 0.0;
  for (const Document& file : files) total += static_cast<double>(file.bytes.size());
  return total;
}

std::vector<Unit> units_by_hash(std::span<const Document> files, const CorpusFiles& config) {
  std::map<std::string, double> folders;
  for (const Document& file : files) {
    folders[folder_of(file.name)] += static_cast<double>(file.bytes.size());
  }
  const double most = kLargestFolder * total_bytes(files);
  std::map<std::string, Unit> units;
  for (const Document& file : files) {
    const std::string folder = folder_of(file.name);
    const std::string& key = folder.empty() || folders[folder] > most ? file.name : folder;
    Unit& unit = units[key];
    unit.hash = mixed(fnv1a(key));
    unit.files.push_back(file);
    const auto size = std::ssize(file.bytes);
    if (size > config.longest_context) unit.long_bytes += static_cast<double>(size);
  }
  std::vector<Unit> sorted;
  for (auto& [key, unit] : units) sorted.push_back(std::move(unit));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Unit& a, const Unit& b) { return a.hash < b.hash; });
  return sorted;
}

// Gives units that are trained on to `side` until it has so many bytes.
void hold_out(std::vector<Unit>& units, double bytes, Split side) {
  auto left = std::count_if(units.begin(), units.end(),
                            [](const Unit& unit) { return unit.side == Split::kTrain; });
  double taken = 0.0;
  for (Unit& unit : units) {
    if (taken >= bytes || left <= 1) return;  // something is left to train on
    if (unit.side != Split::kTrain || unit.long_bytes == 0.0) continue;
    unit.side = side;
    taken += unit.long_bytes;
    --left;
  }
}

// The start of the line that holds byte `at`.
std::size_t line_start(Bytes bytes, std::size_t at) {
  const std::size_t least = at > kLongestLine ? at - kLongestLine : 0;
  for (std::size_t start = at; start > least; --start) {
    if (bytes[start - 1] == '\n') return start;
  }
  return at;
}

Document part_of(const Document& text, std::size_t begin, std::size_t end) {
  return {fmt::format("{}:{}", text.name, begin), text.bytes.subspan(begin, end - begin)};
}

// Several pieces, since documents are what a confidence interval is over; each has room for contexts.
std::vector<Document> pieces(const Document& text, std::size_t begin, std::size_t end,
                             std::int64_t longest) {
  const auto size = static_cast<std::int64_t>(end - begin);
  const auto count =
      static_cast<std::size_t>(std::clamp<std::int64_t>(size / (4 * longest), 1, kMostPieces));
  std::vector<Document> documents;
  std::size_t start = begin;
  for (std::size_t i = 1; i <= count; ++i) {
    const std::size_t cut = begin + static_cast<std::size_t>(size) * i / count;
    const std::size_t stop = i == count ? end : line_start(text.bytes, cut);
    documents.push_back(part_of(text, start, stop));
    start = stop;
  }
  return documents;
}

}  // namespace

SplitDocuments split_files(std::span<const Document> files, const CorpusFiles& config) {
  std::vector<Unit> units = units_by_hash(files, config);
  const double total = total_bytes(files);
  hold_out(units, config.test_share * total, Split::kTest);
  hold_out(units, config.validation_share * total, Split::kValidation);
  SplitDocuments split;
  for (const Unit& unit : units) {
    std::vector<Document>& side = split[static_cast<std::size_t>(unit.side)];
    side.insert(side.end(), unit.files.begin(), unit.files.end());
  }
  for (std::vector<Document>& side : split) {
    // All are parts of one storage, which is in the order of names.
    std::sort(side.begin(), side.end(),
              [](const Document& a, const Document& b) { return a.bytes.data() < b.bytes.data(); });
  }
  return split;
}

SplitDocuments split_text(const Document& text, const CorpusFiles& config) {
  SplitDocuments split;
  std::size_t end = text.bytes.size();  // of what is not held out yet
  const auto whole = static_cast<double>(end);
  const auto hold_out_end = [&](Split side, double share) {
    const auto bytes = static_cast<std::size_t>(std::llround(share * whole));
    const auto gap = static_cast<std::size_t>(config.longest_context);
    if (bytes == 0 || bytes >= end) return;
    const std::size_t begin = line_start(text.bytes, end - bytes);
    if (begin <= gap) return;  // nothing would be left to train on
    split[static_cast<std::size_t>(side)] = pieces(text, begin, end, config.longest_context);
    end = line_start(text.bytes, begin - gap);
  };
  hold_out_end(Split::kTest, config.test_share);
  hold_out_end(Split::kValidation, config.validation_share);
  split[static_cast<std::size_t>(Split::kTrain)].push_back(part_of(text, 0, end));
  return split;
}

}  // namespace posenc::tasks

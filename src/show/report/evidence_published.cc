#include <fmt/format.h>

#include <algorithm>

#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"
#include "report/evidence.h"
#include "report/words.h"

namespace posenc::report {
namespace {

std::string canonical(const std::string& encoding) {
  try {
    return to_text(parse_spec(encoding));
  } catch (const Error&) {
    return encoding;  // a list of encodings by layer
  }
}

bool fits(const FlatConfig& fields, const runs::PublishedTable& table) {
  return std::all_of(table.where.begin(), table.where.end(), [&](const auto& wanted) {
    return std::find(fields.begin(), fields.end(), wanted) != fields.end();
  });
}

bool fits(const Entry& entry, const EvidencePart& part, const runs::PublishedTable& table) {
  if (table.where.empty()) return true;
  return std::any_of(part.runs.begin(), part.runs.end(), [&](const Run& run) {
    const bool own =
        std::find(entry.paths.begin(), entry.paths.end(), run.path.string()) != entry.paths.end();
    return own && fits(training_fields(run.config), table);
  });
}

struct FoundEntry {
  const TaskTable* table = nullptr;
  const Entry* entry = nullptr;
};

std::vector<FoundEntry> find_entries(const EvidencePart& part,
                                     const runs::PublishedTable& published,
                                     const std::string& encoding) {
  std::vector<FoundEntry> found;
  if (encoding.empty()) return found;
  for (const TaskTable& table : part.comparison.tasks) {
    for (const Entry& entry : table.entries) {
      if (canonical(entry.encoding) != canonical(encoding)) continue;
      if (fits(entry, part, published)) found.push_back({&table, &entry});
    }
  }
  return found;
}

// Without a length: the trained one if the axis has it, else the shortest.
const Cell* find_cell(const Entry& entry, const runs::PublishedValue& value) {
  const Cell* found = nullptr;
  for (const Cell& cell : entry.cells) {
    if (cell.axis != value.axis || cell.n == 0 || !cell.schedule.empty()) continue;
    if (value.length != 0 && cell.length != value.length) continue;
    if (cell.factor == 1.0) return &cell;
    if (found == nullptr || cell.length < found->length) found = &cell;
  }
  return found;
}

// A share as its complement: an error for an accuracy.
Cell complement(const Cell& cell) {
  Cell other = cell;
  for (RegionFigure& figure : other.regions) {
    figure.mean = 1.0 - figure.mean;
    for (double& point : figure.points) point = 1.0 - point;
    if (figure.interval) {
      figure.interval = {1.0 - figure.interval->high, 1.0 - figure.interval->low};
    }
  }
  return other;
}

std::string ours_text(const FoundEntry& found, const runs::PublishedValue& value,
                      const runs::PublishedTable& published) {
  const Cell* cell = found.entry == nullptr ? nullptr : find_cell(*found.entry, value);
  if (cell == nullptr) return kNothing;
  const Metric metric = published.metric;
  const Metric own = found.table->metric;
  if (own != metric && !(traits_of(own).share && traits_of(metric).share)) return kNothing;
  const bool single = published.single_answers && found.table->row_metric;
  const Cell ours = single ? single_answers(*cell) : *cell;
  const Cell shown = own == metric ? ours : complement(ours);
  return evidence_text(&shown, metric);
}

std::string value_name(const runs::PublishedValue& value) {
  const std::string axis = value.axis == kInDomain ? "in domain" : value.axis;
  return value.length == 0 ? axis : fmt::format("{} ({})", axis, value.length);
}

std::vector<std::string> value_names(const runs::PublishedTable& table) {
  std::vector<std::string> names;
  for (const runs::PublishedRow& row : table.rows) {
    for (const runs::PublishedValue& value : row.values) {
      const std::string name = value_name(value);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> published_row(const EvidencePart& part, const runs::PublishedTable& table,
                                       const runs::PublishedRow& row) {
  const std::vector<FoundEntry> entries = find_entries(part, table, row.encoding);
  const FoundEntry found = entries.empty() ? FoundEntry{} : entries.front();
  std::vector<std::string> cells = {row.name, row.encoding.empty() ? kNothing : row.encoding};
  for (const std::string& name : value_names(table)) {
    const auto value =
        std::find_if(row.values.begin(), row.values.end(),
                     [&](const runs::PublishedValue& v) { return value_name(v) == name; });
    cells.push_back(value == row.values.end()
                        ? kNothing
                        : fmt::format("{:g} / {}", value->value, ours_text(found, *value, table)));
  }
  return cells;
}

// ", train.lr=0.0002: accuracy in % of single answers".
std::string table_words(const runs::PublishedTable& table) {
  std::string variant;
  for (const auto& [field, value] : table.where) variant += fmt::format(", {}={}", field, value);
  return fmt::format("{}: {}{}", variant, traits_of(table.metric).title,
                     table.single_answers ? " of single answers" : "");
}

}  // namespace

std::vector<TextTable> published_tables(const EvidencePart& part) {
  std::vector<TextTable> tables;
  for (const runs::PublishedTable& published : part.published) {
    TextTable table{
        .title = fmt::format("{}{}, published / ours", published.source, table_words(published)),
        .header = {"source", "ours"},
        .rows = {},
        .notes = {}};
    for (const std::string& name : value_names(published)) table.header.push_back(name);
    for (const runs::PublishedRow& row : published.rows) {
      table.rows.push_back(published_row(part, published, row));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

std::vector<std::string> published_problems(const EvidencePart& part,
                                            const std::vector<std::string>& encodings,
                                            const std::vector<FlatConfig>& jobs) {
  std::vector<std::string> problems;
  for (const runs::PublishedTable& table : part.published) {
    for (const runs::PublishedRow& row : table.rows) {
      const bool known =
          row.encoding.empty() ||
          std::any_of(encodings.begin(), encodings.end(), [&](const std::string& encoding) {
            return canonical(encoding) == canonical(row.encoding);
          });
      if (!known) {
        problems.push_back(fmt::format("{}, row {}: no job of part {} has the encoding {}",
                                       table.source, row.name, part.part, row.encoding));
      }
      const std::size_t variants = find_entries(part, table, row.encoding).size();
      if (variants > 1) {
        problems.push_back(fmt::format(
            "{}, row {}: {} variants of part {} have the encoding {}; choose one with `where`",
            table.source, row.name, variants, part.part, row.encoding));
      }
    }
    const bool any = std::any_of(jobs.begin(), jobs.end(),
                                 [&](const FlatConfig& fields) { return fits(fields, table); });
    if (!any) {
      problems.push_back(
          fmt::format("{}: no job of part {} fits its `where`", table.source, part.part));
    }
  }
  return problems;
}

}  // namespace posenc::report

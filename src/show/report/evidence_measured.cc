#include "report/evidence_measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "posenc/core/error.h"

namespace posenc::report {
namespace {

struct Row {
  std::string setting;   // the model and where it was trained
  std::string encoding;  // as a row of the table
  std::int64_t length = 0;
  std::optional<double> speed, composed_speed, memory, composed_memory;
};

// Tables of positions grow with the length: "cope(npos_max=64)" and "learned(max_positions=512)" are named alike at
// every length.
std::string row_of(const std::string& encoding) {
  const std::size_t at = encoding.find("learned(");
  if (at == std::string::npos) return encoding;
  const std::size_t end = encoding.find(')', at);
  return encoding.substr(0, at) + "learned" +
         (end == std::string::npos ? "" : encoding.substr(end + 1));
}

template <class T>
void add_once(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

std::optional<double> number(const nlohmann::json& row, const char* key) {
  const nlohmann::json& value = row.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// "1 layer", "4 layers".
std::string counted(int number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string setting_of(const nlohmann::json& row) {
  return fmt::format("{}, width {}, {}, {}, {}", counted(row.at("layers").get<int>(), "layer"),
                     row.at("dim").get<int>(), counted(row.at("heads").get<int>(), "head"),
                     row.at("precision").get<std::string>(), row.at("device").get<std::string>());
}

std::vector<Row> read(std::string_view json, const std::string& scope) {
  try {
    std::vector<Row> rows;
    for (const nlohmann::json& row : nlohmann::json::parse(json)) {
      rows.push_back({setting_of(row), row_of(row.at("encoding").get<std::string>()),
                      row.at("length").get<std::int64_t>(), number(row, "tokens_per_s"),
                      number(row, "composed_tokens_per_s"), number(row, "peak_bytes"),
                      number(row, "composed_peak_bytes")});
    }
    return rows;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kSyntax, {.scope = scope,
                                     .key = "rows",
                                     .rule = "must be the rows of posenc bench train --output",
                                     .value = "",
                                     .hint = e.what()});
  }
}

// Three digits, as many as two runs of a benchmark share at best.
std::string shown(std::optional<double> value, double unit) {
  if (!value) return "-";
  const double scaled = *value / unit;
  return fmt::format("{:.{}f}", scaled, scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2);
}

using FigureOf = std::optional<double> Row::*;

// Of rows of one setting.
TextTable table_of(const std::vector<Row>& rows, const std::string& title, FigureOf ours,
                   FigureOf composed, double unit) {
  std::vector<std::string> encodings;
  std::vector<std::int64_t> lengths;
  for (const Row& row : rows) {
    add_once(encodings, row.encoding);
    add_once(lengths, row.length);
  }
  TextTable table{.title = fmt::format("{} ({})", title, rows.front().setting),
                  .header = {"encoding"},
                  .rows = {},
                  .notes = {}};
  for (const std::int64_t length : lengths) table.header.push_back(fmt::format("{}", length));
  for (const std::string& encoding : encodings) {
    std::vector<std::string> cells = {encoding};
    for (const std::int64_t length : lengths) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
        return r.encoding == encoding && r.length == length;
      });
      cells.push_back(row == rows.end() ? ""
                                        : fmt::format("{} / {}", shown((*row).*ours, unit),
                                                      shown((*row).*composed, unit)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

std::vector<TextTable> measured_tables(std::string_view json, const std::string& scope) {
  const std::vector<Row> rows = read(json, scope);
  std::vector<std::string> settings;
  for (const Row& row : rows) add_once(settings, row.setting);
  std::vector<TextTable> tables;
  for (const std::string& setting : settings) {
    std::vector<Row> own;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
                 [&](const Row& row) { return row.setting == setting; });
    tables.push_back(
        table_of(own, "Thousand tokens per second", &Row::speed, &Row::composed_speed, 1e3));
    tables.push_back(table_of(own, "Memory of a step in MiB", &Row::memory, &Row::composed_memory,
                              1024.0 * 1024.0));
  }
  return tables;
}

std::string measured_block(const std::string& json, const std::string& scope,
                           const std::string& command) {
  if (json.empty()) {
    return fmt::format("\nNothing of this part is published yet; `{}` measures it.\n\n", command);
  }
  std::string text = "\n";
  for (const TextTable& table : measured_tables(json, scope)) text += markdown_table(table);
  return text +
         "A cell is `posenc / composed`: the same model with attention made of PyTorch's "
         "operations. `-` where that does not exist or does not fit into memory.\n\n";
}

}  // namespace posenc::report

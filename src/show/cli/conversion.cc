#include "cli/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/choices.h"
#include "cli/table.h"

namespace posenc::cli {
namespace {

using nlohmann::ordered_json;
using weights::ConvertReport;
using weights::NamedShape;
using weights::TensorAction;
using weights::TensorReport;

// "h.11.attn" as "h.*.attn", without control characters: layers are alike, and a line stays a line.
std::string without_numbers(const std::string& name) {
  std::string text;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    text += (begin > 0 ? "." : "") + (number ? "*" : part);
    begin = end + 1;
  }
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  return text;
}

std::string size_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", count / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", count / 1e6);
  return fmt::format("{:.1f} GB", count / 1e9);
}

// Rows in order of first appearance, with how many tensors each stands for.
class GroupedTable {
 public:
  explicit GroupedTable(std::vector<std::string> header) : table_(std::move(header)) {}
  void add(std::vector<std::string> row) {
    const auto [place, is_new] = places_.emplace(row, rows_.size());
    if (is_new) rows_.emplace_back(std::move(row), 0);
    ++rows_[place->second].second;
  }
  std::string text() {
    for (auto& [row, count] : rows_) {
      row.insert(row.begin() + 1, std::to_string(count));
      table_.add(row);
    }
    return table_.text();
  }

 private:
  Table table_;
  std::vector<std::pair<std::vector<std::string>, int>> rows_;
  std::map<std::vector<std::string>, std::size_t> places_;
};

std::int64_t count(const ConvertReport& report, TensorAction action) {
  return std::count_if(report.tensors.begin(), report.tensors.end(),
                       [&](const TensorReport& t) { return t.action == action; });
}

std::string heads_text(const weights::HeadShape& heads) {
  std::string text = fmt::format("heads of {}, channels {} to {} rotate", heads.head_dim,
                                 heads.dim_offset, heads.dim_offset + heads.rotary_dim - 1);
  if (heads.heads > 0) text += fmt::format(", {} heads", heads.heads);
  if (heads.kv_heads > 0) text += fmt::format(", {} of k and v", heads.kv_heads);
  return text;
}

std::string tensors_text(const ConvertReport& report) {
  GroupedTable table({"tensor", "number", "type", "shape", "what"});
  for (const TensorReport& t : report.tensors) {
    const std::string action = name_of(t.action);
    table.add({without_numbers(t.tensor.name), std::string(element_type_name(t.tensor.type)),
               weights::shape_text(t.tensor.shape),
               t.note.empty() ? action : fmt::format("{} ({})", action, t.note)});
  }
  return table.text();
}

std::string left_text(const ConvertReport& report) {
  if (report.left_at_initialisation.empty()) return "";
  GroupedTable table({"left at initialisation", "number", "shape"});
  for (const NamedShape& t : report.left_at_initialisation) {
    table.add({without_numbers(t.name), weights::shape_text(t.shape)});
  }
  return "\n" + table.text();
}

ordered_json tensor_json(const TensorReport& t) {
  ordered_json json = {{"name", t.tensor.name},
                       {"dtype", element_type_name(t.tensor.type)},
                       {"shape", t.tensor.shape},
                       {"action", name_of(t.action)}};
  if (!t.note.empty()) json["note"] = t.note;
  return json;
}

void add_layout_json(const ConvertReport& report, ordered_json& json) {
  json["from"] = name_of(report.from);
  json["to"] = name_of(report.to);
  json["head_dim"] = report.heads.head_dim;
  json["heads"] = report.heads.heads;
  json["kv_heads"] = report.heads.kv_heads;
  json["rotary_dim"] = report.heads.rotary_dim;
  json["dim_offset"] = report.heads.dim_offset;
}

void add_positions_json(const ConvertReport& report, ordered_json& json) {
  json["positions"] = report.spec;
  json["left_at_initialisation"] = nullptr;
  if (report.has_target) json["left_at_initialisation"] = ordered_json::array();
  for (const NamedShape& t : report.left_at_initialisation) {
    json["left_at_initialisation"].push_back({{"name", t.name}, {"shape", t.shape}});
  }
  json["trainable"] = report.trainable;
  json["frozen"] = report.frozen;
}

}  // namespace

std::string conversion_text(const ConvertReport& report, ConvertMode mode, bool dry_run) {
  std::string text;
  for (const weights::FileReport& file : report.files) {
    text += fmt::format("{} -> {}  ({})\n", file.in, file.out, size_text(file.bytes));
  }
  if (mode == ConvertMode::kLayout) {
    text += fmt::format("pairs {} -> {}; {}\n", name_of(report.from), name_of(report.to),
                        heads_text(report.heads));
  } else {
    text += fmt::format("positions -> {}\n", report.spec);
  }
  text += "\n" + tensors_text(report) + left_text(report) + "\n";
  if (mode == ConvertMode::kLayout) {
    text += fmt::format("{} permuted, {} copied", count(report, TensorAction::kPermuted),
                        count(report, TensorAction::kCopied));
  } else {
    text += fmt::format("{} copied, {} skipped, {} left at initialisation",
                        count(report, TensorAction::kCopied), count(report, TensorAction::kSkipped),
                        report.has_target ? std::to_string(report.left_at_initialisation.size())
                                          : "without --target it is not known what is");
  }
  if (!report.trainable.empty()) {
    text += fmt::format("; {} to train, {} frozen", report.trainable.size(), report.frozen.size());
  }
  return text + (dry_run ? " (dry run: nothing was written)" : "");
}

std::string conversion_json(const ConvertReport& report, ConvertMode mode, bool dry_run) {
  ordered_json json;
  json["mode"] = mode == ConvertMode::kLayout ? "layout" : "positions";
  json["dry_run"] = dry_run;
  if (mode == ConvertMode::kLayout) add_layout_json(report, json);
  if (mode == ConvertMode::kPositions) add_positions_json(report, json);
  json["files"] = ordered_json::array();
  for (const weights::FileReport& file : report.files) {
    json["files"].push_back({{"in", file.in}, {"out", file.out}, {"bytes", file.bytes}});
  }
  json["tensors"] = ordered_json::array();
  for (const TensorReport& t : report.tensors) json["tensors"].push_back(tensor_json(t));
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace posenc::cli

#include "cli/list_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/print.h"
#include "command/help.h"
#include "core/bind.h"
#include "encodings/other_names.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

constexpr std::size_t kLineColumn = 18;
constexpr std::size_t kFieldColumn = 26;

void print_about(const std::string& name, std::string_view text) {
  if (!text.empty()) print("{}", command::two_columns(name, text, kLineColumn));
}

void print_properties(const CatalogEntry& entry) {
  const Traits& t = entry.traits;
  const auto yes_no = [](bool has) { return has ? "yes" : "no"; };
  print_about("site", site_text(t));
  print_about("relative", yes_no(t.relative));
  print_about("extrapolates", yes_no(t.extrapolates));
  print_about("linear attention", yes_no(t.linear_attention));
  const Counted counted = counted_parameters(t.name);
  std::string parameters;
  for (const ParameterInfo& info : counted.infos) {
    parameters += fmt::format("{}{} [{}]", parameters.empty() ? "" : ", ", info.name,
                              fmt::join(info.shape, ", "));
  }
  print_about("trainable", trainable_text(entry));
  if (parameters.empty()) return;
  print_about("parameters", fmt::format("{}, with {} heads of {}", parameters, kExampleShape.heads,
                                        kExampleShape.head_dim));
}

void print_fields(const CatalogEntry& entry) {
  if (entry.fields.empty()) return;
  print("\n  Fields:\n");
  for (const FieldDoc& field : entry.fields) {
    const std::string allowed = field.range.empty() ? field.type : field.type + " " + field.range;
    const std::string doc = field.doc + (field.doc.empty() ? "" : "; ") + allowed;
    const std::string preset = field.rule.required ? " (required)" : "=" + field.default_value;
    print("{}", command::two_columns("  " + field.name + preset, doc, kFieldColumn));
  }
}

// Broken where a shell goes on with the next line, so that it can be copied; specs may have blanks anywhere.
std::string example_of(const CatalogEntry& entry) {
  constexpr std::size_t kContinuation = 2;
  std::string command = command::wrapped(
      fmt::format("posenc inspect \"{}\" --head-dim 64 --heads 8", example_spec(entry.traits.name)),
      command::kWidth - kContinuation, 4);
  for (std::size_t at = 0; (at = command.find('\n', at)) != std::string::npos; at += 3) {
    command.insert(at, " \\");
  }
  return command;
}

}  // namespace

Counted counted_parameters(std::string_view name) {
  Counted result{parameters(default_encoding(name), kExampleShape), 0};
  for (const ParameterInfo& info : result.infos) {
    if (info.trainable) result.trainable += info.count();
  }
  return result;
}

std::string trainable_text(const CatalogEntry& entry) {
  if (counted_parameters(entry.traits.name).trainable > 0) return "yes";
  for (const FieldDoc& field : entry.fields) {
    if (field.name == "trainable") return "optional";
    if (field.type.find("learnable") != std::string::npos) return "optional";
  }
  return "no";
}

std::string site_text(const Traits& traits) {
  const auto site = static_cast<std::size_t>(traits.site);
  return site == 0 ? "-" : fmt::format("{} {}", site, enum_name(traits.site));
}

std::vector<NamedEntry> all_entries() {
  std::vector<NamedEntry> all;
  const auto add = [&](EntryKind kind, const std::vector<CatalogEntry>& entries) {
    for (const CatalogEntry& entry : entries) all.push_back({kind, entry});
  };
  add(EntryKind::kEncoding, encoding_catalog());
  add(EntryKind::kSchedule, schedule_catalog());
  add(EntryKind::kAxes, axes_catalog());
  return all;
}

NamedEntry find_entry(const std::string& name) {
  std::vector<NamedEntry> all = all_entries();
  std::vector<std::string_view> names;
  for (NamedEntry& named : all) {
    if (named.entry.traits.name == name) return std::move(named);
    names.push_back(named.entry.traits.name);
  }
  const std::string known = known_name(name);
  throw Error(
      ErrorKind::kUnknownKey,
      {.scope = "list",
       .key = "NAME",
       .rule = "must be an encoding, a schedule or axes",
       .value = "'" + name + "'",
       .hint = known.empty() ? suggestion(name, names) : fmt::format("did you mean '{}'?", known)});
}

void print_entry(const NamedEntry& named) {
  const CatalogEntry& entry = named.entry;
  print_title(fmt::format("{}: {}", entry.traits.name, entry.traits.title));
  print_about("formula", entry.traits.formula);
  print_about("", entry.traits.where);
  print_about("paper", entry.traits.paper);
  if (named.kind == EntryKind::kEncoding) print_properties(entry);
  if (named.kind == EntryKind::kSchedule) print_about("kind", "a frequency schedule of rope");
  if (named.kind == EntryKind::kAxes) print_about("kind", "axes of rope");
  print_fields(entry);
  print("\n  Example:\n    {}\n", example_of(entry));
}

}  // namespace posenc::cli

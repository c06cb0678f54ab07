#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "encodings/catalog_json.h"
#include "posenc/encodings/spec.h"

namespace posenc::cli {
namespace {

using Json = nlohmann::ordered_json;

// Parameters are counted at the shape of a small, common model, and the output says so.
constexpr ModelShape kExampleShape{.head_dim = 64, .heads = 12, .model_dim = 768};

struct Counted {
  std::vector<ParameterInfo> infos;
  std::int64_t trainable = 0;
};

Counted counted_parameters(std::string_view name) {
  Counted result{parameters(default_encoding(name), kExampleShape), 0};
  for (const ParameterInfo& info : result.infos) {
    if (info.trainable) result.trainable += info.count();
  }
  return result;
}

// Trainable by default, on request (a field says so), or never.
std::string trainable_text(const CatalogEntry& entry) {
  if (counted_parameters(entry.traits.name).trainable > 0) return "yes";
  for (const FieldDoc& field : entry.fields) {
    if (field.name == "trainable") return "optional";
    if (field.type.find("learnable") != std::string::npos) return "optional";
  }
  return "no";
}

void add_parameters(Json& encoding, const CatalogEntry& entry) {
  const Counted counted = counted_parameters(entry.traits.name);
  encoding["site_number"] = static_cast<int>(entry.traits.site);
  encoding["trainable"] = trainable_text(entry);
  encoding["parameter_count"] = counted.trainable;
  encoding["parameters"] = Json::array();
  for (const ParameterInfo& info : counted.infos) {
    encoding["parameters"].push_back(
        {{"name", info.name}, {"shape", info.shape}, {"trainable", info.trainable}});
  }
}

Json list_json() {
  Json json = catalog_json();
  json["example_shape"] = {{"heads", kExampleShape.heads},
                           {"head_dim", kExampleShape.head_dim},
                           {"model_dim", kExampleShape.model_dim}};
  const std::vector<CatalogEntry> entries = encoding_catalog();
  for (std::size_t i = 0; i < entries.size(); ++i) add_parameters(json["encodings"][i], entries[i]);
  return json;
}

void print_fields(const std::vector<CatalogEntry>& entries) {
  for (const CatalogEntry& entry : entries) {
    print("\n{}: {}\n", entry.traits.name, entry.traits.title);
    if (!entry.traits.formula.empty()) print("  {}\n", entry.traits.formula);
    if (!entry.traits.paper.empty()) print("  {}\n", entry.traits.paper);
    if (entry.fields.empty()) continue;
    Table table({"field", "default", "allowed", "meaning"});
    for (const FieldDoc& field : entry.fields) {
      const std::string allowed = field.range.empty() ? field.type : field.type + " " + field.range;
      table.add({field.name, field.default_value, allowed, field.doc});
    }
    print("{}", table.text());
  }
}

void print_overview() {
  const auto yes_no = [](bool b) { return std::string(b ? "yes" : "no"); };
  Table table({"encoding", "site", "relative", "extrapolates", "linear attention", "trainable",
               "parameters", "what it is"});
  for (const CatalogEntry& entry : encoding_catalog()) {
    const Traits& t = entry.traits;
    const auto site = static_cast<std::size_t>(t.site);
    table.add({std::string(t.name),
               site == 0 ? "-" : fmt::format("{} {}", site, enum_names(Site{})[site]),
               yes_no(t.relative), yes_no(t.extrapolates), yes_no(t.linear_attention),
               trainable_text(entry), std::to_string(counted_parameters(t.name).trainable),
               std::string(t.title)});
  }
  print(
      "Encodings (parameters of one layer at {} heads of {}; a spec joins any of them with "
      "+)\n\n{}",
      kExampleShape.heads, kExampleShape.head_dim, table.text());
}

void print_schedules() {
  Table table({"schedule", "frequency of pair i", "what it is"});
  for (const CatalogEntry& entry : schedule_catalog()) {
    table.add({std::string(entry.traits.name), std::string(entry.traits.formula),
               std::string(entry.traits.title)});
  }
  print("\nFrequency schedules of rope, as in rope(schedule=linear(factor=4))\n\n{}", table.text());
}

}  // namespace

void add_list(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("list", "Every encoding and schedule, with fields and properties");
  auto json = std::make_shared<bool>(false);
  auto brief = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "machine-readable, with every field");
  verb->add_flag("--brief", *brief, "the two overviews, without the fields");
  verb->footer("Example:\n  posenc list --brief\n");
  verb->callback([&chosen, json, brief] {
    chosen = [json, brief] {
      if (*json) {
        print_json(list_json().dump(2));
        return kFine;
      }
      print_overview();
      print_schedules();
      if (*brief) return kFine;
      print("\nFields of the encodings\n");
      print_fields(encoding_catalog());
      print("\nFields of the schedules\n");
      print_fields(schedule_catalog());
      print("\nFields of the axes, as in rope(axes=mrope(sections=[16, 24, 24]))\n");
      print_fields(axes_catalog());
      return kFine;
    };
  });
}

}  // namespace posenc::cli

// posenc list: what a spec can hold.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/list_entry.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/help.h"
#include "encodings/catalog_json.h"
#include "posenc/encodings/spec.h"

namespace posenc::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ListOptions {
  std::string name;
  bool json = false;
  bool brief = false;
};

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

// Of one name, as it stands in the whole list.
Json entry_json(const std::string& name) {
  const Json all = list_json();
  for (const char* list : {"encodings", "schedules", "axes"}) {
    for (const Json& entry : all[list]) {
      if (entry["name"] == name) return entry;
    }
  }
  return nullptr;
}

// "RE-t": a letter where it has the property.
std::string property_letters(const CatalogEntry& entry) {
  const std::string trainable = trainable_text(entry);
  std::string letters;
  letters += entry.traits.relative ? 'R' : '-';
  letters += entry.traits.extrapolates ? 'E' : '-';
  letters += entry.traits.linear_attention ? 'L' : '-';
  letters += trainable == "yes" ? 'T' : trainable == "optional" ? 't' : '-';
  return letters;
}

void print_overview() {
  print_title("Encodings; a spec joins any of them with +");
  print("\n");
  Table table({"encoding", "site", "has", "parameters", "what it is"}, command::kWidth);
  for (const CatalogEntry& entry : encoding_catalog()) {
    const Traits& t = entry.traits;
    table.add({std::string(t.name), site_text(t), property_letters(entry),
               std::to_string(counted_parameters(t.name).trainable), std::string(t.title)});
  }
  print_table(table);
  print(
      "\n  has: R relative, E extrapolates, L linear attention, T trainable (t: a field\n"
      "  makes it so); parameters of one layer with {} heads of {}\n",
      kExampleShape.heads, kExampleShape.head_dim);
}

void print_names(const char* title, const char* heading, const std::vector<CatalogEntry>& catalog) {
  print("\n");
  print_title(title);
  print("\n");
  Table table({heading, "what it is"}, command::kWidth);
  for (const CatalogEntry& entry : catalog) {
    table.add({std::string(entry.traits.name), std::string(entry.traits.title)});
  }
  print_table(table);
}

int run_list(const ListOptions& options) {
  if (!options.name.empty()) {
    const NamedEntry entry = find_entry(options.name);
    options.json ? print_json(entry_json(options.name).dump(2)) : print_entry(entry);
    return kFine;
  }
  if (options.json) {
    print_json(list_json().dump(2));
    return kFine;
  }
  print_overview();
  print_names("Frequency schedules of rope, as in rope(schedule=linear(factor=4))", "schedule",
              schedule_catalog());
  print_names("Axes of rope, as in rope(axes=mrope(sections=[16, 24, 24]))", "axes",
              axes_catalog());
  if (options.brief) {
    print("\nposenc list NAME shows the formula, the fields and an example.\n");
    return kFine;
  }
  for (const NamedEntry& entry : all_entries()) {
    print("\n");
    print_entry(entry);
  }
  return kFine;
}

}  // namespace

void add_list(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("list", "List encodings and schedules, or document one of them");
  auto options = std::make_shared<ListOptions>();
  verb->add_option("NAME", options->name, "an encoding, a schedule or axes (default: all)");
  verb->add_flag("--json", options->json, "machine-readable, with every field");
  verb->add_flag("--brief", options->brief, "the overviews, without the fields");
  verb->footer("Examples:\n  posenc list --brief\n  posenc list rope\n  posenc list yarn --json\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_list(*options); }; });
}

}  // namespace posenc::cli

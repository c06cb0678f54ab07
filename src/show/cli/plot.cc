// posenc plot: figures of encodings, as SVG, PNG, PDF and CSV.
#include "plots/plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cli/figure_output.h"
#include "cli/plot_values.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "posenc/encodings/encoding.h"

namespace posenc::cli {
namespace {

using plots::PlotRequest;

struct PlotOptions {
  std::string kind;
  bool list = false;
  std::map<std::string, std::vector<std::string>> given;  // by field, as written
  FigureOutput output;
};

// One option per field of a request but the kind: --head-dim of head_dim.
std::string option_name(std::string_view field) {
  if (field == "encodings") return "--encoding";
  std::string name = "--" + std::string(field);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

Value request_map(const PlotOptions& options) {
  Value::Map map{{"kind", Value::of_string(options.kind)}};
  const PlotRequest fields;
  PlotRequest::visit_fields(
      fields, [&](std::string_view name, const auto& field, const FieldRule&) {
        const auto words = options.given.find(std::string(name));
        if (words == options.given.end() || words->second.empty()) return;
        map.push_back({std::string(name), option_value(words->second, field)});
      });
  return {Value::Data(std::move(map))};
}

void print_kinds() {
  Table table({"kind", "what it shows"});
  for (const plots::KindInfo& kind : plots::plot_kinds()) {
    table.add({std::string(kind.name), std::string(kind.doc)});
  }
  print_table(table);
  print("\nposenc plot KIND --list names what a kind reads and its defaults.\n");
}

void print_fields(const plots::KindInfo& kind) {
  Table table({"option", "default", "allowed", "meaning"});
  const Value::Map defaults = all_fields(kind.defaults);
  const std::vector<FieldDoc> docs = describe_fields<PlotRequest>();
  for (std::size_t f = 0; f < docs.size(); ++f) {
    const FieldDoc& doc = docs[f];
    if (std::find(kind.fields.begin(), kind.fields.end(), doc.name) == kind.fields.end()) continue;
    const std::string range =
        doc.name == "length" ? fmt::format("in [2, {}]", kind.max_length) : doc.range;
    table.add({option_name(doc.name), list_text(defaults[f].value),
               range.empty() ? doc.type : doc.type + " " + range, doc.doc});
  }
  print("{}\n\n", fitted_line(fmt::format("{}: {}", kind.name, kind.doc)));
  print_table(table);
  print("\nExample:\n  {}\n", kind.example);
}

// An encoding in the place of the kind is not a misspelt kind.
void check_kind(const std::string& word) {
  const std::vector<plots::KindInfo>& kinds = plots::plot_kinds();
  const bool known =
      std::any_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == word; });
  const std::vector<CatalogEntry> encodings = encoding_catalog();
  const bool encoding = std::any_of(encodings.begin(), encodings.end(),
                                    [&](const auto& e) { return e.traits.name == word; });
  if (known || !encoding) return;
  std::vector<std::string_view> names;
  for (const plots::KindInfo& kind : kinds) names.push_back(kind.name);
  throw Error(ErrorKind::kUnknownKey,
              {.scope = "plot",
               .key = "KIND",
               .rule = "is the kind of figure",
               .value = fmt::format("the encoding '{}'", word),
               .hint = fmt::format("posenc plot KIND --encoding {}, where KIND is one of {}", word,
                                   fmt::join(names, ", "))});
}

int run_plot(const PlotOptions& options) {
  if (options.list && options.kind.empty()) {
    print_kinds();
    return kFine;
  }
  if (options.kind.empty()) {
    throw Error(ErrorKind::kMissingKey, {.scope = "plot",
                                         .key = "KIND",
                                         .rule = "is required",
                                         .value = "",
                                         .hint = "posenc plot --list names them"});
  }
  check_kind(options.kind);
  if (options.list) {
    print_fields(plots::kind_info(options.kind));
    return kFine;
  }
  check(options.output);
  write(plots::plot(plots::read_request(request_map(options))), options.output,
        options.kind + ".svg");
  return kFine;
}

void add_fields(CLI::App& verb, PlotOptions& options) {
  for (const FieldDoc& doc : describe_fields<PlotRequest>()) {
    if (doc.name == "kind") continue;
    verb.add_option(option_name(doc.name), options.given[doc.name], doc.doc)
        ->allow_extra_args(false)
        ->group("What to draw; each kind reads some of these");
  }
}

}  // namespace

void add_plot(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("plot", "Draw figures of encodings as SVG, PNG, PDF and CSV");
  auto options = std::make_shared<PlotOptions>();
  verb->add_option("KIND", options->kind, "what to draw; posenc plot --list names the kinds");
  verb->add_flag("--list", options->list, "the kinds; after a KIND, what it reads");
  add_figure_options(*verb, options->output);
  add_fields(*verb, *options);
  verb->footer(
      "Examples:\n"
      "  posenc plot --list\n"
      "  posenc plot decay --theta 10000,500000 -o decay.png\n"
      "  posenc plot bias --encoding alibi --encoding kerple --data bias.csv\n"
      "  posenc plot scores --encoding \"rope + alibi\" --text \"the dog bit the man\"\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_plot(*options); }; });
}

}  // namespace posenc::cli

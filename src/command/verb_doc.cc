#include "command/verb_doc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/bind.h"
#include "core/strings.h"

namespace posenc::command {
namespace {

constexpr std::size_t kLongestChoices = 24;  // behind the name of an option

// CLI11 writes "TEXT:{exact,hf}" for a choice and "INT:INT in [1 - 9]" for a range.
std::string choices_of(const std::string& type) {
  const std::size_t begin = type.find(":{");
  return begin == std::string::npos ? "" : type.substr(begin + 2, type.find('}') - begin - 2);
}

std::string value_of(const CLI::Option& option, const std::string& choices) {
  if (option.get_type_size() == 0 || option.get_expected_max() == 0) return "";
  if (!choices.empty() && choices.size() <= kLongestChoices) {
    return fmt::format("{}", fmt::join(split(choices, ','), "|"));
  }
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT") return "N";
  if (name == "TEXT" && type.ends_with(":FILE")) return "FILE";
  return name == "FLOAT" ? "X" : name.empty() ? "TEXT" : name;
}

// Sorted, since CLI11 keeps them by address.
std::string names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;
  for (const CLI::Option* option : options) names.insert(option->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string doc_of(const CLI::Option& option, const OptionDoc& known) {
  std::string doc = option.get_description();
  if (!known.choices.empty() && (known.argument || known.choices.size() > kLongestChoices)) {
    doc += fmt::format(": {}", fmt::join(split(known.choices, ','), ", "));
  }
  const std::string preset = option.get_default_str();
  if (!preset.empty() && preset != "[]" && doc.find("default") == std::string::npos) {
    doc += fmt::format(" (default: {})", preset);
  }
  if (known.required && !known.argument) doc += " (required)";
  if (!option.get_needs().empty()) doc += fmt::format(" (with {})", names_of(option.get_needs()));
  if (!option.get_excludes().empty()) {
    doc += fmt::format(" (not with {})", names_of(option.get_excludes()));
  }
  return doc;
}

std::string usage_of(const CLI::App& app, const std::string& words, const VerbDoc& doc) {
  std::string usage = words;
  const auto has_options = std::any_of(doc.options.begin(), doc.options.end(),
                                       [](const OptionDoc& option) { return !option.argument; });
  if (has_options) usage += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool several = option->get_expected_max() >= CLI::detail::expected_max_vector_size;
    const std::string name = option->get_name(true) + (several ? "..." : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  if (!doc.verbs.empty()) usage += app.get_require_subcommand_min() == 0 ? " [VERB]" : " VERB";
  return usage;
}

}  // namespace

OptionDoc option_doc(const CLI::Option& option) {
  OptionDoc doc;
  doc.argument = option.get_positional();
  doc.names = option.get_name(doc.argument, !doc.argument);
  doc.choices = choices_of(option.get_type_name());
  doc.required = option.get_required();
  doc.value = value_of(option, doc.choices);
  doc.doc = doc_of(option, doc);
  return doc;
}

VerbDoc verb_doc(const CLI::App& app, const std::string& before) {
  VerbDoc doc{.name = app.get_name(),
              .summary = app.get_description(),
              .usage = {},
              .footer = app.get_footer(),
              .options = {},
              .verbs = {}};
  const std::string words = before.empty() ? doc.name : before + " " + doc.name;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) doc.options.push_back(option_doc(*option));
  }
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_name().empty() && !verb->get_group().empty()) {
      doc.verbs.push_back(verb_doc(*verb, words));
    }
  }
  doc.usage = usage_of(app, words, doc);
  return doc;
}

bool asks_for_verbs(int argc, const char* const* argv) {
  return argc == 2 && std::string_view(argv[1]) == "--verbs";
}

std::string verbs_json(const CLI::App& app) { return to_json(write_field(verb_doc(app))); }

VerbDoc parse_verbs(const std::string& json) {
  return bind_config<VerbDoc>(parse_json(json, "verbs"), "verbs");
}

}  // namespace posenc::command

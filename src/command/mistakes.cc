#include "command/mistakes.h"

#include <fmt/format.h>

#include "core/bind.h"
#include "core/plain_text.h"

namespace posenc::command {
namespace {

// The nearest of the names as a question; empty where none is near.
std::string near(const std::string& given, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string text = suggestion(given, views);
  return text.starts_with("did you mean") ? text : "";
}

// The verb that was parsed last: "posenc sweep status".
const CLI::App& innermost(const CLI::App& app, std::string& words) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) return app;
  words += " " + verbs.back()->get_name();
  return innermost(*verbs.back(), words);
}

// Of a verb and of its groups, which CLI11 keeps as verbs without a name.
std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : verb.get_subcommands({})) {
    if (!group->get_name().empty()) continue;
    for (std::string& name : option_names(*group)) names.push_back(std::move(name));
  }
  return names;
}

// CLI11 names the options that it does not know, but not what they are near to.
std::string option_text(const CLI::App& verb, const std::string& words) {
  for (const std::string& word : verb.remaining()) {
    if (!word.starts_with("--")) continue;
    const std::string given = word.substr(0, word.find('='));
    const std::string hint = near(given, option_names(verb));
    if (!hint.empty()) return fmt::format("{} is not an option of {}; {}", given, words, hint);
  }
  return "";
}

}  // namespace

void check_verbs(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* level = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    if (word.starts_with('-') || level->get_require_subcommand_min() == 0) return;
    std::vector<std::string> names;
    const CLI::App* found = nullptr;
    for (const CLI::App* verb : level->get_subcommands({})) {
      if (verb->get_name() == word) found = verb;
      names.push_back(verb->get_name());
    }
    if (found == nullptr) {
      const std::vector<std::string_view> views(names.begin(), names.end());
      throw CLI::ParseError(
          fmt::format("'{}' is not a verb of {}; {}", word, path, suggestion(word, views)),
          static_cast<int>(CLI::ExitCodes::ExtrasError));
    }
    level = found;
    path += " " + word;
  }
}

std::string mistake_text(const CLI::App& app, const CLI::ParseError& problem) {
  std::string words = app.get_name();
  const CLI::App& verb = innermost(app, words);
  const std::string option = option_text(verb, words);
  if (!option.empty()) return one_line(fmt::format("{}: {}", words, option));
  return one_line(fmt::format("{}: {}; see {} --help", words, problem.what(), words));
}

}  // namespace posenc::command

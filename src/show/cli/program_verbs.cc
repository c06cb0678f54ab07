#include "cli/program_verbs.h"

#include <filesystem>

#include "cli/list_entry.h"
#include "cli/verbs.h"
#include "core/strings.h"
#include "plots/plot.h"
#include "system/captured.h"

namespace posenc::cli {
namespace {

using command::VerbDoc;

// What a program beside this one says of its verbs; nothing where it is not built.
VerbDoc verbs_beside(const std::string& name) {
  const std::string program = program_beside(name);
  if (!std::filesystem::exists(program)) return {};
  const Captured said = run_captured({program, "--verbs"}, std::chrono::minutes(2));
  for (const std::string_view line : split_lines(said.output)) {
    if (line.starts_with('{')) return command::parse_verbs(std::string(line));
  }
  return {};
}

// Only what the other program knows: options, verbs and examples.
void take(VerbDoc& verb, const VerbDoc& from) {
  verb.usage = from.usage;
  verb.footer = from.footer;
  verb.options = from.options;
  verb.verbs = from.verbs;
}

void add_below(const VerbDoc& verb, const std::string& words, std::vector<VerbPath>& all) {
  all.push_back({words, &verb});
  for (const VerbDoc& below : verb.verbs) {
    add_below(below, words.empty() ? below.name : words + " " + below.name, all);
  }
}

}  // namespace

VerbDoc program_verbs(const CLI::App& app) {
  VerbDoc program = command::verb_doc(app);
  const VerbDoc lab = verbs_beside("posenc-lab");
  const VerbDoc bench = verbs_beside("posenc-bench");
  for (VerbDoc& verb : program.verbs) {
    if (verb.name == "bench") take(verb, bench);
    for (const VerbDoc& other : lab.verbs) {
      // posenc draws attention itself: that of the lab computes the records.
      if (other.name == verb.name && verb.options.empty()) take(verb, other);
    }
  }
  return program;
}

std::vector<VerbPath> all_verbs(const VerbDoc& program) {
  std::vector<VerbPath> all;
  add_below(program, "", all);
  return all;
}

std::vector<std::string> argument_choices(const VerbDoc& program, std::string_view words) {
  std::vector<std::string> names;
  if (words == "help") {
    for (const VerbDoc& verb : program.verbs) names.push_back(verb.name);
  } else if (words == "list") {
    for (const NamedEntry& named : all_entries()) names.emplace_back(named.entry.traits.name);
  } else if (words == "plot") {
    for (const plots::KindInfo& kind : plots::plot_kinds()) names.emplace_back(kind.name);
  } else {
    for (const VerbPath& path : all_verbs(program)) {
      if (path.words != words) continue;
      for (const command::OptionDoc& option : path.verb->options) {
        if (!option.argument || option.choices.empty()) continue;
        for (const std::string_view name : split(option.choices, ',')) names.emplace_back(name);
        return names;
      }
    }
  }
  return names;
}

}  // namespace posenc::cli

// posenc man: manual pages.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/man_page.h"
#include "cli/print.h"
#include "cli/program_verbs.h"
#include "cli/verbs.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "runs/files.h"

namespace posenc::cli {
namespace {

struct ManOptions {
  std::string verb;
  std::string to;
};

const command::VerbDoc& find_verb(const command::VerbDoc& program, const std::string& name) {
  std::vector<std::string_view> names;
  for (const command::VerbDoc& verb : program.verbs) {
    if (verb.name == name) return verb;
    names.push_back(verb.name);
  }
  throw Error(ErrorKind::kUnknownKey, {.scope = "man",
                                       .key = "VERB",
                                       .rule = "must be a verb of posenc",
                                       .value = "'" + name + "'",
                                       .hint = suggestion(name, names)});
}

int run_man(const CLI::App& app, const ManOptions& options) {
  const command::VerbDoc program = program_verbs(app);
  if (options.to.empty()) {
    print("{}", options.verb.empty() ? program_page(program)
                                     : verb_page(find_verb(program, options.verb)));
    return kFine;
  }
  const std::filesystem::path folder = options.to;
  std::filesystem::create_directories(folder);
  atomic_write((folder / "posenc.1").string(), program_page(program));
  for (const command::VerbDoc& verb : program.verbs) {
    atomic_write((folder / fmt::format("posenc-{}.1", verb.name)).string(), verb_page(verb));
  }
  return kFine;
}

}  // namespace

void add_man(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("man", "Print a manual page, or write all of them");
  auto options = std::make_shared<ManOptions>();
  CLI::Option* name = verb->add_option("VERB", options->verb, "a verb (default: the program)");
  verb->add_option("--to", options->to, "write posenc.1 and a page per verb into this folder")
      ->type_name("DIR")
      ->excludes(name);
  verb->footer("Examples:\n  posenc man train | man -l -\n  posenc man --to man1\n");
  verb->callback(
      [&chosen, &app, options] { chosen = [&app, options] { return run_man(app, *options); }; });
}

}  // namespace posenc::cli

// posenc completion: what shells complete.
#include <map>
#include <memory>

#include "cli/completion_scripts.h"
#include "cli/print.h"
#include "cli/program_verbs.h"
#include "cli/verbs.h"
#include "runs/files.h"

namespace posenc::cli {
namespace {

struct CompletionOptions {
  std::string shell;
  std::string out;
};

using Maker = std::string (*)(const command::VerbDoc&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> kAll = {
      {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
  return kAll;
}

int run_completion(const CLI::App& app, const CompletionOptions& options) {
  const std::string script = makers().at(options.shell)(program_verbs(app));
  if (options.out.empty()) {
    print("{}", script);
  } else {
    write_output(options.out, script);
  }
  return kFine;
}

}  // namespace

void add_completion(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("completion", "Print the completion script of bash, zsh or fish");
  auto options = std::make_shared<CompletionOptions>();
  verb->add_option("SHELL", options->shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  verb->add_option("-o,--out", options->out, "write it to this file instead")->type_name("FILE");
  verb->footer(
      "make install puts the scripts where shells look for them. For this shell alone:\n"
      "  source <(posenc completion bash)\n"
      "Examples:\n"
      "  posenc completion zsh -o ~/.zfunc/_posenc\n"
      "  posenc completion fish -o ~/.config/fish/completions/posenc.fish\n");
  verb->callback([&chosen, &app, options] {
    chosen = [&app, options] { return run_completion(app, *options); };
  });
}

}  // namespace posenc::cli

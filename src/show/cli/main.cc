// posenc: the command line. One short file per verb.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "cli/print.h"
#include "cli/verbs.h"
#include "command/help.h"
#include "command/mistakes.h"
#include "command/output.h"
#include "core/failure.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  posenc init study\n"
    "  posenc list rope\n"
    "  posenc inspect \"rope(theta=500000) + alibi\" --head-dim 64 --heads 8\n"
    "  posenc train configs/demo.yaml --set model.encoding=\"rope + cope\" \\\n"
    "    --out runs/mine\n"
    "  posenc sweep configs/demo_sweep.yaml --jobs 2\n"
    "  posenc compare runs/demo\n"
    "  posenc plot decay --theta 10000,500000\n"
    "  posenc serve runs\n"
    "\n"
    "posenc help VERB has the options and examples of a verb.\n";

constexpr std::array kVerbs = {add_init,   add_list,       add_inspect,   add_plot,   add_train,
                               add_eval,   add_generate,   add_sweep,     add_plan,   add_compare,
                               add_report, add_serve,      add_attention, add_sample, add_data,
                               add_runs,   add_convert,    add_export,    add_bench,  add_reproduce,
                               add_which,  add_completion, add_man,       add_help};

// In the order of the command; "help sweep" is "sweep --help".
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

int run(int argc, char** argv) {
  CLI::App app("posenc: positional encodings in attention, exact and comparable", "posenc");
  command::use_help_layout(app);
  app.set_version_flag("-v,--version", version_text(), "print version, commit and build");
  app.footer(kExamples);
  app.require_subcommand(1);
  Action chosen;
  for (const auto add : kVerbs) add(app, chosen);
  std::vector<std::string> words = words_of(argc, argv);
  try {
    command::check_verbs(app, words);
    std::reverse(words.begin(), words.end());  // as CLI11 reads them
    app.parse(words);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);  // --help, --version
  } catch (const CLI::ParseError& problem) {
    print_error("{}", command::mistake_text(app, problem));
    return kMistake;
  }
  return chosen();
}

// Results that did not arrive are a failure.
int finished(int code) {
  const std::string problem = command::output_problem(stdout);
  if (problem.empty()) return code;
  print_error("posenc: {}", problem);
  return code == kFine ? kFailure : code;
}

int failed(const std::exception& failure) {
  if (command::is_closed_pipe(failure)) return kFailure;
  const std::string problem = command::output_problem(stdout, &failure);
  if (problem.empty()) {
    print_error("posenc: internal error: {}", failure_text(failure));
  } else {
    print_error("posenc: {}", problem);
  }
  return kFailure;
}

}  // namespace

// For the list of verbs: words_of() has replaced it by --help before anything is parsed.
void add_help(CLI::App& app, Action& /*chosen*/) {
  CLI::App* verb = app.add_subcommand("help", "Show the options and examples of a verb");
  verb->prefix_command();
  verb->footer("Examples:\n  posenc help train\n  posenc help sweep status\n");
}

}  // namespace posenc::cli

int main(int argc, char** argv) {
  try {
    return posenc::cli::finished(posenc::cli::run(argc, argv));
  } catch (const posenc::Error& mistake) {
    posenc::cli::print_error("posenc: {}", mistake.what());
    return posenc::cli::kMistake;
  } catch (const std::exception& failure) {
    return posenc::cli::failed(failure);
  }
}

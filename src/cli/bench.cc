// posenc bench: hands over to the program beside this one that knows libtorch.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "cli/verbs.h"
#include "posenc/core/error.h"

namespace posenc::cli {
namespace {

int hand_over(std::vector<std::string> words) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "posenc-bench";
  words.insert(words.begin(), program.string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Error(ErrorKind::kIo, {.scope = "bench",
                               .key = program.string(),
                               .rule = "could not be started",
                               .value = "",
                               .hint = "it is built and installed beside posenc"});
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("bench", "measure the kernels against baselines and limits");
  verb->prefix_command();
  verb->set_help_flag();  // goes with the rest
  verb->callback(
      [verb, &chosen] { chosen = [words = verb->remaining()] { return hand_over(words); }; });
}

}  // namespace posenc::cli

// Verbs that need libtorch are programs of their own beside this one, so that the others do not wait for
// it: bench, train, eval and generate.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/print.h"
#include "cli/verbs.h"
#include "posenc/core/error.h"
#include "system/end_with_parent.h"
#include "system/installed.h"
#include "system/restart.h"

namespace posenc::cli {

std::string program_beside(const std::string& name) { return (program_folder() / name).string(); }

namespace {

int hand_over(const std::string& name, std::vector<std::string> words) {
  const std::string program = program_beside(name);
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  throw Error(ErrorKind::kIo, {.scope = "posenc",
                               .key = program,
                               .rule = "could not be started",
                               .value = "",
                               .hint = "it is built and installed next to posenc, with libtorch"});
}

// Takes every word that follows, help included.
CLI::App* add_verb(CLI::App& app, const char* verb, const char* text) {
  CLI::App* added = app.add_subcommand(verb, text);
  added->prefix_command();
  added->set_help_flag();
  return added;
}

void add_lab_verb(CLI::App& app, Action& chosen, const std::string& name, const char* text) {
  CLI::App* verb = add_verb(app, name.c_str(), text);
  verb->callback([verb, name, &chosen] {
    chosen = [name, words = verb->remaining()] {
      end_with_parent();  // a sweep that died no longer holds the lease of this run
      // Here already, so that the lab need not start twice.
      for (const auto& [key, value] : patient_threads()) setenv(key.c_str(), value.c_str(), 0);
      std::vector<std::string> all = words;
      all.insert(all.begin(), name);
      return hand_over("posenc-lab", all);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* verb = add_verb(app, "bench", "Measure kernels and training against baselines");
  verb->callback([verb, &chosen] {
    chosen = [words = verb->remaining()] { return hand_over("posenc-bench", words); };
  });
}

void add_train(CLI::App& app, Action& chosen) {
  add_lab_verb(app, chosen, "train", "Train a small transformer into a run directory");
}
void add_eval(CLI::App& app, Action& chosen) {
  add_lab_verb(app, chosen, "eval", "Evaluate a trained model at any length or schedule");
}
void add_generate(CLI::App& app, Action& chosen) {
  add_lab_verb(app, chosen, "generate", "Continue a prompt with a trained model");
}

// torchrun starts a program by its path, and knows nothing of verbs.
void add_which(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("which", "Print the path of a program for launchers");
  auto name = std::make_shared<std::string>();
  verb->add_option("program", *name, "the program: train, for torchrun --no-python")
      ->required()
      ->check(CLI::IsMember({"train"}));
  verb->footer(
      "Example:\n  torchrun --no-python --nproc-per-node 2 $(posenc which train) \\\n"
      "    configs/demo.yaml\n");
  verb->callback([name, &chosen] {
    chosen = [name] {
      const std::string path = program_beside("posenc-" + *name);
      if (!std::filesystem::exists(path)) {
        throw Error(ErrorKind::kIo, {.scope = "posenc",
                                     .key = path,
                                     .rule = "does not exist",
                                     .value = "",
                                     .hint = "it is built and installed with libtorch"});
      }
      print("{}\n", path);
      return kFine;
    };
  });
}

}  // namespace posenc::cli

// posenc: the command line. One short file per verb.
#include <fmt/format.h>

#include <exception>

#include "cli/print.h"
#include "cli/verbs.h"
#include "core/failure.h"
#include "posenc/core/error.h"
#include "posenc/core/version.h"

namespace posenc::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  posenc list\n"
    "  posenc inspect --encoding \"rope(theta=500000) + alibi\" --head-dim 64 --heads 8\n"
    "  posenc inspect --hf config.json --seq-len 8192 --json\n"
    "  posenc train configs/demo.yaml --set model.encoding=\"rope + cope\" --out runs/mine\n"
    "  posenc train configs/demo.yaml --procs 2 --out runs/mine\n"
    "  posenc bench cpu --filter attention/cope\n"
    "  posenc convert model.safetensors -o out.safetensors --layout interleaved --head-dim 128\n"
    "  posenc sweep configs/theta.yaml --jobs 2\n"
    "  posenc sweep configs/theta.yaml --on slurm --partition gpu --time 4:00:00 --gpus 1\n"
    "  posenc plan configs/language_model.yaml --gpus 16 --network 400Gbit\n"
    "  posenc reproduce copy-small --jobs 2\n"
    "  posenc compare runs/theta\n"
    "  posenc plot decay --theta 10000,500000\n"
    "  posenc attention runs/mine --sample 0 -o attention.svg\n"
    "  posenc generate runs/mine --prompt \"Call me\"\n"
    "  posenc export runs/mine --to hf -o exported\n"
    "  posenc report runs/theta -o theta.html\n"
    "  posenc runs pack runs/theta -o theta.tar.zst\n"
    "  posenc serve runs\n";

// CLI11's own texts span lines and do not say where help is; a mistake is answered in one line.
int report_mistake(const CLI::App& app, const CLI::ParseError& problem) {
  const auto verbs = app.get_subcommands();
  const std::string verb = verbs.empty() ? "" : " " + verbs.front()->get_name();
  print_error("posenc{}: {}; see posenc{} --help", verb, problem.what(), verb);
  return kMistake;
}

// CLI11 would only say that a subcommand is missing, not that this one does not exist.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string known;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  throw CLI::ParseError(fmt::format("'{}' is not a verb of posenc; known: {}", argv[1], known),
                        kMistake);
}

int run(int argc, char** argv) {
  CLI::App app("posenc: positional encodings in attention, exact and comparable", "posenc");
  app.set_version_flag("--version", "posenc " POSENC_VERSION_STRING);
  app.footer(kExamples);
  app.require_subcommand(1);
  Action chosen;
  add_list(app, chosen);
  add_inspect(app, chosen);
  add_bench(app, chosen);
  add_convert(app, chosen);
  add_train(app, chosen);
  add_eval(app, chosen);
  add_sweep(app, chosen);
  add_plan(app, chosen);
  add_reproduce(app, chosen);
  add_compare(app, chosen);
  add_report(app, chosen);
  add_serve(app, chosen);
  add_runs(app, chosen);
  add_data(app, chosen);
  add_sample(app, chosen);
  add_plot(app, chosen);
  add_attention(app, chosen);
  add_generate(app, chosen);
  add_export(app, chosen);
  add_which(app, chosen);
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);  // --help, --version
  } catch (const CLI::ParseError& problem) {
    return report_mistake(app, problem);
  }
  return chosen();
}

}  // namespace
}  // namespace posenc::cli

int main(int argc, char** argv) {
  try {
    return posenc::cli::run(argc, argv);
  } catch (const posenc::Error& mistake) {
    posenc::cli::print_error("posenc: {}", mistake.what());
    return posenc::cli::kMistake;
  } catch (const std::exception& failure) {
    posenc::cli::print_error("posenc: internal error: {}", posenc::failure_text(failure));
    return posenc::cli::kFailure;
  }
}

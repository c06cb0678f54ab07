// posenc export: a run as files that other programs read.
#include "pretrained/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/print.h"
#include "cli/verbs.h"

namespace posenc::cli {
namespace {

struct ExportVerb {
  std::string run;
  std::string to = "hf";
  std::string out;
  pretrained::ExportOptions more;
};

int run_export(const ExportVerb& options) {
  const pretrained::Exported done = pretrained::export_hf(options.run, options.out, options.more);
  for (const std::string& message : done.messages) print_error("posenc: {}", message);
  const std::string files = fmt::format("{}", fmt::join(done.files, ", "));
  print("{}: {} of step {}, {} tensors in float32 ({})\n", options.out, done.model_type, done.step,
        done.tensors, files);
  return kFine;
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("export", "Write a run as a Hugging Face folder");
  auto options = std::make_shared<ExportVerb>();
  verb->add_option("RUN", options->run, "a run directory")->required();
  verb->add_option("--to", options->to, "the format: hf (config.json and model.safetensors)")
      ->check(CLI::IsMember({"hf"}));
  verb->add_option("-o,--out", options->out, "the folder to write")->required();
  verb->add_flag("--best", options->more.best, "the best checkpoint instead of the last");
  verb->add_flag("--force", options->more.replace, "replace files that are in the folder");
  verb->footer(
      "A model is written as llama, qwen2, qwen3, gpt_neox or gpt2. If none of them\n"
      "fits, an error names the field. transformers reads the folder, and so does\n"
      "train.init_from.\n"
      "\n"
      "Examples:\n"
      "  posenc export runs/mine --to hf -o exported\n"
      "  posenc train configs/demo.yaml --set train.init_from=exported --out runs/more\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_export(*options); }; });
}

}  // namespace posenc::cli

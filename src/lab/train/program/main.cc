// What `posenc train`, `eval`, `attention` and `generate` run: a separate program, so that the other verbs need not
// wait for libtorch to load.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "command/help.h"
#include "command/mistakes.h"
#include "command/output.h"
#include "command/ranges.h"
#include "command/verb_doc.h"
#include "core/open_file.h"
#include "core/plain_text.h"
#include "parallel/board.h"
#include "posenc/core/error.h"
#include "runs/files.h"
#include "runs/run_directory.h"
#include "system/memory.h"
#include "system/restart.h"
#include "train/attention_run.h"
#include "train/generate.h"
#include "train/machine.h"
#include "train/program/verbs.h"
#include "train/run.h"

namespace posenc::train {
namespace {

void use_onednn_of(const std::string& run, const std::vector<std::string>& overrides) {
  const auto path = runs::RunDirectory::open(run, runs::Access::kRead).config_path();
  set_onednn(config::load_config(path.string(), overrides).config.train.onednn);
}

// Other tasks, models or lengths have other figures, which must not be written to the run's results.
void require_own_results(const std::vector<std::string>& overrides) {
  constexpr std::array<std::string_view, 4> kOfTheEvaluation = {
      "eval.", "train.device=", "train.precision=", "train.onednn="};
  for (const std::string& o : overrides) {
    const bool own = std::any_of(kOfTheEvaluation.begin(), kOfTheEvaluation.end(),
                                 [&](std::string_view field) { return o.starts_with(field); });
    if (own) continue;
    throw Error(ErrorKind::kConflict, {.scope = "eval",
                                       .key = o.substr(0, o.find('=')),
                                       .rule = "cannot be changed in the results of a run",
                                       .value = "",
                                       .hint = "write the figures to a file: --out FILE"});
  }
}

// Ranks would compute the same figures and write the same files.
void require_one_process() {
  const int world = parallel::claimed_world();
  if (world <= 1) return;
  throw Error(ErrorKind::kConflict,
              {.scope = "eval",
               .key = "",
               .rule = "must be run by one process",
               .value = fmt::format("{} processes", world),
               .hint = "run it once, without torchrun, srun -n or mpirun; posenc train shares its "
                       "evaluations among its processes"});
}

int evaluate(const Arguments& a) {
  require_one_process();
  const StopRequest stop;
  const auto mode = mode_of(a.progress);
  runs::Progress progress(mode, output_of(mode));
  set_threads(a.threads);
  check_schedule(a.eval.schedule);
  if (!a.out.empty()) runs::require_no_run_file(output_target(a.out));
  EvalOptions options = a.eval;
  for (const std::string& o : a.overrides) options.overrides.push_back(o);
  use_onednn_of(a.run, options.overrides);
  // Locked from the start: results that cannot be kept are not computed first.
  const bool keep =
      a.out.empty() && options.encoding.empty() && options.schedule.empty() && !options.best;
  std::optional<runs::RunDirectory> run;
  if (keep) {
    require_own_results(options.overrides);
    run = runs::RunDirectory::open(a.run);
  }
  const auto found = evaluate_run(a.run, options, progress, stop);
  progress.finish();
  if (!found) return stop.exit_code();
  if (!a.out.empty()) runs::write_json(output_target(a.out), found->results);
  if (run) keep_results(*run, *found);
  if (a.json) fmt::print("{}\n", printable_json(to_json(found->results)));
  return kFine;
}

// The path of the record goes to the standard output, for programs.
int look(const Arguments& a) {
  if (a.no_links) refuse_links_below(a.run);
  if (!a.out.empty()) (void)output_target(a.out);
  const auto mode = mode_of(a.progress);
  runs::Progress progress(mode, output_of(mode));
  set_threads(a.threads);
  use_onednn_of(a.run, {});
  AttentionQuery query = a.attention;
  if (!a.text.empty()) query.text = a.text;
  const auto path = attention_run(a.run, query, a.eval.best, progress,
                                  a.out.empty() ? a.out : output_target(a.out));
  progress.finish();
  fmt::print("{}\n", path.string());
  return kFine;
}

// The text goes to standard output; a summary of the computation to standard error.
int continue_prompt(const Arguments& a) {
  const StopRequest stop;
  const auto mode = mode_of(a.progress);
  runs::Progress progress(mode, output_of(mode));
  set_threads(a.threads);
  if (runs::RunDirectory::exists(a.run)) use_onednn_of(a.run, {});
  GenerateOptions options = a.generate;
  if (a.greedy) options.sampling.temperature = 0.0;
  const Generated found = generate(a.run, options, progress, stop);
  progress.finish();
  if (a.json) {
    fmt::print("{}\n", printable_json(found.json(options.prompt)));
  } else {
    progress.message(fmt::format("step {}, {} tokens after {}; decoding: {}", found.step,
                                 found.tokens.size(), found.prompt_tokens.size(), found.decoding));
    fmt::print("{}\n", printable(options.prompt + found.text));
  }
  return stop.requested() ? stop.exit_code() : kFine;
}

void add_common(CLI::App& verb, Arguments& a) {
  verb.add_option("--threads", a.threads, "threads; 0: as many as cores")
      ->check(command::integer_in(0, 1024));
  verb.add_option("--progress", a.progress, "how progress is shown")
      ->check(CLI::IsMember({"auto", "bar", "plain", "json", "quiet"}));
}

void add_overrides(CLI::App& verb, Arguments& a) {
  verb.add_option("--set", a.overrides, "set a field: --set model.layers=4 (may be repeated)")
      ->type_name("FIELD=VALUE");
}

CLI::App* add_attention(CLI::App& app, Arguments& a) {
  CLI::App* verb = app.add_subcommand(
      "attention", "Write what a trained model attends to on a sample into its run directory");
  verb->add_option("RUN", a.run, "a run directory")->required();
  verb->add_option("--sample", a.attention.sample, "number of the sample, as evaluations draw it")
      ->check(command::integer_from(0));
  verb->add_option("--length", a.attention.length, "positions (default: the training length)")
      ->check(command::integer_in(1, 1 << 24));
  verb->add_option("--axis", a.attention.axis, "how it is made (default: as in training)");
  verb->add_flag("--best", a.eval.best, "the best checkpoint instead of the last");
  verb->add_flag("--no-links", a.no_links, "follow no link inside the run: for posenc serve");
  verb->add_option("--text", a.text, "a text of your own in place of a sample");
  verb->add_option("--out", a.out, "write the record here instead of into the run");
  add_common(*verb, a);
  return verb;
}

CLI::App* add_generate(CLI::App& app, Arguments& a) {
  CLI::App* verb = app.add_subcommand("generate", "Continue a prompt with a trained model");
  verb->add_option("RUN", a.run, "a run directory, or a Hugging Face folder with tokenizer.json")
      ->required();
  verb->add_option("--prompt", a.generate.prompt,
                   "text to continue; for tasks that are not text, words as posenc sample prints "
                   "them, separated by spaces")
      ->required();
  verb->add_option("--tokens", a.generate.tokens, "how many to add (default: 128)")
      ->check(command::integer_in(1, 1 << 24));
  CLI::Option* temperature = verb->add_option("--temperature", a.generate.sampling.temperature,
                                              "divides the logits; 0 is --greedy (default: 1)")
                                 ->check(command::number_in(0.0, 1e6));
  verb->add_option("--seed", a.generate.sampling.seed, "of what is drawn (default: 0)")
      ->check(command::integer_from(0));
  verb->add_flag("--greedy", a.greedy, "always the likeliest token")->excludes(temperature);
  verb->add_flag("--best", a.generate.best, "the best checkpoint instead of the last");
  verb->add_flag("--no-cache", a.generate.no_cache,
                 "pass over all tokens for each one, instead of keeping keys and values");
  verb->add_flag("--json", a.json, "print tokens and text as JSON");
  add_common(*verb, a);
  verb->footer(
      "Examples:\n"
      "  posenc generate runs/text --prompt \"Call me\" --tokens 200 --temperature 0.8\n"
      "  posenc generate runs/text --prompt \"Call me\" --greedy --json\n");
  return verb;
}

CLI::App* add_train(CLI::App& app, Arguments& a) {
  CLI::App* verb = app.add_subcommand("train", "Train a small transformer into a run directory");
  verb->add_option("CONFIG", a.config, "a YAML file, see configs/")->required();
  verb->add_option("--out", a.out, "run directory (default: runs/NAME-HASH-sSEED)");
  verb->add_flag("--resume", a.resume, "go on from the last checkpoint if there is one");
  verb->add_flag("--no-eval", a.no_eval, "leave out the evaluation at the end");
  verb->add_option("--minutes", a.minutes,
                   "time box: save and exit with code 75 before it is over; --resume goes on")
      ->check(command::number_above(0.0));
  verb->add_option("--procs", a.procs,
                   "start so many processes on this machine, which share each batch")
      ->check(command::integer_in(1, 4096));
  add_overrides(*verb, a);
  add_common(*verb, a);
  verb->footer(
      "Examples:\n"
      "  posenc train configs/demo.yaml --set model.encoding=rope+cope --out runs/mine\n"
      "  posenc train configs/demo.yaml --out runs/mine --resume\n"
      "  posenc train configs/demo.yaml --procs 2\n");
  return verb;
}

CLI::App* add_eval(CLI::App& app, Arguments& a) {
  CLI::App* verb = app.add_subcommand("eval", "Evaluate a trained model at any length or schedule");
  verb->add_option("RUN", a.run, "a run directory")->required();
  verb->add_option("--schedule", a.eval.schedule,
                   "another RoPE schedule, stretched to each length: linear, ntk, dynamic, "
                   "yarn or longrope");
  verb->add_option("--encoding", a.eval.encoding,
                   "another spec with the same parameters, for every layer");
  verb->add_flag("--best", a.eval.best, "the best checkpoint instead of the last");
  verb->add_option("--out", a.out, "write the results here instead of into the run");
  verb->add_flag("--json", a.json, "print the results as JSON");
  add_overrides(*verb, a);
  add_common(*verb, a);
  verb->footer(
      "Examples:\n"
      "  posenc eval runs/mine --set \"eval.conditions=[{axis: longer, length: 192}]\"\n"
      "  posenc eval runs/mine --schedule yarn --json\n");
  return verb;
}

int run_program(int argc, char** argv) {
  Arguments a;
  CLI::App app("posenc: train and evaluate small transformers with any encoding", "posenc");
  command::use_help_layout(app);
  app.require_subcommand(1);
  const CLI::App* train_verb = add_train(app, a);
  add_eval(app, a);
  const CLI::App* attention_verb = add_attention(app, a);
  const CLI::App* generate_verb = add_generate(app, a);
  if (command::asks_for_verbs(argc, argv)) {
    fmt::print("{}\n", command::verbs_json(app));
    return kFine;
  }
  try {
    command::check_verbs(app, {argv + 1, argv + argc});
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);
  } catch (const CLI::ParseError& problem) {
    const std::string text = command::mistake_text(app, problem);
    print_once("{}\n", text);
    if (argc > 1 && std::string_view(argv[1]) == train_verb->get_name()) {
      parallel::report_early(text, true);
    }
    return kMistake;
  }
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (attention_verb->parsed()) return look(a);
  if (generate_verb->parsed()) return continue_prompt(a);
  return train_verb->parsed() ? train(a, words) : evaluate(a);
}

// Results that did not arrive are a failure.
int finished(int code) {
  const std::string problem = command::output_problem(stdout);
  if (problem.empty()) return code;
  print_once("posenc: {}\n", problem);
  return code == kFine ? kFailure : code;
}

int failed(const std::exception& failure) {
  if (command::is_closed_pipe(failure)) return kFailure;
  const std::string problem = is_mistake(failure) ? "" : command::output_problem(stdout, &failure);
  if (problem.empty()) return say(failure);
  print_once("posenc: {}\n", problem);
  return kFailure;
}

}  // namespace
}  // namespace posenc::train

int main(int argc, char** argv) {
  try {
    auto settings = posenc::patient_threads();
    for (auto& setting : posenc::better_openblas()) settings.push_back(std::move(setting));
    for (auto& setting : posenc::train::quiet_transport()) settings.push_back(std::move(setting));
    posenc::restart_with(settings);
    posenc::keep_freed_memory();
    return posenc::train::finished(posenc::train::run_program(argc, argv));
  } catch (const posenc::train::Said& failure) {
    return failure.code;
  } catch (const std::exception& failure) {
    return posenc::train::failed(failure);
  }
}

// One function per verb: declares its options and what to run when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace posenc::cli {

// What the chosen verb runs; returns the exit code.
using Action = std::function<int()>;

void add_list(CLI::App& app, Action& chosen);
void add_inspect(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_convert(CLI::App& app, Action& chosen);
void add_train(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_sweep(CLI::App& app, Action& chosen);
void add_plan(CLI::App& app, Action& chosen);
void add_reproduce(CLI::App& app, Action& chosen);
void add_compare(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);
void add_serve(CLI::App& app, Action& chosen);
void add_runs(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, Action& chosen);
void add_sample(CLI::App& app, Action& chosen);
void add_plot(CLI::App& app, Action& chosen);
void add_attention(CLI::App& app, Action& chosen);
void add_export(CLI::App& app, Action& chosen);
void add_generate(CLI::App& app, Action& chosen);
void add_which(CLI::App& app, Action& chosen);
void add_init(CLI::App& app, Action& chosen);
void add_completion(CLI::App& app, Action& chosen);
void add_man(CLI::App& app, Action& chosen);
void add_help(CLI::App& app, Action& chosen);

// "posenc 0.1.0 (commit 212c693)", and a line of what the build has.
std::string version_text();

// The path of a program that is built and installed next to this one.
std::string program_beside(const std::string& name);

// Exit codes: fine, anything unforeseen, the user's mistake.
inline constexpr int kFine = 0;
inline constexpr int kFailure = 1;
inline constexpr int kMistake = 2;

}  // namespace posenc::cli

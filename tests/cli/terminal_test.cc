// Names and contents of files on a terminal: they are shown, and never obeyed.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "cli/run_cli.h"
#include "core/plain_text.h"
#include "report/run_case.h"
#include "support/checkpoint_case.h"
#include "support/paths.h"
#include "support/sanitizers.h"

namespace posenc::testing {
namespace {

// Clears the screen, rings, ends a C1 sequence and reverses what follows.
const std::string kHostile = "x\x1b[2J\x07\u009b\u202ey";

void expect_plain(const Result& result, const std::string& shows) {
  EXPECT_EQ(printable(result.out), result.out) << "the terminal would obey something of this";
  EXPECT_NE(result.out.find(shows), std::string::npos) << result.out;
}

TEST(Terminal, RunsAreComparedWithoutObeyingTheirNames) {
  const TemporaryFolder folder;
  const std::string escaped = "x\\u001b[2J\\u0007\\u009b\\u202ey\\nz";
  const std::string run_folder = folder / ("runs/" + kHostile);
  write_run(run_folder, {.encoding = "rope", .rows = {{"train", 1, 0.9, 0.8, 0.95, ""}}});
  std::string results = file_content(run_folder + "/results.json");
  results.replace(results.find("\"rope\""), 6, "\"" + escaped + "\"");
  write_content(run_folder + "/results.json", results);
  write_run(folder / "runs/stopped", {.rows = {}}, runs::RunState::kStopped, kHostile + "\nfake");
  for (const char* form : {"", " --markdown", " --csv", " --json"}) {
    const Result result = run("compare '" + folder / "runs" + "'" + form);
    EXPECT_EQ(result.code, 0) << result.out;
    expect_plain(result, "x");
  }
  const auto all = run_json("compare '" + folder / "runs" + "'");
  EXPECT_NE(all.dump().find("\u202e"), std::string::npos) << "JSON says it all the same";
  const Result tables = run("compare '" + folder / "runs" + "'");
  EXPECT_EQ(tables.out.find("\nfake"), std::string::npos) << "a message cannot begin a line";
}

TEST(Terminal, MistakesAreOneLineWhateverTheyQuote) {
  const TemporaryFolder folder;
  write_content(folder / "c.yaml", "task: parity\nmodel: {\"" + kHostile + "\": 1}\n");
  for (const std::string& arguments :
       {"inspect --encoding '" + kHostile + "' --head-dim 64", "sample '" + folder / "c.yaml" + "'",
        "compare '" + folder / kHostile + "'", "inspect --hf '" + kHostile + ".json'",
        "convert '" + kHostile + "' -o out --layout half", "'" + kHostile + "'",
        "plot '" + kHostile + "'",
        std::string("inspect --encoding 'rope(\xff\xfe=1)' --head-dim 64")}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    expect_plain(result, "posenc");
  }
}

TEST(Terminal, TensorsAreListedWithoutObeyingTheirNames) {
  const TemporaryFolder folder;
  Rng rng(3);
  write_tensors(folder / "in",
                {random_tensor("q_proj.weight", weights::ElementType::kF32, {8, 2}, rng),
                 random_tensor("k_proj.weight", weights::ElementType::kF32, {8, 2}, rng),
                 random_tensor("other\x1b[2J\u202e", weights::ElementType::kF32, {2}, rng)});
  for (const char* form : {"", " --json"}) {
    expect_plain(run("convert " + folder / "in" + " --layout interleaved --head-dim 4 -o " +
                     folder / "out" + " --dry-run" + form),
                 "other");
  }
}

// What the program writes to a terminal of its own.
std::string on_terminal(const std::vector<std::string>& words, const char* no_color,
                        unsigned short columns = 0) {
  int terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    no_color == nullptr ? ::unsetenv("NO_COLOR") : ::setenv("NO_COLOR", no_color, 1);
    std::vector<char*> arguments = {const_cast<char*>(kCliPath)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(kCliPath, arguments.data());
    ::_exit(127);
  }
  std::string out;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(terminal, buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(terminal);
  ::waitpid(child, nullptr, 0);
  return out;
}

TEST(Terminal, HasColoursUnlessNoColorIsSet) {
  const std::string red = "\x1b[31mposenc:\x1b[0m [list] NAME";
  EXPECT_EQ(on_terminal({"list", "zzz"}, nullptr).rfind(red, 0), 0U);
  EXPECT_EQ(on_terminal({"list", "zzz"}, "").rfind(red, 0), 0U) << "empty is not set";
  EXPECT_EQ(on_terminal({"list", "zzz"}, "1").find('\x1b'), std::string::npos);
  EXPECT_NE(on_terminal({"list", "--brief"}, nullptr).find("\x1b[1mencoding\x1b[0m"),
            std::string::npos);
  EXPECT_EQ(run("list --brief").out.find('\x1b'), std::string::npos) << "a pipe has none";
  EXPECT_EQ(run("list zzz").out.find('\x1b'), std::string::npos);
}

TEST(Terminal, StatesHaveColours) {
  const TemporaryFolder folder;
  write_run(folder / "runs/good", {.rows = {{"train", 1, 0.9, 0.8, 0.95, ""}}});
  write_run(folder / "runs/bad", {.rows = {}}, runs::RunState::kDiverged);
  const std::string table = on_terminal({"runs", "list", folder / "runs"}, nullptr);
  EXPECT_NE(table.find("\x1b[32mfinished\x1b[0m"), std::string::npos) << table;
  EXPECT_NE(table.find("\x1b[31mdiverged\x1b[0m"), std::string::npos) << table;
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    widest = std::max(widest, character_count(line));
  }
  return widest;
}

// Paths and specs without blanks are broken, too: no line is folded by the terminal.
TEST(Terminal, OfEightyColumnsIsNotExceeded) {
  const TemporaryFolder folder;
  const std::string deep = folder / "a_folder_with_a_long_name/and_another_one_below_it";
  write_run(deep + "/rope_cope_npos_max_64", {.encoding = "rope(theta=500000) + cope(npos_max=64)",
                                              .rows = {{"train", 1, 0.9, 0.8, 0.95, ""},
                                                       {"longer", 2, 0.7, 0.6, 0.75, ""},
                                                       {"longer", 16, 0.5, 0.4, 0.6, ""}}});
  std::vector<std::vector<std::string>> commands = {
      {"list"},
      {"plot", "--list"},
      {"plot", "decay", "--list"},
      {"data", "--list"},
      {"runs", "list", folder.path()},
      {"compare", folder.path()},
      {"inspect", "rope(theta=500000) + alibi", "--head-dim", "64", "--positions", "0,1,7"}};
  // Reads all committed runs, which takes minutes under a sanitizer.
  if (!kSanitized) commands.push_back({"reproduce", "--root", std::string(kTestData) + "/.."});
  for (const std::vector<std::string>& words : commands) {
    const std::string shown = on_terminal(words, "1", 80);
    EXPECT_LE(widest_line(shown), 80U) << shown;
    EXPECT_GT(widest_line(shown), 40U) << shown;
  }
}

// A program that reads a pipe gets a row per line.
TEST(Terminal, PipesHaveWholeRows) {
  const TemporaryFolder folder;
  const std::string name(120, 'n');
  write_run(folder / name, {.rows = {{"train", 1, 0.9, 0.8, 0.95, ""}}});
  EXPECT_NE(run("runs list " + folder.path()).out.find(name), std::string::npos);
  EXPECT_EQ(on_terminal({"runs", "list", folder.path()}, "1", 80).find(name), std::string::npos);
}

}  // namespace
}  // namespace posenc::testing

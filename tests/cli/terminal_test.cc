// Names and contents of files on a terminal: they are shown, and never obeyed.
#include <gtest/gtest.h>

#include "cli/run_cli.h"
#include "core/plain_text.h"
#include "report/run_case.h"
#include "support/checkpoint_case.h"

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

}  // namespace
}  // namespace posenc::testing

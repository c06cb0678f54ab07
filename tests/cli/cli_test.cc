// The program as a user meets it: exit codes, one-line errors, and JSON that can be relied on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_cli.h"
#include "core/plain_text.h"
#include "posenc/core/version.h"
#include "posenc/encodings/encoding.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace {

using nlohmann::json;
using posenc::testing::Result;
using posenc::testing::run;
using posenc::testing::run_json;

std::string write_config(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + "posenc_" + name;
  std::ofstream(path) << content;
  return path;
}

// Words with one blank between them: lines are broken to fit a terminal.
std::string unwrapped(const std::string& text) {
  std::string out;
  std::istringstream words(text);
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Pairs of arguments and what is said of them.
using Mistakes = std::vector<std::pair<const char*, const char*>>;
void expect_one_line_that_helps(const Mistakes& mistakes) {
  for (const auto& [arguments, says] : mistakes) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.out.find(says), std::string::npos) << arguments << ": " << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  }
}

TEST(Cli, MistakesExitWithTwoAndOneLineThatHelps) {
  expect_one_line_that_helps({
      {"", "see posenc --help"},
      {"frobnicate", "'frobnicate' is not a verb of posenc; known: init, list, inspect"},
      {"trian", "'trian' is not a verb of posenc; did you mean 'train'?"},
      {"trian --help", "did you mean 'train'?"},
      {"help trian", "did you mean 'train'?"},
      {"runs lst", "'lst' is not a verb of posenc runs; did you mean 'list'?"},
      {"inspect --enconding rope",
       "posenc inspect: --enconding is not an option of posenc inspect; "
       "did you mean '--encoding'?"},
      {"sweep status --jsn x", "not an option of posenc sweep status; did you mean '--json'?"},
      {"inspect --encoding rotary --head-dim 8", "did you mean 'rope'?"},
      {"list rotary", "did you mean 'rope'?"},
      {"list ntk-aware", "did you mean 'ntk'?"},
      {"list --nope", "--nope"},
      {"inspect", "[inspect] SPEC is required; add a spec such as rope"},
      {"inspect --encoding rope", "add --head-dim 64"},
      {"inspect --encoding rop --head-dim 8", "did you mean 'rope'?"},
      {"inspect --encoding rope --head-dim 7", "head_dim must be even but got 7"},
      {"inspect --encoding rope --head-dim x", "--head-dim"},
      {"inspect --encoding rope --head-dim 8 --precision half", "half not in {exact,hf}"},
      {"inspect --encoding rope --head-dim 8 --positions 0,a", "--positions must hold integers"},
      {"inspect --encoding t5 --head-dim 8 --relative 5:1", "must go upwards"},
      {"inspect --hf /nonexistent/config.json", "/nonexistent/config.json"},
      {"inspect rope", "add --head-dim 64"},
      {"inspect rop --head-dim 8", "did you mean 'rope'?"},
  });
}

TEST(Cli, MistakesOfTheLabAreOneLineToo) {
  POSENC_NEEDS_LIBTORCH();
  expect_one_line_that_helps({
      {"train x --ste y",
       "posenc train: --ste is not an option of posenc train; did you mean '--set'?"},
      {"eval x --shedule yarn",
       "posenc eval: --shedule is not an option of posenc eval; "
       "did you mean '--schedule'?"},
      {"generate x --promt y", "did you mean '--prompt'?"},
      {"train", "posenc train: CONFIG is required; see posenc train --help"},
  });
}

// tests/docs/help_pages.py reads the help of every verb.
TEST(Cli, HelpOfAVerbIsSaidInTwoWays) {
  EXPECT_EQ(run("help").out, run("--help").out);
  EXPECT_EQ(run("help inspect").out, run("inspect --help").out);
  EXPECT_EQ(run("help sweep status").out, run("sweep status --help").out);
  EXPECT_NE(run("help sweep status").out.find("posenc sweep status runs/theta"), std::string::npos);
}

TEST(Cli, VersionSaysWhatTheBuildHas) {
  const Result result = run("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, run("-v").out);
  EXPECT_EQ(result.out.rfind("posenc " POSENC_VERSION_STRING, 0), 0U) << result.out;
  EXPECT_NE(result.out.find("\nbuilt with"), std::string::npos) << result.out;
  for (const char* part : {"libtorch", "CUDA", "Gloo", "NCCL"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
  }
}

TEST(Cli, ListDocumentsOneName) {
  const std::string rope = run("list rope").out;
  for (const char* says : {"rope: rotary position embedding", "arXiv 2104.09864", "theta=10000",
                           "posenc inspect \"rope\" --head-dim 64"}) {
    EXPECT_NE(rope.find(says), std::string::npos) << says << " in " << rope;
  }
  EXPECT_EQ(rope.find("alibi"), std::string::npos) << "only what was asked for";
  EXPECT_NE(run("list yarn").out.find("rope(schedule=yarn(factor=4, "), std::string::npos);
  EXPECT_EQ(run_json("list yarn")["name"], "yarn");
  EXPECT_EQ(run_json("list rope")["site_number"], 2);
}

TEST(Cli, ListStaysWithinEightyColumns) {
  std::istringstream lines(run("list --brief").out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(posenc::character_count(line), 80U) << line;
  }
  EXPECT_GT(count, 40U);
}

TEST(Cli, InitWritesAConfigThatTheTaskReads) {
  const posenc::testing::TemporaryFolder folder;
  const Result made = run("init " + (folder / "study"));
  EXPECT_EQ(made.code, 0) << made.out;
  const std::string config = folder / "study/experiment.yaml";
  EXPECT_NE(made.out.find("posenc train " + config), std::string::npos) << made.out;
  EXPECT_EQ(run("sample " + config + " --axis sparse").code, 0);
  const Result again = run("init " + (folder / "study"));
  EXPECT_EQ(again.code, 2) << "nothing is overwritten";
  EXPECT_NE(again.out.find("exists already"), std::string::npos) << again.out;
}

// For torchrun, which starts a program by its path.
TEST(Cli, WhichNamesTheProgramOfTraining) {
  const Result result = run("which train");
  const std::string beside = std::string(posenc::testing::kCliPath) + "-train";
  if (std::filesystem::exists(beside)) {
    EXPECT_EQ(result.code, 0) << result.out;
    EXPECT_EQ(result.out, std::filesystem::canonical(beside).string() + "\n");
  } else {
    EXPECT_EQ(result.code, 2) << "built without libtorch";
  }
  EXPECT_EQ(run("which eval").code, 2);
}

TEST(Cli, ListNamesEveryEncodingFieldAndProperty) {
  const json list = run_json("list");
  std::vector<std::string> names;
  for (const json& e : list["encodings"]) {
    names.push_back(e["name"]);
    for (const char* key : {"site", "relative", "extrapolates", "linear_attention", "trainable",
                            "parameter_count", "fields", "paper", "formula"}) {
      EXPECT_TRUE(e.contains(key)) << e["name"] << " " << key;
    }
    for (const json& field : e["fields"]) EXPECT_TRUE(field.contains("default")) << field;
  }
  std::vector<std::string> known;
  for (const posenc::CatalogEntry& e : posenc::encoding_catalog())
    known.emplace_back(e.traits.name);
  EXPECT_EQ(names, known);
  EXPECT_EQ(list["schedules"].size(), posenc::schedule_catalog().size());
  const std::string text = unwrapped(run("list").out);
  for (const json& e : list["encodings"]) {
    EXPECT_NE(text.find(e["name"].get<std::string>()), std::string::npos);
    for (const json& field : e["fields"]) {
      EXPECT_NE(text.find(unwrapped(field["doc"].get<std::string>())), std::string::npos) << field;
    }
  }
}

TEST(Cli, InspectGivesTheTablesOfAComposition) {
  const json j = run_json(
      "inspect --encoding 'rope(theta=10000) + alibi' --head-dim 8 --heads 4 --positions 0,1,7");
  EXPECT_EQ(j["encoding"], "rope + alibi");
  EXPECT_EQ(j["head_dim"], 8);
  EXPECT_EQ(j["rotary_dim"], 8);
  EXPECT_EQ(j["layout"], "half");
  EXPECT_EQ(j["attention_factor"], 1.0);
  EXPECT_EQ(j["slopes"], (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
  EXPECT_TRUE(j["buckets"].is_null());
  ASSERT_EQ(j["cos"].size(), 3u);
  ASSERT_EQ(j["cos"][2].size(), 4u);
  for (int p = 0; p < 4; ++p) {
    const double inv = std::pow(10000.0, -p / 4.0);
    EXPECT_NEAR(j["inv_freq"][p].get<double>(), inv, 1e-15);
    EXPECT_NEAR(j["cos"][2][p].get<double>(), std::cos(7.0 * inv), 1e-15);
    EXPECT_NEAR(j["sin"][2][p].get<double>(), std::sin(7.0 * inv), 1e-15);
  }
  EXPECT_EQ(j["max_unambiguous_distance"], 6283);
}

TEST(Cli, InspectTakesASpecInAnyOfItsForms) {
  const std::string wanted =
      run_json("inspect --head-dim 8 --encoding 'rope(theta=500) + alibi'")["hash"];
  const std::string yaml = write_config("spec.yaml", "- rope:\n    theta: 500\n- alibi\n");
  const std::string as_json = write_config("spec.json", R"([{"rope": {"theta": 500}}, "alibi"])");
  EXPECT_EQ(run_json("inspect --head-dim 8 --encoding @" + yaml)["hash"], wanted);
  EXPECT_EQ(run_json("inspect --head-dim 8 --encoding @" + as_json)["hash"], wanted);
  EXPECT_EQ(
      run_json(R"(inspect --head-dim 8 --encoding '[{"rope": {"theta": 500}}, "alibi"]')")["hash"],
      wanted);
  EXPECT_EQ(run("inspect --head-dim 8 --encoding @/nonexistent").code, 2);
}

TEST(Cli, InspectSaysThatAnglesComeFromAnInput) {
  const Result angles = run("inspect --encoding \"rope(angles=input)\" --head-dim 8");
  EXPECT_EQ(angles.code, 0) << angles.out;
  EXPECT_NE(angles.out.find("its angles come from the input rope.angles, so it has no frequencies"),
            std::string::npos);
  EXPECT_EQ(angles.out.find("inv_freq"), std::string::npos) << angles.out;
  const auto document = run_json("inspect --encoding \"rope(angles=input)\" --head-dim 8");
  EXPECT_EQ(document["angles"], "input");
  EXPECT_TRUE(document["inv_freq"].is_null() && document["cos"].is_null());
  const Result positions = run("inspect --encoding \"rope(angles=input_position)\" --head-dim 8");
  EXPECT_NE(positions.out.find("its positions come from the input rope.position"),
            std::string::npos);
  EXPECT_NE(positions.out.find("inv_freq"), std::string::npos);
}

TEST(Cli, InspectBucketsOverARange) {
  const json j = run_json("inspect --encoding t5 --head-dim 8 --heads 2 --relative -600:600");
  ASSERT_EQ(j["buckets"].size(), 1201u);
  EXPECT_EQ(j["buckets"][0], 31);
  EXPECT_EQ(j["buckets"][600], 0);
  EXPECT_TRUE(j["inv_freq"].is_null());
  EXPECT_EQ(j["parameters"][0]["name"], "t5.weight");
}

TEST(Cli, InspectReadsAConfigWithLayerTypes) {
  const std::string path = write_config("nested.json", R"({
    "model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32,
    "max_position_embeddings": 1024,
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  const json j = run_json("inspect --hf " + path + " --positions 1");
  EXPECT_EQ(j["layers"]["full_attention"]["inv_freq"][0], 0.125);
  EXPECT_EQ(j["layers"]["sliding_attention"]["inv_freq"][0], 1.0);
  EXPECT_NE(run("inspect --hf " + path).out.find("sliding_attention"), std::string::npos);
}

TEST(Cli, ProfileAndPrecisionReachTheNumbers) {
  const std::string yarn =
      "inspect --encoding 'rope(schedule=yarn(factor=4, original_max_position_embeddings=4096, "
      "attention_factor=2))' --head-dim 64 --positions 1000";
  EXPECT_EQ(run_json(yarn)["attention_factor"], 2.0);
  EXPECT_NEAR(run_json(yarn + " --profile vllm")["attention_factor"].get<double>(),
              0.1 * std::log(4.0) + 1.0, 1e-12);
  const json exact = run_json("inspect --encoding rope --head-dim 64 --positions 1000");
  const json hf = run_json("inspect --encoding rope --head-dim 64 --positions 1000 --precision hf");
  EXPECT_NE(exact["cos"], hf["cos"]);
  EXPECT_NEAR(exact["cos"][0][1].get<double>(), hf["cos"][0][1].get<double>(), 1e-3);
  const std::string fixed =
      "inspect --encoding 'rope(schedule=dynamic(factor=2, max_position_embeddings=8, "
      "length=fixed), "
      "precision=hf)' --head-dim 8";
  EXPECT_EQ(
      run_json(fixed)["encoding"],
      "rope(schedule=dynamic(factor=2, max_position_embeddings=8, length=fixed), precision=hf)")
      << "what a spec says stands unless an option changes it";
  EXPECT_EQ(run("inspect --encoding 'rope(schedule=dynamic(factor=2, max_position_embeddings=8))' "
                "--head-dim 8 --profile llama.cpp")
                .code,
            2);
}

TEST(Cli, SeveralAxesTakeACoordinateEach) {
  const json j = run_json(
      "inspect --encoding 'rope(axes=mrope(sections=[2, 1, 1]))' --head-dim 8 --positions 3/4/5,6");
  EXPECT_NEAR(j["sin"][0][0].get<double>(), std::sin(3.0), 1e-15);
  EXPECT_NEAR(j["sin"][0][2].get<double>(), std::sin(4.0 * j["inv_freq"][2].get<double>()), 1e-15);
  EXPECT_NEAR(j["sin"][1][3].get<double>(), std::sin(6.0 * j["inv_freq"][3].get<double>()), 1e-15);
  EXPECT_EQ(run("inspect --encoding 'rope(axes=axial)' --head-dim 8 --positions 1/2/3").code, 2);
}

}  // namespace

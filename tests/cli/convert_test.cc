// posenc convert as a user meets it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/run_cli.h"
#include "support/checkpoint_case.h"

namespace posenc::testing {
namespace {

using nlohmann::json;
using weights::ElementType;
using weights::Shape;

// A Llama with two layers: 4 heads of 8, two of k and v.
void write_llama(const std::string& path) {
  Rng rng(1);
  std::vector<OwnedTensor> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    tensors.push_back(random_tensor(name, ElementType::kBf16, shape, rng));
  };
  add("model.embed_tokens.weight", {64, 32});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add(layer + "self_attn.q_proj.weight", {32, 32});
    add(layer + "self_attn.k_proj.weight", {16, 32});
    add(layer + "self_attn.v_proj.weight", {16, 32});
  }
  write_tensors(path, tensors, {{"format", "pt"}});
}

const std::string kConfig = R"({"model_type": "llama", "hidden_size": 32,
  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64})";

TEST(Convert, ThereAndBackIsTheSameFile) {
  const TemporaryFolder folder;
  write_llama(folder / "in");
  const json there = run_json("convert " + folder / "in" + " -o " + folder / "there" +
                              " --layout interleaved --head-dim 8");
  EXPECT_EQ(there["from"], "half");
  EXPECT_EQ(there["rotary_dim"], 8);
  EXPECT_EQ(std::count_if(there["tensors"].begin(), there["tensors"].end(),
                          [](const json& t) { return t["action"] == "permuted"; }),
            4);
  const Result back =
      run("convert " + folder / "there" + " -o " + folder / "back" + " --layout half --head-dim 8");
  EXPECT_EQ(back.code, 0);
  EXPECT_NE(back.out.find("model.layers.*.self_attn.q_proj.weight"), std::string::npos) << back.out;
  EXPECT_NE(back.out.find("4 permuted, 3 copied"), std::string::npos) << back.out;
  EXPECT_NE(file_content(folder / "there"), file_content(folder / "in"));
  EXPECT_EQ(file_content(folder / "back"), file_content(folder / "in"));
}

TEST(Convert, TheConfigOfTheFolderIsRead) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "in");
  write_llama(folder / "in/model.safetensors");
  write_content(folder / "in/config.json", kConfig);
  const json j = run_json("convert " + folder / "in" + " --layout interleaved --dry-run");
  EXPECT_EQ(j["head_dim"], 8);
  EXPECT_EQ(j["heads"], 4);
  EXPECT_EQ(j["kv_heads"], 2);
  EXPECT_EQ(j["dry_run"], true);
  EXPECT_EQ(run("convert " + folder / "in" + " --layout interleaved --in-place").code, 0);
  EXPECT_EQ(run("convert " + folder / "in" + " --layout interleaved --in-place").code, 2)
      << "the second time it is converted already";
  EXPECT_EQ(run("convert " + folder / "in" + " --layout half --in-place").code, 0);
}

TEST(Convert, MistakesAreOneLineAndChangeNothing) {
  const TemporaryFolder folder;
  write_llama(folder / "in");
  write_content(folder / "config.json", kConfig);
  write_content(folder / "there", "precious");
  const std::string in = "convert " + folder / "in";
  const std::string layout = in + " -o " + folder / "new" + " --layout interleaved ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"convert", "required"},
      {in + " -o x", "[--layout,--positions] is required"},
      {in + " --layout half --head-dim 8", "OUT is required; add -o OUT, or --in-place"},
      {in + " -o x --in-place --layout half", "excludes --in-place"},
      {in + " -o " + folder / "in" + " --layout half --head-dim 8", "is the input itself"},
      {in + " -o " + folder / "there" + " --layout half --head-dim 8", "add --force"},
      {layout, "head_dim is required; add --head-dim"},
      {layout + "--head-dim 7", "rotary_dim must be even"},
      {layout + "--head-dim 8 --from interleaved", "is interleaved already"},
      {layout + "--head-dim 16 --config " + folder / "config.json",
       "--head-dim must be 8 as " + folder / "config.json" + " says but got 16"},
      {layout + "--head-dim 8 --rotary-dim 10", "fit into head_dim (8)"},
      {layout + "--head-dim 8 --target x", "--target requires --positions"},
      {layout + "--head-dim 8 --q-proj none", "no projection of q was found"},
      {layout + "--config " + folder / "none.json", "none.json"},
      {in + " -o x --layout sideways", "sideways not in {half,interleaved}"},
      {in + " -o x --positions rop", "did you mean 'rope'?"},
      {"convert " + folder / "config.json" + " -o x --layout half --head-dim 8",
       "header must have at most"},
  };
  for (const auto& [arguments, says] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_NE(result.out.find(says), std::string::npos) << arguments << ": " << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  }
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"config.json", "in", "there"}));
  EXPECT_EQ(file_content(folder / "there"), "precious");
}

TEST(Convert, AFullDiskLeavesTheTarget) {
  const TemporaryFolder folder;
  write_llama(folder / "in");
  write_content(folder / "there", "precious");
  const Result result = run("convert " + folder / "in" + " -o " + folder / "there" +
                                " --force --layout interleaved --head-dim 8",
                            "ulimit -f 4; ");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.out.find("cannot be written"), std::string::npos) << result.out;
  EXPECT_EQ(file_content(folder / "there"), "precious");
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"in", "there"}));
}

TEST(Convert, PositionsSayWhatIsCopiedSkippedLeftAndFrozen) {
  const TemporaryFolder folder;
  Rng rng(2);
  write_tensors(folder / "in",
                {random_tensor("wte.weight", ElementType::kF32, {8, 4}, rng),
                 random_tensor("wpe.weight", ElementType::kF32, {8, 4}, rng),
                 random_tensor("h.0.attn.c_attn.weight", ElementType::kF32, {4, 12}, rng)});
  write_content(folder / "new.json",
                R"({"wte.weight": [8, 4], "h.0.attn.c_attn.weight": [4, 12], "rope.alpha": [2]})");
  const std::string arguments = "convert " + folder / "in" + " --positions rope --target " +
                                folder / "new.json" + " --freeze-except attention -o ";
  const json j = run_json(arguments + folder / "a");
  EXPECT_EQ(j["positions"], "rope");
  EXPECT_EQ(j["left_at_initialisation"], json::parse(R"([{"name": "rope.alpha", "shape": [2]}])"));
  EXPECT_EQ(j["trainable"], (json{"h.0.attn.c_attn.weight", "rope.alpha"}));
  EXPECT_EQ(j["frozen"], json::array({"wte.weight"}));
  EXPECT_EQ(j["tensors"][1]["action"], "skipped");
  EXPECT_EQ(j["tensors"][1]["note"], "positional");
  const Result text = run(arguments + folder / "b");
  EXPECT_NE(text.out.find("2 copied, 1 skipped, 1 left at initialisation; 2 to train, 1 frozen"),
            std::string::npos)
      << text.out;
  EXPECT_EQ(file_content(folder / "a"), file_content(folder / "b"));
}

}  // namespace
}  // namespace posenc::testing

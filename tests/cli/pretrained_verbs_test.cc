// posenc export, generate and attention --text as a user meets them, on a run that starts from a Hugging Face folder.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run_cli.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

class PretrainedVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    POSENC_NEEDS_LIBTORCH();
    write_content(folder_ / "config.yaml",
                  "task: {flip_flop: {}}\n"
                  "train: {init_from: " +
                      std::string(kTestData) +
                      "/golden/hf_models/llama, length: 16, batch: 2, steps: 1}\n"
                      "eval: {samples: 2, factors: [1]}\n");
    const Result trained =
        testing::run("train " + (folder_ / "config.yaml") + " --progress plain --out " + run_dir());
    ASSERT_EQ(trained.code, 0) << trained.out;
    EXPECT_NE(trained.out.find("initial weights: 21 tensors from "), std::string::npos)
        << trained.out;
    EXPECT_NE(trained.out.find("(llama tensors of Hugging Face)"), std::string::npos)
        << trained.out;
  }
  [[nodiscard]] std::string run_dir() const { return folder_ / "run"; }
  TemporaryFolder folder_;
};

TEST_F(PretrainedVerbs, WorkOnARunFromAHuggingFaceFolder) {
  const std::string out = folder_ / "exported";
  const Result exported = testing::run("export " + run_dir() + " --to hf -o " + out);
  ASSERT_EQ(exported.code, 0) << exported.out;
  EXPECT_EQ(exported.out,
            out + ": llama of step 1, 21 tensors in float32 (config.json, model.safetensors)\n");
  const auto config = nlohmann::json::parse(file_content(out + "/config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(config["rope_scaling"]["rope_type"], "llama3");
  const Result again = testing::run("export " + run_dir() + " --to hf -o " + out);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(
      again.out.find("is not empty; choose another folder, or replace its files with --force"),
      std::string::npos)
      << again.out;
  EXPECT_EQ(testing::run("export " + run_dir() + " --to hf --force -o " + out).code, 0);
  const Result said =
      testing::run("generate " + run_dir() + " --prompt 'w 1 i 0 r' --tokens 4 --greedy");
  EXPECT_EQ(said.code, 0) << said.out;
  const Result looked =
      testing::run("attention " + run_dir() + " --text 'w 1 i 0 r' -o " + (folder_ / "a.svg"));
  EXPECT_EQ(looked.code, 0) << looked.out;
  EXPECT_NE(looked.out.find("axis text, 5 tokens"), std::string::npos) << looked.out;
  EXPECT_FALSE(std::filesystem::exists(run_dir() + "/attention/text-T5-sample0.safetensors"));
  const Result both = testing::run("attention " + run_dir() + " --text 'w 1' --sample 1");
  EXPECT_EQ(both.code, 2) << both.out;
  const Result unknown = testing::run("attention " + run_dir() + " --text nonsense");
  EXPECT_EQ(unknown.code, 2) << unknown.out;
  EXPECT_NE(unknown.out.find("text must be words of the task but got 'nonsense'"),
            std::string::npos)
      << unknown.out;
}

TEST(ExportVerb, SaysWhatIsWrong) {
  const Result none = run("export no/such/run -o x");
  EXPECT_EQ(none.code, 2) << none.out;
  const Result format = run("export a --to onnx -o x");
  EXPECT_EQ(format.code, 2) << format.out;
  EXPECT_NE(run("export --help").out.find("train.init_from=exported"), std::string::npos);
}

TEST(GenerateVerb, HelpNamesItsOptions) {
  POSENC_NEEDS_LIBTORCH();
  EXPECT_NE(run("generate --help").out.find("--no-cache"), std::string::npos);
}

}  // namespace
}  // namespace posenc::testing

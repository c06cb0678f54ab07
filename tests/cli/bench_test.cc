// posenc bench: one real row from end to end, and mistakes. Times are never looked at.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/run_cli.h"

namespace posenc {
namespace {

using testing::run;

TEST(CliBench, PrintsRowsWithEveryKey) {
  const auto rows = testing::run_json("bench cpu --filter rope/half/bfloat16/T512 --seconds 0");
  ASSERT_EQ(rows.size(), 1u);
  for (const char* key :
       {"name", "op", "encoding", "pass", "shape", "dtype", "threads", "ms", "baseline_ms",
        "speedup", "limit", "fraction_of_limit", "relative_to_plain", "peak_bytes",
        "baseline_peak_bytes", "path", "checked"}) {
    EXPECT_TRUE(rows[0].contains(key)) << key;
  }
  EXPECT_EQ(rows[0]["name"], "rope/half/bfloat16/T512/D64");
  EXPECT_EQ(rows[0]["checked"], true);
  EXPECT_GT(rows[0]["ms"], 0.0);
}

TEST(CliBench, ARowWithoutABaselineSaysWhy) {
  POSENC_NEEDS_LIBTORCH();
  const std::string row = "bench cpu --filter attention/fox/T2048/D64/forward+backward --seconds 0";
  const auto rows = testing::run_json(row);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["baseline_ms"].is_null());
  EXPECT_EQ(rows[0]["no_baseline"], "fox has no composition of libtorch operations");
  const std::string text = run(row).out;
  EXPECT_NE(text.find("yes; no base: fox has no composition of libtorch operations\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(run(row + " --no-baseline").out.find("no base:"), std::string::npos);
}

TEST(CliBench, MistakesNameTheVerbAndWhatIsNear) {
  for (const auto& [arguments, says] :
       {std::pair("bench cup", "'cup' is not a verb of posenc bench; did you mean 'cpu'?"),
        std::pair("bench cpu --fliter x",
                  "posenc bench cpu: --fliter is not an option of posenc "
                  "bench cpu; did you mean '--filter'?")}) {
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.out.find(says), std::string::npos) << result.out;
  }
}

TEST(CliBench, ListsItsRowsAndMeasuresNothing) {
  const auto result = run("bench cpu --list --filter decode");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("decode/none/K32768/D128/bfloat16\n"), std::string::npos);
  EXPECT_EQ(result.out.find("rope/half"), std::string::npos);
}

// Times are not looked at; what is looked at is which rows there are and what they say of themselves.
TEST(CliBench, TrainHasARowPerEncodingAndLength) {
  POSENC_NEEDS_LIBTORCH();
  const auto rows = testing::run_json(
      "bench train --lengths 32,64,128 --filter kerple --dim 16 --layers 1 --heads 2 --seconds 0");
  ASSERT_EQ(rows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& row = rows[i];
    EXPECT_EQ(row["encoding"], "kerple");
    EXPECT_EQ(row["length"], 32 << i);
    EXPECT_EQ(row["batch"], 4 >> i) << "the tokens of a step stay";
    EXPECT_EQ(row["device"], "cpu");
    EXPECT_EQ(row["precision"], "float32");
    EXPECT_EQ(row["fits"], true);
    EXPECT_EQ(row["checked"], true);
    EXPECT_GT(row["tokens_per_s"], 0.0);
    EXPECT_GT(row["composed_tokens_per_s"], 0.0);
    for (const char* key : {"dim", "layers", "heads", "speedup", "peak_bytes",
                            "composed_peak_bytes", "data_share", "loss_difference"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
  }
}

TEST(CliBench, TrainSaysWhatHasNoBaselineOrDoesNotFit) {
  POSENC_NEEDS_LIBTORCH();
  const std::string small = "bench train --length 32 --batch 2 --layers 1 --seconds 0 --filter ";
  const auto xpos = testing::run_json(small + "xpos --dim 16 --heads 2");
  ASSERT_EQ(xpos.size(), 1u);
  EXPECT_EQ(xpos[0]["fits"], true);
  EXPECT_TRUE(xpos[0]["composed_tokens_per_s"].is_null());
  EXPECT_TRUE(xpos[0]["checked"].is_null());
  const auto huge = run(small + "alibi --dim 1048576 --heads 1024");
  EXPECT_EQ(huge.code, 0) << huge.out;
  EXPECT_NE(huge.out.find("does not fit"), std::string::npos) << huge.out;
}

TEST(CliBench, TrainRefusesWhatIsNotThere) {
  POSENC_NEEDS_LIBTORCH();
  const auto says = [](const std::string& arguments, const std::string& part) {
    const auto result = run("bench train " + arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  };
  says("--precision bfloat16", "--precision needs --device cuda");
  says("--filter nothing_like_it", "--filter matches no encoding");
  says("--lengths 32,x", "--lengths");
  says("--lengths 32 --length 32", "--length");
  says("--device tpu", "--device");
  says("--heads 3 --filter alibi", "model.heads must divide");
}

TEST(CliBench, MistakesAreOneLine) {
  const auto unknown = run("bench cpu --filter nothing_like_it");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.out.find("--filter matches no row"), std::string::npos) << unknown.out;
  const auto option = run("bench cpu --second 3");
  EXPECT_EQ(option.code, 2);
  EXPECT_NE(option.out.find("did you mean '--seconds'?"), std::string::npos) << option.out;
  const auto help = run("bench --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("cpu"), std::string::npos);
}

}  // namespace
}  // namespace posenc

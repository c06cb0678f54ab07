#include "runs/attention_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "posenc/weights/safetensors.h"
#include "runs/attention_case.h"
#include "runs/run_case.h"
#include "support/temporary_folder.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using testing::attention_record;
using testing::error_of;

class AttentionFile : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return attention_path(folder_.path(), "longer", 8, 3); }
  // Writes the file with other tensors or another example.
  void write(const std::vector<weights::TensorSpec>& tensors, const weights::Metadata& metadata,
             std::byte fill = std::byte{0}) const {
    fs::create_directories(path().parent_path());
    weights::Writer out(path().string(), tensors, metadata);
    out.append(std::vector<std::byte>(static_cast<std::size_t>(out.remaining()), fill));
    out.commit();
  }
  [[nodiscard]] weights::Metadata metadata() const {
    return weights::Reader(path().string()).metadata();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(AttentionFile, ReadsBackWithinTheRoundingOfItsNumbers) {
  const AttentionRecord record = attention_record(8, 3, {"rope", "rope + cope"});
  write_attention(path(), record);
  const AttentionRecord read = read_attention(path());
  EXPECT_EQ(read.example, record.example);
  EXPECT_EQ(read.heads, 3);
  ASSERT_EQ(read.layers.size(), 2U);
  EXPECT_FALSE(read.layers[0].has_cope());
  EXPECT_EQ(read.layers[1].gates, record.layers[1].gates);  // 0.25 is exact
  EXPECT_EQ(read.layers[1].positions, record.layers[1].positions);
  for (std::size_t i = 0; i < record.layers[0].weights.size(); ++i) {
    const float weight = record.layers[0].weights[i];
    EXPECT_NEAR(read.layers[0].weights[i], weight, weight * 0x1p-11f);
  }
  EXPECT_EQ(read_attention_example(path()), record.example);
}

// What is written for a run stays in the run.
TEST_F(AttentionFile, IsNotWrittenThroughALink) {
  const testing::TemporaryFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), path().parent_path());
  const AttentionRecord record = attention_record(8, 1, {"rope"});
  EXPECT_NE(error_of([&] { write_attention(path(), record); }).find("attention] is a link"),
            std::string::npos);
  EXPECT_TRUE(elsewhere.files().empty());
  fs::remove(path().parent_path());
  write_attention(path(), record);
  // Nor is a linked record: the link is replaced, its target stays.
  testing::write_content(elsewhere / "kept", "kept");
  fs::remove(path());
  fs::create_symlink(elsewhere / "kept", path());
  write_attention(path(), record);
  EXPECT_EQ(testing::file_content(elsewhere / "kept"), "kept");
  EXPECT_EQ(read_attention(path()).example, record.example);
}

TEST_F(AttentionFile, OneTokenAndNoAnswerAreARecordToo) {
  AttentionRecord record = attention_record(1, 1, {"none"});
  record.example.scored.clear();
  write_attention(path(), record);
  EXPECT_EQ(read_attention(path()), record);
}

TEST_F(AttentionFile, IsAsLargeAsItsTensorsAndALittle) {
  write_attention(path(), attention_record(64, 2, {"rope", "cope"}));
  const auto tensors =
      static_cast<std::uintmax_t>(attention_bytes(2, 64, false) + attention_bytes(2, 64, true));
  EXPECT_GT(fs::file_size(path()), tensors);
  EXPECT_LT(fs::file_size(path()), tensors + 4096);
}

TEST_F(AttentionFile, IsListedByName) {
  EXPECT_TRUE(list_attention(folder_.path()).empty());
  const AttentionRecord record = attention_record(8, 1, {"rope"});
  const fs::path best = attention_path(folder_.path(), "longer", 8, 3, true);
  write_attention(path(), record);
  write_attention(best, record);
  std::ofstream(attention_folder(folder_.path()) / "notes.txt") << "mine";
  EXPECT_EQ(path().filename(), "longer-T8-sample3.safetensors");
  EXPECT_EQ(best.filename(), "longer-T8-sample3-best.safetensors");
  EXPECT_EQ(list_attention(folder_.path()), (std::vector<fs::path>{best, path()}));
}

TEST_F(AttentionFile, ARecordThatContradictsItselfIsNotWritten) {
  AttentionRecord record = attention_record(8, 2, {"cope"});
  record.layers[0].positions.clear();
  EXPECT_NE(error_of([&] {
              write_attention(path(), record);
            }).find("layer.0.cope.positions must have 128 numbers but got 0"),
            std::string::npos);
  record = attention_record(8, 2, {"rope"});
  record.layers[0].weights[5] = NAN;
  EXPECT_NE(error_of([&] { write_attention(path(), record); }).find("nan at 5"), std::string::npos);
  record = attention_record(8, 2, {"rope"});
  record.example.tokens.pop_back();
  EXPECT_NE(error_of([&] {
              write_attention(path(), record);
            }).find("tokens must be one per token, 8 but got 7"),
            std::string::npos);
  record = attention_record(8, 2, {"rope"});
  record.example.instruction_end = 9;
  EXPECT_NE(error_of([&] { write_attention(path(), record); }).find("[1, 9)"), std::string::npos);
  record = attention_record(8, 2, {"rope"});
  record.example.scored[0].position = 8;
  EXPECT_NE(error_of([&] { write_attention(path(), record); }).find("scored"), std::string::npos);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(AttentionFile, FilesThatLieAreRefused) {
  using weights::ElementType;
  write_attention(path(), attention_record(8, 2, {"rope"}));
  const weights::Metadata good = metadata();
  const auto read = [&] { return error_of([&] { (void)read_attention(path()); }); };

  write({{"layer.0.weights", ElementType::kF16, {2, 8, 8}}}, {});
  EXPECT_NE(read().find("has no posenc.attention"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF16, {2, 8, 7}}}, good);
  EXPECT_NE(read().find("must be [2, 8, 8] but got [2, 8, 7]"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF32, {2, 8, 8}}}, good);
  EXPECT_NE(read().find("must be F16 but got F32"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF16, {2, 8, 8}}}, good, std::byte{0x7f});
  EXPECT_NE(read().find("must be in [0, 1]"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF16, {2, 8, 8}},
         {"layer.1.weights", ElementType::kF16, {2, 8, 8}}},
        good);
  EXPECT_NE(read().find("'layer.1.weights' is not a tensor"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF16, {2, 8, 8}},
         {"layer.0.cope.gates", ElementType::kF16, {2, 8, 8}}},
        good);
  EXPECT_NE(read().find("layer.0.cope.positions"), std::string::npos) << read();
  write({{"layer.1.weights", ElementType::kF16, {2, 8, 8}}}, good);
  EXPECT_NE(read().find("layer.0.weights"), std::string::npos) << read();
  write({{"layer.0.weights", ElementType::kF16, {}}}, good);
  EXPECT_NE(read().find("layer.0.weights"), std::string::npos) << read();
  std::ofstream(path()) << "no tensors";
  EXPECT_NE(read().find(path().string()), std::string::npos) << read();
}

}  // namespace
}  // namespace posenc::runs

#include "report/page_maps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "report/page_case.h"
#include "report/record_choice.h"
#include "support/paths.h"
#include "support/sanitizers.h"

namespace posenc::report {
namespace {

using testing::data_block;
using testing::page_of;
using testing::random_record;
using testing::TemporaryFolder;
using testing::write_run;

void write_case(const TemporaryFolder& folder, const std::string& encoding, int seed = 0) {
  write_run(folder / fmt::format("{}-{}", encoding, seed),
            {.encoding = encoding, .seed = seed, .rows = {{"train", 1, 0.9, 0.88, 0.92}}});
}

void write_record(const TemporaryFolder& folder, const std::string& run,
                  const runs::AttentionRecord& record) {
  const std::string path = folder / run;
  std::filesystem::create_directories(runs::attention_folder(path));
  runs::write_attention(
      runs::attention_path(path, record.example.axis, record.tokens(), record.example.sample),
      record);
}

TEST(ByteMap, KeepsValuesAndMasks) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const draw::Heatmap map{.rows = 2, .columns = 3, .values = {0.5F, nan, nan, 0.0F, 0.01F, 0.25F}};
  const ByteMap bytes = byte_map(map, runs::MapKind::kWeights);
  EXPECT_EQ(bytes.high, 0.5);
  ASSERT_EQ(bytes.bytes.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const float value = map.values[i];
    if (std::isnan(value)) {
      EXPECT_EQ(bytes.bytes[i], 0);
      continue;
    }
    const double back = bytes.high * std::pow((bytes.bytes[i] - 1) / 254.0, 2.0);
    EXPECT_NEAR(back, value, 0.004 * std::sqrt(value * bytes.high) + 1e-5) << i;
  }
}

TEST(PageMaps, HaveEveryLayerKindAndHead) {
  const TemporaryFolder folder;
  write_case(folder, "none");
  write_case(folder, "cope");
  write_record(folder, "none-0", random_record(12, 2, 3, "none"));
  auto cope = random_record(12, 2, 3, "cope");
  for (runs::AttentionLayer& layer : cope.layers) layer.gates = layer.positions = layer.weights;
  write_record(folder, "cope-0", cope);
  const auto data = data_block(page_of(folder.path()), "attention-data");
  ASSERT_EQ(data["records"].size(), 2U);
  const auto& record = data["records"][1];
  EXPECT_EQ(record["name"], "cope");
  EXPECT_EQ(record["cells"], 12);
  EXPECT_EQ(record["heads"], 3);
  EXPECT_EQ(record["example"]["tokens"].size(), 12U);
  EXPECT_EQ(record["example"]["instruction"], nlohmann::json::parse("[1, 3]"));
  EXPECT_EQ(record["key"], data["records"][0]["key"]) << "the same example";
  ASSERT_EQ(record["layers"].size(), 2U);
  ASSERT_EQ(record["layers"][0]["maps"].size(), 3U) << "weights, gates, positions";
  EXPECT_EQ(record["layers"][0]["maps"][2]["kind"], "positions");
  EXPECT_EQ(record["layers"][0]["maps"][0]["highs"].size(), 3U);
  EXPECT_EQ(record["layers"][0]["maps"][0]["png"].get<std::string>().rfind(
                "data:image/png;base64,iVBOR", 0),
            0U);
}

TEST(PageMaps, OneSeedOfEachAndTheExampleThatMostHave) {
  const TemporaryFolder folder;
  for (const char* encoding : {"none", "rope"}) {
    for (const int seed : {0, 1}) write_case(folder, encoding, seed);
  }
  write_record(folder, "none-0", random_record(8, 1, 1, "none"));
  write_record(folder, "none-1", random_record(6, 1, 1, "none"));
  write_record(folder, "rope-1", random_record(6, 1, 1, "rope"));
  const Comparison comparison = compare(find_runs({folder.path()}));
  std::vector<std::string> remarks;
  const auto chosen = choose_records(comparison, remarks);
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0].run, folder / "none-1") << "rope has this example too";
  EXPECT_EQ(chosen[1].run, folder / "rope-1");
  EXPECT_TRUE(remarks.empty());
}

TEST(PageMaps, ArePooledToABudget) {
  const TemporaryFolder folder;
  write_case(folder, "none");
  write_record(folder, "none-0", random_record(300, 1, 2, "none"));
  const Comparison comparison = compare(find_runs({folder.path()}));
  const PageMaps whole = page_maps(comparison);
  EXPECT_EQ(whole.tokens, 300);
  EXPECT_EQ(whole.cells, 256);
  const PageMaps small = page_maps(comparison, 10'000);
  EXPECT_EQ(small.records, 1U);
  EXPECT_EQ(small.cells, 64);
  const PageMaps nothing = page_maps(comparison, 100);
  EXPECT_EQ(nothing.records, 0U);
  ASSERT_EQ(nothing.remarks.size(), 1U);
  EXPECT_NE(nothing.remarks[0].find("would be too large"), std::string::npos);
}

TEST(PageMaps, OneRecordAloneIsPooledToItsBudget) {
  const auto record = random_record(300, 1, 2, "none");
  const auto cells = [&](std::int64_t budget) {
    return nlohmann::json::parse(to_json(page_record(record, "run", budget)))["cells"];
  };
  EXPECT_EQ(cells(kMapBudget), 256);
  EXPECT_EQ(cells(10'000), 64);
  EXPECT_EQ(cells(100), 32) << "the smallest there is";
}

TEST(PageMaps, ADamagedRecordIsARemark) {
  const TemporaryFolder folder;
  write_case(folder, "none");
  write_case(folder, "rope");
  write_record(folder, "none-0", random_record(6, 1, 1, "none"));
  std::filesystem::create_directories(folder / "rope-0/attention");
  testing::write_content(folder / "rope-0/attention/train-T6-sample0.safetensors", "no such thing");
  const std::string page = page_of(folder.path());
  EXPECT_EQ(data_block(page, "attention-data")["records"].size(), 1U);
  EXPECT_NE(page.find("rope-0/attention/train-T6-sample0.safetensors"), std::string::npos);
}

// The page of posenc.view, in Python, has the same colours.
TEST(PageMaps, ColoursOfTheViewerAreInAFile) {
  const std::string path =
      std::string(posenc::testing::kTestData) + "/../web/shared/map_colors.json";
  std::ifstream file(path);
  const auto shared = nlohmann::json::parse(file);
  const auto made = nlohmann::json::parse(to_json(page_colors()));
  EXPECT_EQ(shared, made) << "write this to web/shared/map_colors.json:\n" << made.dump(1);
}

// Eight encodings, four layers of eight heads, 512 tokens, and maps as hard to compress as they come.
TEST(PageMaps, APageOfEightEncodingsStaysBelowTenMegabytes) {
  if (testing::kSanitized)
    GTEST_SKIP() << "compressing eight large records takes a sanitizer a minute";
  const TemporaryFolder folder;
  const std::vector<std::string> encodings = {"none", "alibi", "cope", "kerple",
                                              "fire", "rope",  "xpos", "t5"};
  for (const std::string& encoding : encodings) write_case(folder, encoding);
  write_record(folder, "none-0", random_record(512, 4, 8, "none"));
  const auto first = runs::list_attention(folder / "none-0").front();
  for (const std::string& encoding : encodings) {
    const std::string run = folder / (encoding + "-0");
    std::filesystem::create_directories(runs::attention_folder(run));
    if (encoding == "none") continue;
    std::filesystem::create_hard_link(first, runs::attention_folder(run) / first.filename());
  }
  const std::string page = page_of(folder.path());
  EXPECT_EQ(data_block(page, "attention-data")["records"].size(), 8U);
  EXPECT_LT(page.size(), 10'000'000U);
  EXPECT_GT(page.size(), 1'000'000U);
  EXPECT_NE(page.find("maps of 512 tokens are pooled to"), std::string::npos);
}

}  // namespace
}  // namespace posenc::report

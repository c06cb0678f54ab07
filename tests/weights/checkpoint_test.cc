// Whole checkpoints: shards and their index, marks against converting twice, and failures midway.
#include "weights/checkpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "posenc/core/error.h"
#include "support/checkpoint_case.h"
#include "system/files.h"

namespace posenc::weights {
namespace {

using testing::file_content;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::write_content;
using testing::write_tensors;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kIndex = "model.safetensors.index.json";
const LayoutOptions kToInterleaved = {.to = PairLayout::kInterleaved, .heads = {.head_dim = 4}};
const LayoutOptions kToHalf = {.to = PairLayout::kHalf, .heads = {.head_dim = 4}};

std::string index_of(const std::string& map) {
  return R"({"metadata": {"total_size": 72, "by": "x"}, "weight_map": {)" + map + "}}";
}

const std::string kMap =
    R"("q_proj.weight": "a.safetensors", "wpe.weight": "a.safetensors", "k_proj.weight": "b.safetensors")";

// Two shards with an index, in a folder of that name.
void write_sharded(const std::string& folder) {
  std::filesystem::create_directory(folder);
  Rng rng(1);
  write_tensors(folder + "/a.safetensors",
                {random_tensor("q_proj.weight", ElementType::kBf16, {8, 2}, rng),
                 random_tensor("wpe.weight", ElementType::kBf16, {6, 2}, rng)});
  write_tensors(folder + "/b.safetensors",
                {random_tensor("k_proj.weight", ElementType::kBf16, {4, 2}, rng)});
  write_content(folder + "/" + kIndex, index_of(kMap));
}

// A process that was killed cannot clean up: the next one does, and spares those that are still at work.
TEST(Checkpoint, WhatKilledConversionsLeftIsRemoved) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  const auto leave = [&](const std::string& name) { write_content(folder / name, "half of it"); };
  leave("out.tmp-0011aabb");
  leave("out.tmp-22222222");
  leave("other.tmp-0011aabb");
  leave("out.tmp-notes");
  std::filesystem::create_directory(folder / "all.tmp-00c0ffee");
  leave("all.tmp-00c0ffee/a.safetensors");
  const Descriptor at_work(::open((folder / "out.tmp-22222222").c_str(), O_RDONLY));
  ASSERT_EQ(::flock(at_work.number(), LOCK_EX), 0);
  Rng rng(9);
  write_tensors(folder / "in/one",
                {random_tensor("q_proj.weight", ElementType::kF32, {8, 2}, rng),
                 random_tensor("k_proj.weight", ElementType::kF32, {8, 2}, rng)});
  convert_layout(folder / "in/one", folder / "out", kToInterleaved);
  EXPECT_EQ(folder.files(),
            (std::vector<std::string>{"all.tmp-00c0ffee", "in", "other.tmp-0011aabb", "out",
                                      "out.tmp-22222222", "out.tmp-notes"}));
  convert_layout(folder / "in", folder / "all/", kToInterleaved);
  EXPECT_FALSE(std::filesystem::exists(folder / "all.tmp-00c0ffee"));
  EXPECT_TRUE(std::filesystem::exists(folder / "all/a.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / ("all/" + std::string(kIndex))));
}

// The folder appears at once, with everything in it; an empty one that is there is as good as none.
TEST(Checkpoint, ANewFolderIsRenamedAsAWhole) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  std::filesystem::create_directory(folder / "out");
  struct stat empty {};
  ASSERT_EQ(::stat((folder / "out").c_str(), &empty), 0);
  convert_layout(folder / "in", folder / "out", kToInterleaved);
  struct stat whole {};
  ASSERT_EQ(::stat((folder / "out").c_str(), &whole), 0);
  EXPECT_NE(empty.st_ino, whole.st_ino);
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"in", "out"}));
}

TEST(Checkpoint, ShardsThereAndBack) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  const auto report = convert_layout(folder / "in", folder / "there", kToInterleaved);
  EXPECT_EQ(report.files.size(), 2u);
  convert_layout(folder / "there", folder / "back", kToHalf);
  for (const std::string file : {"a.safetensors", "b.safetensors", kIndex}) {
    EXPECT_EQ(file_content(folder / ("back/" + file)), file_content(folder / ("in/" + file)));
  }
  EXPECT_NE(file_content(folder / "there/b.safetensors"),
            file_content(folder / "in/b.safetensors"));
  convert_layout(folder / "in", "", kToInterleaved, {.in_place = true});
  EXPECT_EQ(file_content(folder / "in/a.safetensors"),
            file_content(folder / "there/a.safetensors"));
}

TEST(Checkpoint, AFolderWithOneFileNeedsNoIndex) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  std::filesystem::remove(folder / ("in/" + std::string(kIndex)));
  EXPECT_SAYS(refusal([&] { open_checkpoint(folder / "in"); }), "but got 2 and 0");
  std::filesystem::remove(folder / "in/b.safetensors");
  EXPECT_EQ(open_checkpoint(folder / "in").files, std::vector<std::string>{"a.safetensors"});
}

TEST(Checkpoint, IndicesThatLie) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  const auto with = [&](const std::string& text) {
    write_content(folder / ("in/" + std::string(kIndex)), text);
    return refusal([&] { open_checkpoint(folder / "in"); });
  };
  EXPECT_EQ(with(index_of(kMap)), "");
  EXPECT_SAYS(with("{"), "is not JSON");
  EXPECT_SAYS(with("[]"), "must be an index of shards but got a list");
  EXPECT_SAYS(with("{}"), "weight_map is required");
  EXPECT_SAYS(with(index_of("")), "weight_map must name a tensor");
  EXPECT_SAYS(with(index_of(R"("q_proj.weight": "../a.safetensors")")), "in its folder");
  EXPECT_SAYS(with(index_of(R"("q_proj.weight": "/etc/passwd")")), "in its folder");
  EXPECT_SAYS(with(index_of(R"("q_proj.weight": "")")), "in its folder");
  EXPECT_SAYS(with(index_of(R"("q_proj.weight": 7)")), "must name a file but got 7");
  EXPECT_SAYS(with(index_of(kMap + R"(, "wpe.weight": "a.safetensors")")), "'wpe.weight' twice");
  EXPECT_SAYS(with(index_of(kMap + R"(, "x": "a.safetensors")")), "has no tensor 'x'");
  EXPECT_SAYS(with(index_of(kMap + R"(, "x": "c.safetensors")")), "c.safetensors] cannot be read");
  EXPECT_SAYS(with(index_of(R"("q_proj.weight": "a.safetensors")")),
              "must name every tensor of its shards (2) but got 1");
  EXPECT_SAYS(with(R"({"metadata": {"a": {}}, "weight_map": {}})"), "but got an object");
}

TEST(Checkpoint, AMarkPreventsConvertingTwice) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  convert_layout(folder / "in", folder / "there", kToInterleaved);
  EXPECT_SAYS(refusal([&] { convert_layout(folder / "there", folder / "x", kToInterleaved); }),
              "is interleaved already");
  LayoutOptions stubborn = kToInterleaved;
  stubborn.from = PairLayout::kHalf;
  EXPECT_SAYS(refusal([&] { convert_layout(folder / "there", folder / "x", stubborn); }),
              "is interleaved by its metadata (posenc.rope_layout) but got --from half");
  LayoutOptions model = kToHalf;
  model.model_from = PairLayout::kHalf;
  EXPECT_SAYS(refusal([&] { convert_layout(folder / "in", folder / "x", model); }),
              "is half already; if not, add --from interleaved");
  EXPECT_EQ(refusal([&] { convert_layout(folder / "there", folder / "x", model); }), "")
      << "the mark knows better than the model";
  // One shard converted and the other not.
  std::filesystem::copy_file(folder / "in/b.safetensors", folder / "there/b.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_SAYS(refusal([&] { convert_layout(folder / "there", folder / "y", kToHalf); }),
              "b.safetensors] posenc.rope_layout is not that of");
}

TEST(Checkpoint, OutputsThatAreRefused) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  const std::string file = folder / "in/a.safetensors";
  write_content(folder / "there", "precious");
  const auto convert = [&](const std::string& in, const std::string& out,
                           const OutputOptions& output = {}) {
    return refusal([&] { convert_layout(in, out, kToInterleaved, output); });
  };
  std::filesystem::create_symlink(folder / "in", folder / "link");
  EXPECT_SAYS(convert(folder / "in", ""), "OUT is required; add -o OUT, or --in-place");
  EXPECT_SAYS(convert(folder / "in", folder / "in"), "is the input itself");
  EXPECT_SAYS(convert(folder / "in", folder / "link"), "is the input itself");
  EXPECT_SAYS(convert(folder / "in", folder / "there"), "is a file but the input is a folder");
  EXPECT_SAYS(convert(file, folder / "there"),
              "exists already; choose another name, or add --force");
  EXPECT_SAYS(convert(file, folder / "in"), "is a folder but the input is a file");
  EXPECT_SAYS(convert(file, folder / "x", {.in_place = true}), "is not the input");
  EXPECT_SAYS(convert(folder / "in", folder / "none/out"), "none/out] cannot be written");
  EXPECT_EQ(file_content(folder / "there"), "precious");
}

TEST(Checkpoint, StoppingLeavesNothing) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  const std::string before = file_content(folder / "in/a.safetensors");
  const std::atomic<bool> stop = true;
  EXPECT_SAYS(refusal([&] {
                convert_layout(folder / "in", folder / "out", kToInterleaved, {.stop = &stop});
              }),
              "was interrupted");
  EXPECT_SAYS(refusal([&] {
                convert_layout(folder / "in", "", kToInterleaved,
                               {.in_place = true, .stop = &stop});
              }),
              "was interrupted");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"in"});
  EXPECT_EQ(file_content(folder / "in/a.safetensors"), before);
}

// The second shard is the larger one: the first is complete when the disk is full, and must not
// have been put in place.
TEST(Checkpoint, AFullDiskInTheSecondShardLeavesTheFirst) {
  const TemporaryFolder folder;
  write_sharded(folder / "in");
  Rng rng(2);
  write_tensors(folder / "in/b.safetensors",
                {random_tensor("k_proj.weight", ElementType::kBf16, {4, 9000}, rng)});
  const std::string before = file_content(folder / "in/a.safetensors");
  void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit limit{40000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string fresh =
      refusal([&] { convert_layout(folder / "in", folder / "out", kToInterleaved); });
  const std::string in_place =
      refusal([&] { convert_layout(folder / "in", "", kToInterleaved, {.in_place = true}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_SAYS(fresh, "b.safetensors] cannot be written");
  EXPECT_SAYS(in_place, "b.safetensors] cannot be written");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"in"});
  EXPECT_EQ(file_content(folder / "in/a.safetensors"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "in"), {}), 3)
      << "no temporary";
}

// Peak memory of this process since the last reset, in bytes (Linux: VmHWM, which clear_refs resets).
std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST(Checkpoint, MemoryDoesNotGrowWithTheFile) {
  const TemporaryFolder folder;
  const std::int64_t rows = 4096;
  const std::int64_t columns = 4096 * 4;
  const std::string shape = "[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
  const std::int64_t bytes = rows * columns * 2;
  std::string json = "{";
  for (std::int64_t i = 0; i < 2; ++i) {
    json += std::string(i > 0 ? "," : "") + "\"" + (i > 0 ? "k" : "q") +
            R"(_proj.weight":{"dtype":"BF16","shape":)" + shape + R"(,"data_offsets":[)" +
            std::to_string(i * bytes) + "," + std::to_string((i + 1) * bytes) + "]}";
  }
  write_content(folder / "in", testing::raw_safetensors(json + "}", ""));
  const auto header = std::filesystem::file_size(folder / "in");
  std::filesystem::resize_file(folder / "in", header + 2 * static_cast<std::uint64_t>(bytes));
  reset_peak_memory();
  const std::uint64_t before = peak_memory();
  convert_layout(folder / "in", folder / "out", {.heads = {.head_dim = 128}});
  EXPECT_LT(peak_memory() - before, 64U << 20U);
  const Reader out(folder / "out");
  EXPECT_EQ(out.data_size(), 2 * static_cast<std::uint64_t>(bytes));
  EXPECT_EQ(out.read(out.at("q_proj.weight")).size(), static_cast<std::uint64_t>(bytes));
  EXPECT_GT(peak_memory() - before, 64U << 20U) << "and a tensor in memory would have shown";
}

}  // namespace
}  // namespace posenc::weights

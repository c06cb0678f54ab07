// Documents from plain files, folders and JSONL, one after the other: a corpus need not fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace posenc::tokens {

struct SourceOptions {
  std::vector<std::string> paths;     // files and folders
  std::vector<std::string> suffixes;  // of the files to take from folders; none: all
  std::string field = "text";         // of each line's object, in files that end with .jsonl
};

struct SourceDocument {
  std::string name;  // of its file, relative to the path that was given; "a.jsonl:7" for a line
  std::string text;  // not empty
  std::string_view line = {};  // of a .jsonl file, as it is written; valid while it is visited
};

// Files are visited in the order of their names; links are not followed, and empty documents are skipped. An
// Error of kind kIo or kSyntax names the file and the line.
void for_each_document(const SourceOptions& options,
                       const std::function<void(SourceDocument&)>& visit);

}  // namespace posenc::tokens

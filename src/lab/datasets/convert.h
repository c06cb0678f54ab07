// From an unpacked package to plain files.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/catalog.h"

namespace posenc::datasets {

// Writes the corpus that the package in `unpacked` holds into `out`, which exists and is empty and
// on the same file system: files of a package are moved, those of an installed library copied.
void convert(const Corpus& corpus, const std::filesystem::path& unpacked,
             const std::filesystem::path& out, const std::atomic<bool>* stop);

// A file's name without folders, and its text.
using NamedText = std::pair<std::string, std::string>;

// "PRIDE AND PREJUDICE" becomes pride_and_prejudice.txt; whatever the title, the name stays in its folder.
std::string text_file_name(std::string_view title);

// {"Genesis 1:1": "In the beginning ..."}: a text per book, a line per verse. The marks of paragraphs
// (#) and of added words ([]) are no part of the text.
std::vector<NamedText> books_of_verses(std::string_view json);

// R's database of lazily loaded objects, each a character vector: a text per vector, a line per string,
// named by its first line.
std::vector<NamedText> texts_of_r_database(std::string_view bytes);

}  // namespace posenc::datasets

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

// {"Genesis 1:1": "In the beginning ..."}: a text per book, a line per verse. The marks of paragraphs
// (#) and of added words ([]) are no part of the text.
std::vector<NamedText> books_of_verses(std::string_view json);

}  // namespace posenc::datasets

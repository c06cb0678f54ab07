#include "datasets/convert.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/value.h"
#include "posenc/core/error.h"

namespace posenc::datasets {
namespace {

namespace fs = std::filesystem;

Error failure(const Corpus& corpus, const std::string& rule) {
  return {ErrorKind::kIo,
          {.scope = "data",
           .key = std::string(corpus.name),
           .rule = rule,
           .value = "",
           .hint = "nothing was written"}};
}

bool left_out(const Corpus& corpus, const std::string& name) {
  std::string_view rest = corpus.without;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == name) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

// Regular files below `root` in the order of their names; links are not followed.
std::vector<fs::path> wanted_files(const Corpus& corpus, const fs::path& root) {
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(root), end; entry != end; ++entry) {
    const std::string name = entry->path().filename().string();
    if (left_out(corpus, name)) {
      if (entry->is_directory() && !entry->is_symlink()) entry.disable_recursion_pending();
      continue;
    }
    const bool regular = entry->is_regular_file() && !entry->is_symlink();
    if (regular && name.ends_with(corpus.suffix) && entry->file_size() > 0) {
      files.push_back(entry->path().lexically_relative(root));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void take_files(const Corpus& corpus, const fs::path& root, const fs::path& out,
                const std::atomic<bool>* stop) {
  for (const fs::path& file : wanted_files(corpus, root)) {
    if (stop != nullptr && *stop) throw failure(corpus, "was interrupted");
    fs::create_directories((out / file).parent_path());
    if (corpus.source == Source::kPython) {
      fs::copy_file(root / file, out / file);
    } else {
      fs::rename(root / file, out / file);  // what was unpacked goes away anyhow
    }
  }
}

void write_texts(const Corpus& corpus, const std::vector<NamedText>& texts, const fs::path& out) {
  for (const auto& [name, text] : texts) {
    std::ofstream file(out / name, std::ios::binary);
    file << text;
    if (!file.flush()) throw failure(corpus, "could not write " + name);
  }
}

std::string plain_verse(std::string_view verse) {
  if (verse.starts_with("# ")) verse.remove_prefix(2);
  std::string text;
  std::copy_if(verse.begin(), verse.end(), std::back_inserter(text),
               [](char c) { return c != '[' && c != ']'; });
  return text;
}

// "1 John 2:3" is of the book 1_john.txt; whatever the reference, the name stays in its folder.
std::string book_file(const std::string& reference) {
  std::string name;
  for (const char c : reference.substr(0, reference.rfind(' '))) {
    const auto letter = static_cast<unsigned char>(c);
    name += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : '_';
  }
  return (name.empty() ? "untitled" : name) + ".txt";
}

}  // namespace

// Read piece by piece: a map of 31,102 verses that refuses duplicates would look at each pair of them.
std::vector<NamedText> books_of_verses(std::string_view json) {
  using Json = nlohmann::json;
  std::vector<NamedText> books;
  std::string reference;
  const auto take = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth != 1) return true;
    if (event == Json::parse_event_t::key) reference = parsed.get<std::string>();
    if (event != Json::parse_event_t::value || !parsed.is_string()) return true;
    const std::string file = book_file(reference);
    if (books.empty() || books.back().first != file) books.emplace_back(file, "");
    books.back().second += plain_verse(parsed.get<std::string>()) + "\n";
    return false;  // not kept
  };
  try {
    const Json rest = Json::parse(json, take);
  } catch (const Json::exception& e) {
    throw Error(ErrorKind::kSyntax, {.scope = "verses", .rule = "is not JSON", .hint = e.what()});
  }
  return books;
}

void convert(const Corpus& corpus, const fs::path& unpacked, const fs::path& out,
             const std::atomic<bool>* stop) {
  const fs::path root = corpus.root.empty() ? unpacked : unpacked / corpus.root;
  if (!fs::exists(root)) {
    throw failure(corpus, "has no " + std::string(corpus.root) + " in its package");
  }
  switch (corpus.form) {
    case Form::kFiles:
      return take_files(corpus, root, out, stop);
    case Form::kVerses:
      return write_texts(corpus, books_of_verses(read_file(root.string())), out);
  }
}

}  // namespace posenc::datasets

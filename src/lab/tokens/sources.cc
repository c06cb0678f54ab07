#include "tokens/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/open_file.h"
#include "core/value.h"
#include "posenc/core/error.h"

namespace posenc::tokens {
namespace {

namespace fs = std::filesystem;
using Visit = std::function<void(SourceDocument&)>;

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 30;

struct SourceFile {
  std::string name;
  std::string path;
};

Error failure(ErrorKind kind, const std::string& scope, const std::string& rule,
              const std::string& value, const std::string& hint) {
  return {kind, {.scope = scope, .key = "", .rule = rule, .value = value, .hint = hint}};
}

void add_folder(const SourceOptions& options, const fs::path& root,
                std::vector<SourceFile>& files) {
  std::error_code code;
  fs::recursive_directory_iterator entry(root, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) || !entry->is_regular_file(ignored)) continue;
    const std::string name = entry->path().lexically_relative(root).generic_string();
    if (name == "manifest.json") continue;  // of `posenc data NAME`
    const auto fits = [&](const std::string& suffix) { return name.ends_with(suffix); };
    const auto& wanted = options.suffixes;
    if (!wanted.empty() && std::none_of(wanted.begin(), wanted.end(), fits)) continue;
    files.push_back({name, entry->path().string()});
  }
  if (!code) return;
  throw failure(ErrorKind::kIo, root.string(), "cannot be read: " + code.message(), "",
                "check its permissions");
}

std::vector<SourceFile> files_of(const SourceOptions& options) {
  std::vector<SourceFile> files;
  for (const std::string& path : options.paths) {
    std::error_code code;
    if (fs::is_directory(path, code)) {
      add_folder(options, path, files);
    } else {
      (void)open_to_read(path);  // before any work: an Error that says what it is
      files.push_back({fs::path(path).filename().string(), path});
    }
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) {
    return std::tie(a.name, a.path) < std::tie(b.name, b.path);
  });
  if (files.empty()) {
    throw failure(ErrorKind::kIo, fmt::format("{}", fmt::join(options.paths, ":")),
                  "has no files to read", "", "check the path and the suffixes");
  }
  return files;
}

// The lines of a file, read in pieces.
template <class Take>
void for_each_line(const std::string& path, Take take) {
  const Descriptor file = open_to_read(path);
  std::string rest;
  std::string chunk(kChunk, '\0');
  std::int64_t number = 0;
  while (const std::size_t read = read_bytes(file, chunk, path)) {
    rest.append(chunk, 0, read);
    std::size_t begin = 0;
    for (std::size_t end = rest.find('\n'); end != std::string::npos;
         end = rest.find('\n', begin)) {
      take(std::string_view(rest).substr(begin, end - begin), ++number);
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() > kLongestLine) {
      throw failure(ErrorKind::kResource, path, "must have lines of at most 1 GiB",
                    fmt::format("line {}", number + 1), "is it a JSONL file?");
    }
  }
  if (!rest.empty()) take(std::string_view(rest), ++number);
}

// The text of a JSONL line; empty for a blank line.
std::string line_text(std::string_view line, const std::string& scope, const std::string& field) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return "";
  const auto object = nlohmann::json::parse(line, nullptr, false);
  const std::string hint = "write one JSON object a line, and name its text with --field";
  if (object.is_discarded() || !object.is_object()) {
    throw failure(ErrorKind::kSyntax, scope, "must be a JSON object", "", hint);
  }
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    throw failure(ErrorKind::kMissingKey, scope,
                  fmt::format("must have the field '{}' with text", field), "", hint);
  }
  return found->get<std::string>();
}

void visit_lines(const SourceFile& file, const std::string& field, const Visit& visit) {
  for_each_line(file.path, [&](std::string_view line, std::int64_t number) {
    SourceDocument document{fmt::format("{}:{}", file.name, number),
                            line_text(line, fmt::format("{}:{}", file.path, number), field)};
    document.line = line;
    if (!document.text.empty()) visit(document);
  });
}

}  // namespace

void for_each_document(const SourceOptions& options, const Visit& visit) {
  for (const SourceFile& file : files_of(options)) {
    if (file.name.ends_with(".jsonl")) {
      visit_lines(file, options.field, visit);
      continue;
    }
    SourceDocument document{file.name, read_file(file.path)};
    if (!document.text.empty()) visit(document);
  }
}

}  // namespace posenc::tokens

// posenc data tokenizer, tokens and dedup.
#pragma once

#include <string>
#include <vector>

#include "cli/verbs.h"
#include "tokens/sources.h"

namespace posenc::cli {

void add_data_tokenizer(CLI::App& data, Action& chosen);
void add_data_tokens(CLI::App& data, Action& chosen);
void add_data_dedup(CLI::App& data, Action& chosen);

// Documents as the user names them.
struct SourceArguments {
  std::vector<std::string>
      corpora;  // files, folders, and corpora that `posenc data NAME` has fetched
  std::string suffixes;
  std::string field = "text";
};
void add_source_options(CLI::App& verb, SourceArguments& arguments);
// An Error where one is neither a path nor a fetched corpus.
tokens::SourceOptions source_options(const SourceArguments& arguments);
// Of the manifests that `posenc data NAME` has left, joined by "; "; empty where there are none.
std::string licences_of(const SourceArguments& arguments);

// Everything that is there: size, SHA-256, licence, split.
void print_data_list();
// One folder of token files or of a fetched corpus, by its path or its name; false where it is neither.
bool show_data(const std::string& path, bool verify);

// "12.3 MB"
std::string megabytes(std::int64_t bytes);

}  // namespace posenc::cli

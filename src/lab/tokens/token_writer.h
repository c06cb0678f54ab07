// Documents to token files (token_index.h). Nothing is at the folder's place before all of it is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tokens/sources.h"
#include "tokens/token_index.h"
#include "tokens/tokenizer.h"

namespace posenc::tokens {

struct TokenFileOptions {
  std::string folder;  // must not be there, unless it is replaced
  bool replace = false;
  std::string source;  // for the index: where the text is from
  std::string licence;
  double validation_share = 0.01;
  double test_share = 0.01;
  std::int64_t shard_tokens = std::int64_t{1} << 28;
  // Token behind each document, by its text; empty: <|endoftext|> or <|end_of_text|>.
  std::string end_of_document;
};

// Documents go to a split as wholes, by the hash of their name: the same document is on the same side
// whatever else the corpus holds. Of a single document the end is held out, cut at line ends. Added tokens
// that occur in the text are plain text.
class TokenWriter {
 public:
  // The tokenizer must outlive it.
  TokenWriter(const Tokenizer& tokenizer, TokenFileOptions options);
  ~TokenWriter();  // unless finished, nothing is left
  TokenWriter(TokenWriter&&) = delete;
  TokenWriter& operator=(TokenWriter&&) = delete;

  void add(SourceDocument& document);
  // Syncs and moves everything into place.
  TokenIndex finish();

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace posenc::tokens

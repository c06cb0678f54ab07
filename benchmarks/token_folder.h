// Text to measure with: words of random letters with the frequencies of natural ones (Zipf), so that nothing needs to be
// fetched; a tokenizer that was trained on it, and token files of it.
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "posenc/core/rng.h"
#include "tokens/token_writer.h"
#include "tokens/train.h"

namespace posenc::benchmarks {

inline constexpr std::int64_t kWords = 50000;
inline constexpr std::int64_t kTextBytes = 8 << 20;
inline constexpr std::int64_t kFileTokens = std::int64_t{160} << 20;  // 320 MB

inline std::string make_text(std::int64_t bytes) {
  Rng rng(1);
  std::vector<std::string> words(kWords);
  for (std::string& word : words) {
    const std::int64_t letters = rng.integer(2, 11);
    for (std::int64_t i = 0; i < letters; ++i) word += static_cast<char>('a' + rng.integer(0, 25));
  }
  std::string text;
  while (std::ssize(text) < bytes) {
    const double place = std::pow(static_cast<double>(kWords), rng.uniform());  // rank 1 / rank
    text += words[static_cast<std::size_t>(place) - 1];
    text += rng.integer(0, 11) == 0 ? ".\n" : " ";
  }
  return text;
}

inline const std::string& text() {
  static const std::string made = make_text(kTextBytes);
  return made;
}

inline const tokens::Tokenizer& tokenizer() {
  static const tokens::Tokenizer trained = [] {
    tokens::Trainer trainer({.vocabulary = 16384});
    trainer.add(std::string_view(text()).substr(0, 2 << 20));
    return tokens::Tokenizer(trainer.train());
  }();
  return trained;
}

// Token files of the text, over and over, in a folder that goes with the program.
class TokenFolder {
 public:
  TokenFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "posenc_data_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    tokens::TokenWriter writer(tokenizer(),
                               {.folder = path(), .validation_share = 0, .test_share = 0});
    const std::int64_t copies = kFileTokens / std::ssize(tokenizer().encode(text())) + 1;
    for (std::int64_t i = 0; i < copies; ++i) {
      tokens::SourceDocument document{std::to_string(i), text()};
      writer.add(document);
    }
    (void)writer.finish();
  }
  ~TokenFolder() { std::filesystem::remove_all(root_); }
  TokenFolder(TokenFolder&&) = delete;
  TokenFolder& operator=(TokenFolder&&) = delete;
  [[nodiscard]] std::string path() const { return root_ + "/tokens"; }

 private:
  std::string root_;
};

}  // namespace posenc::benchmarks

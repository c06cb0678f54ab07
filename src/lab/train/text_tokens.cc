#include "train/text_tokens.h"

#include <fmt/format.h>

#include <sstream>

#include "core/bind.h"
#include "posenc/core/error.h"
#include "tasks/corpus_files.h"
#include "tokens/tokenizer.h"

namespace posenc::train {
namespace {

Error empty_text(const std::string& scope) {
  return {ErrorKind::kOutOfRange,
          {.scope = scope,
           .key = "text",
           .rule = "must have at least one token",
           .value = "''",
           .hint = "write a prompt: --prompt \"Call me\""}};
}

class Bytes : public TextTokens {
 public:
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text,
                                                 const std::string& scope) const override {
    if (text.empty()) throw empty_text(scope);
    std::vector<std::int64_t> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  [[nodiscard]] std::string decode(const std::vector<std::int64_t>& tokens) const override {
    std::string text;
    for (const std::int64_t token : tokens) text += static_cast<char>(token);
    return text;
  }
  [[nodiscard]] std::int64_t vocabulary() const override { return 256; }
  [[nodiscard]] bool predicts_next() const override { return true; }
};

class BytePairs : public TextTokens {
 public:
  BytePairs(const std::string& path, bool with_template)
      : tokenizer_(tokens::Tokenizer::read(path)), with_template_(with_template) {}
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text,
                                                 const std::string& scope) const override {
    const std::vector<std::int32_t> found =
        tokenizer_.encode(text, {.find_added = true, .add_template = with_template_});
    if (found.empty()) throw empty_text(scope);
    return {found.begin(), found.end()};
  }
  [[nodiscard]] std::string decode(const std::vector<std::int64_t>& tokens) const override {
    std::vector<std::int32_t> narrow;
    for (const std::int64_t token : tokens) narrow.push_back(static_cast<std::int32_t>(token));
    return tokenizer_.decode(narrow);
  }
  [[nodiscard]] std::int64_t vocabulary() const override { return tokenizer_.vocabulary(); }
  [[nodiscard]] bool predicts_next() const override { return true; }

 private:
  tokens::Tokenizer tokenizer_;
  bool with_template_;
};

// As `posenc sample` prints them.
class Words : public TextTokens {
 public:
  explicit Words(const tasks::Task& task) {
    for (std::int64_t token = 0; token < task.info().vocabulary; ++token) {
      words_.push_back(task.token_text(static_cast<std::int32_t>(token)));
      tokens_.emplace(words_.back(), token);
    }
  }
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text,
                                                 const std::string& scope) const override {
    std::istringstream words{std::string(text)};
    std::vector<std::int64_t> tokens;
    for (std::string word; words >> word;) {
      const auto found = tokens_.find(word);
      if (found == tokens_.end()) {
        const std::vector<std::string_view> known(words_.begin(), words_.end());
        throw Error(ErrorKind::kUnknownKey, {.scope = scope,
                                             .key = "text",
                                             .rule = "must be words of the task",
                                             .value = "'" + word + "'",
                                             .hint = suggestion(word, known)});
      }
      tokens.push_back(found->second);
    }
    if (tokens.empty()) throw empty_text(scope);
    return tokens;
  }
  [[nodiscard]] std::string decode(const std::vector<std::int64_t>& tokens) const override {
    std::string text;
    for (const std::int64_t token : tokens) text += " " + words_[static_cast<std::size_t>(token)];
    return text;
  }
  [[nodiscard]] std::int64_t vocabulary() const override { return std::ssize(words_); }
  [[nodiscard]] bool predicts_next() const override { return false; }

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int64_t> tokens_;
};

// A language model over token files reads what their tokenizer writes.
template <class LanguageModel>
std::unique_ptr<TextTokens> language_tokens(const LanguageModel& config) {
  if constexpr (requires { config.tokens; }) {
    if (!config.tokens.empty()) {
      return std::make_unique<BytePairs>(tasks::path_or_corpus(config.tokens), false);
    }
  }
  return std::make_unique<Bytes>();
}

}  // namespace

std::unique_ptr<TextTokens> text_tokens(const config::LabConfig& config, const tasks::Task& task) {
  const auto* language = std::get_if<tasks::LanguageModel>(&config.task);
  if (language != nullptr) return language_tokens(*language);
  return std::make_unique<Words>(task);
}

std::unique_ptr<TextTokens> tokenizer_tokens(const std::string& path) {
  return std::make_unique<BytePairs>(path, true);
}

}  // namespace posenc::train

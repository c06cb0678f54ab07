#include "tasks/examples.h"

#include <fmt/format.h>

#include <optional>

#include "core/strings.h"
#include "core/value.h"
#include "tasks/draw.h"

namespace posenc::tasks {
namespace {

constexpr const char* kForm =
    R"(write {"input": ..., "answer": ...} with text or lists of integers)";

// One line of the file while it is read.
class Line {
 public:
  Line(std::string_view text, std::string scope)
      : scope_(std::move(scope)), value_(parse_json(text, scope_)) {}

  // Text as bytes, or a list of integers. `text` is what the file has been so far.
  [[nodiscard]] std::vector<std::int32_t> tokens(const char* key, std::optional<bool>& text) const {
    const Value* found = value_.find(key);
    if (found == nullptr) throw error(ErrorKind::kMissingKey, key, "is required", "");
    const auto* string = found->get_if<std::string>();
    const auto* list = found->get_if<Value::List>();
    if (string == nullptr && list == nullptr) {
      throw error(ErrorKind::kWrongType, key, "must be text or a list of integers",
                  describe(*found));
    }
    if (text.value_or(string != nullptr) != (string != nullptr)) {
      throw error(ErrorKind::kWrongType, key,
                  fmt::format("must be {}, as the file is", *text ? "text" : "a list of integers"),
                  describe(*found));
    }
    text = string != nullptr;
    return string != nullptr ? bytes(*string) : integers(key, *list);
  }
  [[nodiscard]] Error error(ErrorKind kind, const char* key, std::string rule,
                            std::string value) const {
    return {kind, {scope_, key, std::move(rule), std::move(value), kForm}};
  }

 private:
  static std::vector<std::int32_t> bytes(const std::string& text) {
    std::vector<std::int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  [[nodiscard]] std::vector<std::int32_t> integers(const char* key, const Value::List& list) const {
    std::vector<std::int32_t> tokens;
    for (const Value& entry : list) {
      const auto* number = entry.get_if<std::int64_t>();
      if (number == nullptr || *number < 0 || *number >= kMostTokens) {
        throw error(ErrorKind::kOutOfRange, key,
                    fmt::format("must hold integers in [0, {})", kMostTokens), describe(entry));
      }
      tokens.push_back(static_cast<std::int32_t>(*number));
    }
    return tokens;
  }

  std::string scope_;
  Value value_;
};

std::uint64_t hash_tokens(const std::vector<std::int32_t>& tokens) {
  std::uint64_t hash = mixed(tokens.size());
  for (const std::int32_t token : tokens) hash = mixed(hash ^ static_cast<std::uint64_t>(token));
  return hash;
}

Example read_example(const Line& line, std::int64_t number, std::optional<bool>& text) {
  Example example;
  example.input = line.tokens("input", text);
  example.answer = line.tokens("answer", text);
  if (example.answer.empty()) {
    throw line.error(ErrorKind::kWrongLength, "answer", "must not be empty", "");
  }
  example.input_hash = hash_tokens(example.input);
  example.line = number;
  return example;
}

}  // namespace

ExampleFile parse_examples(const std::string& text, const std::string& path) {
  ExampleFile file;
  std::optional<bool> is_text;
  std::int64_t number = 0;
  for (const std::string_view line : split_lines(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    file.examples.push_back(
        read_example(Line(line, fmt::format("{}:{}", path, number)), number, is_text));
  }
  file.text = is_text.value_or(true);
  return file;
}

ExampleFile read_examples(const std::string& path) { return parse_examples(read_file(path), path); }

}  // namespace posenc::tasks

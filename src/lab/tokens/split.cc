#include "tokens/split.h"

#include <array>
#include <limits>

#include "tokens/unicode.h"

namespace posenc::tokens {
namespace {

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kNothing = 0;  // no alternative matches nothing

bool is_line_end(char32_t c) { return c == '\r' || c == '\n'; }

// A text from one place on. Each function is an alternative of the patterns: where its match from `at`
// ends, or kNothing.
class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  // 's|'t|'re|'ve|'m|'ll|'d. Without case, U+017F (the long s) is an s.
  [[nodiscard]] std::size_t contraction(std::size_t at, bool any_case) const {
    if (text_[at] != '\'') return kNothing;
    if (any_case && text_.substr(at + 1).starts_with("\u017F")) return at + 3;
    const char first = letter(at + 1, any_case);
    const char second = letter(at + 2, any_case);
    if (first == 's' || first == 't') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'm' || first == 'd') return at + 2;
    return first == 'l' && second == 'l' ? at + 3 : kNothing;
  }

  //  ?kind+
  [[nodiscard]] std::size_t spaced_run(std::size_t at, CharacterKind kind) const {
    const std::size_t begin = text_[at] == ' ' ? at + 1 : at;
    const std::size_t end = run(begin, kind);
    return end == begin ? kNothing : end;
  }

  // [^\r\n\p{L}\p{N}]?\p{L}+
  [[nodiscard]] std::size_t led_letters(std::size_t at) const {
    const CodePoint first = code_point_at(text_, at);
    const CharacterKind kind = kind_of(first.value);
    if (kind == CharacterKind::kLetter) return run(at, kind);
    if (kind == CharacterKind::kNumber || is_line_end(first.value)) return kNothing;
    const std::size_t begin = at + first.bytes;
    const std::size_t end = run(begin, CharacterKind::kLetter);
    return end == begin ? kNothing : end;
  }

  // \p{N}{1,most}
  [[nodiscard]] std::size_t digits(std::size_t at, std::size_t most) const {
    const std::size_t end = run(at, CharacterKind::kNumber, most);
    return end == at ? kNothing : end;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  [[nodiscard]] std::size_t signs_with_line_ends(std::size_t at) const {
    std::size_t end = spaced_run(at, CharacterKind::kOther);
    if (end == kNothing) return kNothing;
    while (end < text_.size() && is_line_end(static_cast<unsigned char>(text_[end]))) ++end;
    return end;
  }

  // \s*[\r\n]+: to the last line end of the run of spaces.
  [[nodiscard]] std::size_t spaces_to_line_end(std::size_t at) const {
    const std::size_t last = text_.substr(0, run(at, CharacterKind::kSpace)).find_last_of("\r\n");
    return last == std::string_view::npos || last < at ? kNothing : last + 1;
  }

  // \s+(?!\S)|\s+: the last space before a word is left to the word, unless it is the only one.
  [[nodiscard]] std::size_t spaces(std::size_t at) const {
    std::size_t before_last = at;
    std::size_t end = at;
    while (end < text_.size()) {
      const CodePoint next = code_point_at(text_, end);
      if (kind_of(next.value) != CharacterKind::kSpace) break;
      before_last = end;
      end += next.bytes;
    }
    return end == text_.size() || before_last == at ? end : before_last;
  }

 private:
  // A letter as a small one where the case does not count; 0 past the end.
  [[nodiscard]] char letter(std::size_t at, bool any_case) const {
    if (at >= text_.size()) return 0;
    const char c = text_[at];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  [[nodiscard]] std::size_t run(std::size_t at, CharacterKind kind,
                                std::size_t most = kUnlimited) const {
    for (; at < text_.size() && most > 0; --most) {
      const CodePoint next = code_point_at(text_, at);
      if (kind_of(next.value) != kind) break;
      at += next.bytes;
    }
    return at;
  }

  std::string_view text_;
};

std::size_t gpt2_end(const Matcher& match, std::size_t at) {
  if (const std::size_t end = match.contraction(at, false)) return end;
  for (const auto kind : {CharacterKind::kLetter, CharacterKind::kNumber, CharacterKind::kOther}) {
    if (const std::size_t end = match.spaced_run(at, kind)) return end;
  }
  return match.spaces(at);
}

std::size_t llama3_end(const Matcher& match, std::size_t at, std::size_t most_digits) {
  if (const std::size_t end = match.contraction(at, true)) return end;
  if (const std::size_t end = match.led_letters(at)) return end;
  if (const std::size_t end = match.digits(at, most_digits)) return end;
  if (const std::size_t end = match.signs_with_line_ends(at)) return end;
  if (const std::size_t end = match.spaces_to_line_end(at)) return end;
  return match.spaces(at);
}

}  // namespace

std::string_view regex_of(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kNone:
      break;
    case SplitPattern::kGpt2:
      return kGpt2Regex;
    case SplitPattern::kLlama3:
      return kLlama3Regex;
    case SplitPattern::kQwen2:
      return kQwen2Regex;
  }
  return "";
}

std::optional<SplitPattern> pattern_of(std::string_view regex) {
  for (const auto pattern : {SplitPattern::kGpt2, SplitPattern::kLlama3, SplitPattern::kQwen2}) {
    if (regex == regex_of(pattern)) return pattern;
  }
  return std::nullopt;
}

std::size_t word_end(SplitPattern pattern, std::string_view text, std::size_t at) {
  const Matcher match(text);
  switch (pattern) {
    case SplitPattern::kNone:
      break;
    case SplitPattern::kGpt2:
      return gpt2_end(match, at);
    case SplitPattern::kLlama3:
      return llama3_end(match, at, 3);
    case SplitPattern::kQwen2:
      return llama3_end(match, at, 1);
  }
  return text.size();
}

}  // namespace posenc::tokens

#include "draw/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/plain_text.h"

namespace posenc::draw {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array<Pair, 13> kWords = {{{"SUM", "Σ"},
                                          {"PROD", "Π"},
                                          {"theta", "θ"},
                                          {"tau", "τ"},
                                          {"psi", "ψ"},
                                          {"zeta", "ζ"},
                                          {"sigmoid", "σ"},
                                          {"pi", "π"},
                                          {"->", "→"},
                                          {"..", "…"},
                                          {"-", "−"},
                                          {"*", "·"},
                                          {"'", "′"}}};

constexpr std::array<Pair, 28> kLow = {
    {{"0", "₀"}, {"1", "₁"}, {"2", "₂"}, {"3", "₃"}, {"4", "₄"}, {"5", "₅"}, {"6", "₆"},
     {"7", "₇"}, {"8", "₈"}, {"9", "₉"}, {"a", "ₐ"}, {"e", "ₑ"}, {"h", "ₕ"}, {"i", "ᵢ"},
     {"j", "ⱼ"}, {"k", "ₖ"}, {"l", "ₗ"}, {"m", "ₘ"}, {"n", "ₙ"}, {"o", "ₒ"}, {"p", "ₚ"},
     {"r", "ᵣ"}, {"s", "ₛ"}, {"t", "ₜ"}, {"u", "ᵤ"}, {"v", "ᵥ"}, {"x", "ₓ"}, {"−", "₋"}}};

constexpr std::array<Pair, 14> kHigh = {{{"0", "⁰"},
                                         {"1", "¹"},
                                         {"2", "²"},
                                         {"3", "³"},
                                         {"4", "⁴"},
                                         {"5", "⁵"},
                                         {"6", "⁶"},
                                         {"7", "⁷"},
                                         {"8", "⁸"},
                                         {"9", "⁹"},
                                         {"i", "ⁱ"},
                                         {"n", "ⁿ"},
                                         {"T", "ᵀ"},
                                         {"−", "⁻"}}};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// The end of a group "_{...}" or "^{...}" at `at`, past its brace; 0 where there is none.
std::size_t group_end(std::string_view text, std::size_t at) {
  const bool opens =
      at + 1 < text.size() && (text[at] == '_' || text[at] == '^') && text[at + 1] == '{';
  const std::size_t brace = opens ? text.find('}', at) : std::string_view::npos;
  return brace == std::string_view::npos ? 0 : brace + 1;
}

// Empty where a letter has no small form.
template <std::size_t kCount>
std::string small(std::string_view text, const std::array<Pair, kCount>& table) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = letter_end(text, at);
    const std::string_view letter = text.substr(at, end - at);
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Pair& entry) { return entry.first == letter; });
    if (found == table.end()) return "";
    out += found->second;
    at = end;
  }
  return out;
}

std::string plain_run(const TextRun& run) {
  if (run.shift == Shift::kNone) return std::string(run.text);
  const bool lowered = run.shift == Shift::kLowered;
  std::string letters = lowered ? small(run.text, kLow) : small(run.text, kHigh);
  if (!letters.empty()) return letters;
  const bool simple = std::all_of(run.text.begin(), run.text.end(), is_word);
  return fmt::format("{}{}{}{}", lowered ? '_' : '^', simple ? "" : "(", run.text,
                     simple ? "" : ")");
}

// What follows "_" or "^": a group in brackets, or the letters and digits there; an exponent may have an index.
std::string_view index_at(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == '{' || text[at] == '(')) {
    const char close = text[at] == '{' ? '}' : ')';
    const std::size_t end = text.find(close, at);
    return text.substr(at, end == std::string_view::npos ? end : end + 1 - at);
  }
  const bool raised = text[at - 1] == '^';
  std::size_t end = at;
  while (end < text.size() && (is_word(text[end]) || (raised && text[end] == '_'))) ++end;
  return text.substr(at, end - at);
}

// Words stand alone: the "pi" of "clipping" is none.
const Pair* word_at(std::string_view text, std::size_t at) {
  for (const Pair& entry : kWords) {
    const std::string_view word = entry.first;
    if (text.substr(at, word.size()) != word) continue;
    const std::size_t end = at + word.size();
    const bool inside = is_word(word.front()) && ((at > 0 && is_word(text[at - 1])) ||
                                                  (end < text.size() && is_word(text[end])));
    if (!inside) return &entry;
  }
  return nullptr;
}

// Comparisons stand in groups; elsewhere "<u, v>" is an inner product and " . " a product.
std::string letters_of(std::string_view text, bool in_group) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (const Pair* word = word_at(text, at)) {
      out += word->second;
      at += word->first.size();
      continue;
    }
    const char c = text[at++];
    if (in_group) {
      if (c != ' ') out += c;
    } else if (c == '<' || c == '>') {
      out += c == '<' ? "⟨" : "⟩";
    } else if (c == '.' && at > 1 && at < text.size() && text[at - 2] == ' ' && text[at] == ' ') {
      out += "·";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::size_t letter_end(std::string_view text, std::size_t at) {
  if (const std::size_t end = group_end(text, at)) return end;
  return at + std::max<std::size_t>(1, character_length(text.substr(at)));
}

std::vector<TextRun> text_runs(std::string_view text) {
  std::vector<TextRun> runs;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = group_end(text, at);
    if (end == 0) {
      ++at;
      continue;
    }
    if (at > begin) runs.push_back({text.substr(begin, at - begin)});
    runs.push_back(
        {text.substr(at + 2, end - at - 3), text[at] == '_' ? Shift::kLowered : Shift::kRaised});
    begin = at = end;
  }
  if (begin < text.size()) runs.push_back({text.substr(begin)});
  return runs;
}

std::string plain_formula(std::string_view text) {
  std::string out;
  for (const TextRun& run : text_runs(text)) out += plain_run(run);
  return out;
}

std::string typeset(std::string_view ascii) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < ascii.size(); ++at) {
    if (ascii[at] != '_' && ascii[at] != '^') continue;
    const std::string_view index = index_at(ascii, at + 1);
    if (index.empty()) continue;
    const bool wrapped = !is_word(index.front());
    out += letters_of(ascii.substr(begin, at - begin), false);
    const std::string letters =
        letters_of(wrapped ? index.substr(1, index.size() - 2) : index, true);
    const bool indexed = letters.find('_') != std::string::npos;
    out += fmt::format("{}{{{}}}", ascii[at], indexed ? plain_formula(typeset(letters)) : letters);
    at += index.size();
    begin = at + 1;
  }
  return out + letters_of(ascii.substr(begin), false);
}

}  // namespace posenc::draw

// Unicode Standard Annex 15: take apart, put marks in the order of their classes, compose.
#include <algorithm>
#include <utility>
#include <vector>

#include "tokens/unicode.h"
#include "tokens/unicode_tables.h"

namespace posenc::tokens {
namespace {

// Hangul syllables: section 3.12 of the standard.
constexpr char32_t kHangul = 0xAC00;
constexpr char32_t kLeading = 0x1100;
constexpr char32_t kVowel = 0x1161;
constexpr char32_t kTrailing = 0x11A7;  // the number 0 means none
constexpr char32_t kVowels = 21;
constexpr char32_t kTrailings = 28;
constexpr char32_t kLeadings = 19;
constexpr char32_t kSyllables = kLeadings * kVowels * kTrailings;

// Below U+0300 every character is normalised and no mark: no byte from 0xCC on.
bool is_plainly_normal(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

std::uint32_t combining_class(char32_t value) {
  const auto ranges = combining_ranges();
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), value,
                       [](char32_t v, const CombiningRange& range) { return v < range.first; });
  if (after == ranges.begin() || value > std::prev(after)->last) return 0;
  return std::prev(after)->combining_class;
}

const Decomposition* find_decomposition(std::span<const Decomposition> table, char32_t value) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), value,
                       [](const Decomposition& d, char32_t v) { return d.composed < v; });
  return found != table.end() && found->composed == value ? &*found : nullptr;
}

void decompose(char32_t value, std::vector<char32_t>& out) {
  if (value >= kHangul && value < kHangul + kSyllables) {
    const char32_t index = value - kHangul;
    out.push_back(kLeading + index / (kVowels * kTrailings));
    out.push_back(kVowel + index / kTrailings % kVowels);
    if (index % kTrailings != 0) out.push_back(kTrailing + index % kTrailings);
    return;
  }
  const Decomposition* parts = find_decomposition(composing_pairs(), value);
  if (parts == nullptr) parts = find_decomposition(one_way_pairs(), value);
  if (parts == nullptr) return out.push_back(value);
  decompose(parts->first, out);
  if (parts->second != 0) decompose(parts->second, out);
}

void order_marks(std::vector<char32_t>& text) {
  const auto starter = [](char32_t c) { return combining_class(c) == 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    const auto marks = std::find_if_not(begin, text.end(), starter);
    begin = std::find_if(marks, text.end(), starter);
    std::stable_sort(marks, begin, [](char32_t a, char32_t b) {
      return combining_class(a) < combining_class(b);
    });
  }
}

using Pair = std::pair<char32_t, char32_t>;

char32_t composed_hangul(Pair pair) {
  const auto [first, second] = pair;
  if (first >= kLeading && first < kLeading + kLeadings && second >= kVowel &&
      second < kVowel + kVowels) {
    return kHangul + ((first - kLeading) * kVowels + (second - kVowel)) * kTrailings;
  }
  const bool open =
      first >= kHangul && first < kHangul + kSyllables && (first - kHangul) % kTrailings == 0;
  if (open && second > kTrailing && second < kTrailing + kTrailings) {
    return first + (second - kTrailing);
  }
  return 0;
}

// The character that the two make, or 0.
char32_t composed(Pair pair) {
  static const auto kByPair = [] {
    std::vector<std::pair<Pair, char32_t>> all;
    for (const Decomposition& d : composing_pairs()) {
      all.push_back({{d.first, d.second}, d.composed});
    }
    std::sort(all.begin(), all.end());
    return all;
  }();
  if (const char32_t syllable = composed_hangul(pair)) return syllable;
  const auto found = std::lower_bound(kByPair.begin(), kByPair.end(), std::pair{pair, char32_t{0}});
  return found != kByPair.end() && found->first == pair ? found->second : 0;
}

// A mark joins the last starter unless one of its class or a higher one stands between.
void compose(std::vector<char32_t>& text) {
  std::size_t size = 0;
  std::size_t starter = text.size();  // none yet
  std::uint32_t last_class = 0;       // of what stands between the starter and here
  for (const char32_t c : text) {
    const std::uint32_t own = combining_class(c);
    const bool blocked = starter + 1 != size && (last_class == 0 || last_class >= own);
    if (starter < size && !blocked) {
      if (const char32_t joined = composed({text[starter], c})) {
        text[starter] = joined;
        continue;
      }
    }
    if (own == 0) starter = size;
    last_class = own;
    text[size++] = c;
  }
  text.resize(size);
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (is_plainly_normal(text)) return std::string(text);
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    decompose(next.value, points);
    at += next.bytes;
  }
  order_marks(points);
  compose(points);
  std::string normal;
  normal.reserve(text.size());
  for (const char32_t point : points) append_utf8(point, normal);
  return normal;
}

}  // namespace posenc::tokens

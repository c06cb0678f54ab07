// What tokenizers need of the Unicode Character Database, as sorted tables (tools/unicode_tables.py).
#pragma once

#include <cstdint>
#include <span>

namespace posenc::tokens {

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
};

// Canonical decomposition of one character into one (second is 0) or two.
struct Decomposition {
  char32_t composed = 0;
  char32_t first = 0;
  char32_t second = 0;
};

struct CombiningRange {
  char32_t first = 0;
  char32_t last = 0;
  std::uint32_t combining_class = 0;
};

std::span<const CodePointRange> letter_ranges();  // \p{L}
std::span<const CodePointRange> number_ranges();  // \p{N}
// Sorted by `composed`. Hangul syllables, which follow a formula, are in neither.
std::span<const Decomposition> composing_pairs();    // NFC composes these again
std::span<const Decomposition> one_way_pairs();      // and these not
std::span<const CombiningRange> combining_ranges();  // classes other than 0

}  // namespace posenc::tokens

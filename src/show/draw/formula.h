// Formulas in the text of figures: "p_{ij}" is lowered, "x^{2}" is raised, all other text stands as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace posenc::draw {

enum class Shift { kNone, kLowered, kRaised };

struct TextRun {
  std::string_view text;
  Shift shift = Shift::kNone;
};
// The text as runs of one height; braces that are not closed are letters.
std::vector<TextRun> text_runs(std::string_view text);

// Where the letter that begins at `at` ends; a lowered or raised group counts as one letter.
std::size_t letter_end(std::string_view text, std::size_t at);

// For places that cannot lower or raise: Unicode's small letters where all exist, else "g_ic" and "x^(2i/d)".
std::string plain_formula(std::string_view text);

// A formula in ASCII, as Traits have it, in the letters of mathematics: "SUM_{t=j..i} theta" as "Σ_{t=j…i} θ".
std::string typeset(std::string_view ascii);

}  // namespace posenc::draw

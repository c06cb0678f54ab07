// Sentences as toy inputs: words, and a vector for each that depends on the word and the seed alone.
#pragma once

#include <string>
#include <vector>

#include "plots/request.h"

namespace posenc::plots {

// Words, and punctuation marks as words of their own.
std::vector<std::string> split_words(const std::string& sentence);

// All sentences one after the other; `starts` are the places where sentences begin. Throws Error where
// there is no word, or more than a map can show.
struct Words {
  std::vector<std::string> tokens;
  std::vector<std::int64_t> starts;
};
Words read_words(const PlotRequest& request);

// Of length 1 and the same for equal words; case is kept apart.
std::vector<double> word_vector(const PlotRequest& request, const std::string& word);

}  // namespace posenc::plots

// Words of the command line as values of a request's fields. What is no number stays a word, so that
// the field itself says what it wants.
#pragma once

#include <charconv>
#include <string>
#include <vector>

#include "core/bind.h"

namespace posenc::cli {

// 7, 1e6 or -2.5; anything else as it stands.
Value number_or_word(const std::string& word);
// Entries between commas, of all words: --theta 10000,500000 --theta 1e6.
Value number_list(const std::vector<std::string>& words);

inline Value option_value(const std::vector<std::string>& words, const std::int64_t& /*field*/) {
  return number_or_word(words.back());
}
inline Value option_value(const std::vector<std::string>& words, const double& /*field*/) {
  return number_or_word(words.back());
}
inline Value option_value(const std::vector<std::string>& words, const std::string& /*field*/) {
  return Value::of_string(words.back());
}
template <NamedEnum E>
Value option_value(const std::vector<std::string>& words, const E& /*field*/) {
  return Value::of_string(words.back());
}
template <std::same_as<bool> Truth>
Value option_value(const std::vector<std::string>& words, const Truth& /*field*/) {
  if (words.back() == "true" || words.back() == "false") {
    return {Value::Data(words.back() == "true")};
  }
  return Value::of_string(words.back());
}
inline Value option_value(const std::vector<std::string>& words,
                          const std::vector<std::int64_t>& /*field*/) {
  return number_list(words);
}
inline Value option_value(const std::vector<std::string>& words,
                          const std::vector<double>& /*field*/) {
  return number_list(words);
}
// Specs and sentences hold commas themselves: one per option.
Value option_value(const std::vector<std::string>& words, const std::vector<std::string>& field);

// A default as the command line would take it; "-" for an empty list.
std::string list_text(const Value& value);

}  // namespace posenc::cli

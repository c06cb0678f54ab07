#include "cli/plot_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/strings.h"

namespace posenc::cli {

Value number_or_word(const std::string& word) {
  const char* end = word.data() + word.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(word.data(), end, integer);
      read.ec == std::errc() && read.ptr == end) {
    return {Value::Data(integer)};
  }
  double number = 0.0;
  if (const auto read = std::from_chars(word.data(), end, number);
      read.ec == std::errc() && read.ptr == end) {
    return {Value::Data(number)};
  }
  return Value::of_string(word);
}

Value number_list(const std::vector<std::string>& words) {
  Value::List list;
  for (const std::string& word : words) {
    if (word.empty()) continue;  // --theta '' is a list of none, where a kind has one by default
    for (const std::string_view part : split(word, ',')) {
      list.push_back(number_or_word(std::string(part)));
    }
  }
  return {Value::Data(std::move(list))};
}

Value option_value(const std::vector<std::string>& words,
                   const std::vector<std::string>& /*field*/) {
  Value::List list;
  for (const std::string& word : words) list.push_back(Value::of_string(word));
  return {Value::Data(std::move(list))};
}

std::string list_text(const Value& value) {
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return default_text(value);
  if (list->empty()) return "-";
  std::vector<std::string> texts;
  for (const Value& entry : *list) texts.push_back(default_text(entry));
  const bool words = list->front().get_if<std::string>() != nullptr;
  return fmt::format("{}", fmt::join(texts, words ? "; " : ","));
}

}  // namespace posenc::cli

#include "runs/private_paths.h"

#include <algorithm>
#include <cctype>

namespace posenc::runs {
namespace {

// A slash after one of these goes on with a relative path: "configs/demo.yaml", "../a", "~/a".
bool goes_on(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) != 0 || byte >= 0x80 ||
         std::string_view("._-~/").find(c) != std::string_view::npos;
}

// "-o/home/ann": the path follows its flag without a space.
bool is_after_flag(std::string_view text, std::size_t slash) {
  return slash >= 2 && text[slash - 2] == '-' &&
         std::isalpha(static_cast<unsigned char>(text[slash - 1])) != 0 &&
         (slash == 2 || text[slash - 3] == ' ');
}

bool begins_path(std::string_view text, std::size_t slash) {
  if (slash + 1 >= text.size() || text[slash + 1] == ' ') return false;
  return slash == 0 || !goes_on(text[slash - 1]) || is_after_flag(text, slash);
}

// Not at a space, which a path may contain: what follows one is kept with the last component.
std::size_t end_of_path(std::string_view text, std::size_t begin) {
  return std::min(text.find_first_of(",;)]}\"'|<>\n", begin), text.size());
}

std::string_view last_component(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::string without_absolute_paths(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '/' || !begins_path(text, i)) {
      result += text[i++];
      continue;
    }
    const std::size_t end = end_of_path(text, i);
    result += last_component(text.substr(i, end - i));
    i = end;
  }
  return result;
}

Value without_absolute_paths(const Value& environment) {
  const auto* members = environment.get_if<Value::Map>();
  if (members == nullptr) return environment;
  Value::Map result = *members;
  for (Member& member : result) {
    auto* words = member.key == "command_line" ? member.value.get_if<Value::List>() : nullptr;
    if (words == nullptr) continue;
    for (Value& word : *words) {
      if (auto* text = word.get_if<std::string>()) *text = without_absolute_paths(*text);
    }
  }
  return {Value::Data(std::move(result))};
}

}  // namespace posenc::runs

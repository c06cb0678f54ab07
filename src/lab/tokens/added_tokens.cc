#include "tokens/added_tokens.h"

namespace posenc::tokens {

void AddedTokens::add(std::string_view content, std::int32_t id) {
  std::size_t node = 0;
  for (const char c : content) {
    const auto [child, is_new] = nodes_[node].children.try_emplace(c, nodes_.size());
    node = child->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[node].id = id;
}

AddedTokens::Match AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    Match longest;
    std::size_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto child = nodes_[node].children.find(text[at]);
      if (child == nodes_[node].children.end()) break;
      node = child->second;
      if (nodes_[node].id >= 0) longest = {begin, at + 1, nodes_[node].id};
    }
    if (longest.id >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace posenc::tokens

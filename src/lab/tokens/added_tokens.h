// Finds added tokens in a text: the leftmost, and of those that start there the longest.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace posenc::tokens {

class AddedTokens {
 public:
  void add(std::string_view content, std::int32_t id);
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = -1;  // none: begin and end are the text's end
  };
  [[nodiscard]] Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    std::map<char, std::size_t> children;
    std::int32_t id = -1;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);  // a tree of prefixes, the root first
};

// plain(piece) for the text between added tokens and added(id) for these, in order.
template <class Plain, class Added>
void split_at_added(const AddedTokens& tokens, std::string_view text, Plain plain, Added added) {
  if (tokens.empty()) return plain(text);
  for (std::size_t at = 0; at < text.size();) {
    const AddedTokens::Match match = tokens.find(text, at);
    if (match.begin > at) plain(text.substr(at, match.begin - at));
    if (match.id >= 0) added(match.id);
    at = match.end;
  }
}

}  // namespace posenc::tokens

// The parts of a client's request that the server uses, and the checks of its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posenc::serve {

struct Request {
  std::string method = "GET";
  std::string target;  // as it was sent: path and query, nothing decoded
  std::string host;    // several headers of this name: joined by commas, and so refused
  std::string fetch_site;
  std::string origin;  // of the page that sent it, where the browser says so
  std::string if_none_match;
  bool has_body = false;
};

// A target that was taken apart. Every segment is a plain name: valid UTF-8 without control characters,
// slashes and backslashes, not empty, with no dot at its front.
struct Target {
  std::vector<std::string> segments;
  bool folder = true;  // a slash at the end
  std::vector<std::pair<std::string, std::string>> query;
};

inline constexpr std::size_t kLongestTarget = 4096;

// Throws an Error of kind kSyntax for what is not such a target, kResource for one that is too long.
Target parse_target(std::string_view target);

// A name of this machine for itself, with or without a port: localhost, 127.0.0.1 or [::1]. Names that
// merely resolve to loopback are what a rebinding page sends.
bool is_loopback_host(std::string_view host);

// Is the page that sent a request, by its Origin, a page of this very server, by the request's Host?
bool is_same_origin(std::string_view origin, std::string_view host);

// The value of %41 and the like; nothing where a percent sign is followed by something else.
std::optional<std::string> percent_decoded(std::string_view text);
// A name as a segment of a URL.
std::string percent_encoded(std::string_view text);

// A query with exactly these keys, each once, as whole numbers in [lowest, highest]. Errors name the key.
struct NumberRule {
  std::string_view key;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
std::vector<std::int64_t> read_numbers(const Target& target, const std::vector<NumberRule>& rules);

}  // namespace posenc::serve

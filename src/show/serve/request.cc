#include "serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/plain_text.h"
#include "core/strings.h"
#include "posenc/core/error.h"
#include "weights/messages.h"

namespace posenc::serve {
namespace {

constexpr std::size_t kLongestName = 255;  // of a file
constexpr std::size_t kMostSegments = 32;
constexpr std::size_t kMostArguments = 16;

Error target_error(const std::string& rule, std::string_view value) {
  return {ErrorKind::kSyntax,
          {.scope = "request",
           .key = "path",
           .rule = rule,
           .value = weights::in_quotes(value),
           .hint = ""}};
}

Error query_error(ErrorKind kind, std::string_view key, const std::string& rule,
                  std::string_view value) {
  return {kind,
          {.scope = "request",
           .key = weights::in_quotes(key),
           .rule = rule,
           .value = value.empty() ? "" : weights::in_quotes(value),
           .hint = ""}};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestName || name.front() == '.' || !is_utf8(name)) {
    return false;
  }
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 || code == 0x7f || c == '/' || c == '\\';
  });
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return result;
}

std::vector<std::string> parse_segments(std::string_view path) {
  std::vector<std::string> segments;
  if (path.empty()) return segments;
  for (const std::string_view part : split(path, '/')) {
    const auto name = percent_decoded(part);
    if (!name || !is_plain_name(*name)) {
      throw target_error("must be plain names between slashes", path);
    }
    segments.push_back(*name);
  }
  if (segments.size() > kMostSegments) throw target_error("is too deep", path);
  return segments;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> arguments;
  if (query.empty()) return arguments;
  for (const std::string_view part : split(query, '&')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto key = percent_decoded(part.substr(0, equals));
    const auto value =
        percent_decoded(equals < part.size() ? part.substr(equals + 1) : std::string_view());
    if (!key || !value || key->empty() || !is_utf8(*key) || !is_utf8(*value)) {
      throw target_error("has a query that is not made of key=value", query);
    }
    arguments.emplace_back(*key, *value);
  }
  if (arguments.size() > kMostArguments) throw target_error("has too long a query", query);
  return arguments;
}

std::int64_t read_number(const NumberRule& rule, const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stopped != end || number < rule.lowest || number > rule.highest) {
    throw query_error(ErrorKind::kOutOfRange, rule.key,
                      fmt::format("must be a whole number in [{}, {}]", rule.lowest, rule.highest),
                      text.empty() ? "nothing" : text);
  }
  return number;
}

}  // namespace

Target parse_target(std::string_view target) {
  if (target.size() > kLongestTarget) {
    throw Error(ErrorKind::kResource,
                {.scope = "request",
                 .key = "path",
                 .rule = fmt::format("must be at most {} bytes long", kLongestTarget),
                 .value = std::to_string(target.size()),
                 .hint = ""});
  }
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable || target.empty() || target.front() != '/') {
    throw target_error("must begin with a slash and be written in ASCII", target);
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  std::string_view path = target.substr(1, mark - 1);
  Target result;
  result.folder = path.empty() || path.back() == '/';
  if (result.folder && !path.empty()) path.remove_suffix(1);
  if (result.folder && path.empty() && mark > 1) {
    throw target_error("must be plain names between slashes", target);
  }
  result.segments = parse_segments(path);
  result.query = parse_query(target.substr(std::min(mark + 1, target.size())));
  return result;
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  return lower(origin) == "http://" + lower(host);
}

bool is_loopback_host(std::string_view host) {
  const std::string name = lower(host);
  constexpr std::array<std::string_view, 3> kNames = {"localhost", "127.0.0.1", "[::1]"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
    if (name.compare(0, known.size(), known) != 0) return false;
    const std::string_view rest = std::string_view(name).substr(known.size());
    return rest.empty() || (rest.front() == ':' && rest.size() >= 2 && rest.size() <= 6 &&
                            rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
  });
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return encoded;
}

std::vector<std::int64_t> read_numbers(const Target& target, const std::vector<NumberRule>& rules) {
  std::vector<std::optional<std::int64_t>> found(rules.size());
  for (const auto& [key, value] : target.query) {
    const std::string& name = key;  // clang 14 captures no bindings
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const NumberRule& known) { return known.key == name; });
    if (rule == rules.end()) {
      std::vector<std::string_view> names;
      for (const NumberRule& one : rules) names.push_back(one.key);
      throw query_error(
          ErrorKind::kUnknownKey, key,
          fmt::format("is unsupported; this request reads {}",
                      names.empty() ? "no query" : fmt::format("{}", fmt::join(names, ", "))),
          "");
    }
    auto& number = found[static_cast<std::size_t>(rule - rules.begin())];
    if (number) throw query_error(ErrorKind::kConflict, key, "is given twice", "");
    number = read_number(*rule, value);
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!found[i]) throw query_error(ErrorKind::kMissingKey, rules[i].key, "is missing", "");
    numbers.push_back(*found[i]);
  }
  return numbers;
}

}  // namespace posenc::serve

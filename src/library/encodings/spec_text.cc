#include "encodings/spec_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "core/float_text.h"
#include "core/plain_text.h"

namespace posenc {
namespace {

constexpr int kDeepest = 16;

bool name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool name_part(char c) {
  return name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Value parse() {
    Value::List terms;
    do {
      terms.push_back(term(0));
    } while (accept('+'));
    if (at_ != text_.size()) throw unexpected("'+' or the end");
    return {Value::Data(std::move(terms))};
  }

 private:
  Value term(int depth) {
    skip_space();
    const Mark mark = here();
    std::string word = name();
    if (!accept('(')) return keyword(std::move(word), mark);
    Value::Map map{{std::move(word), Value(Value::Data(arguments(depth)), mark)}};
    return {Value::Data(std::move(map)), mark};
  }

  static Value keyword(std::string word, Mark mark) {
    if (word == "true" || word == "false") return {Value::Data(word == "true"), mark};
    if (word == "null") return {Value::Data(), mark};
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (word == "inf") return {Value::Data(kInf), mark};
    if (word == "nan") return {Value::Data(std::numeric_limits<double>::quiet_NaN()), mark};
    return Value::of_string(std::move(word), mark);
  }

  Value::Map arguments(int depth) {
    Value::Map map;
    if (accept(')')) return map;
    do {
      skip_space();
      const Mark mark = here();
      std::string key = name();
      for (const Member& member : map) {
        if (member.key != key) continue;
        throw Error(ErrorKind::kConflict, {.scope = "spec",
                                           .key = key,
                                           .rule = "is given twice" + mark_text(mark),
                                           .value = "",
                                           .hint = "keep one of the two"});
      }
      expect('=', "'=' after '" + key + "'");
      map.push_back({std::move(key), value(depth + 1), mark});
    } while (accept(','));
    expect(')', "',' or ')'");
    return map;
  }

  Value value(int depth) {
    skip_space();
    const Mark mark = here();
    if (depth > kDeepest) {
      throw Error(ErrorKind::kSyntax, {.scope = "spec",
                                       .key = "",
                                       .rule = "nests too deeply" + mark_text(mark),
                                       .value = "",
                                       .hint = "flatten it"});
    }
    if (accept('[')) return {Value::Data(list(depth)), mark};
    if (at_ < text_.size() && name_start(text_[at_])) return term(depth);
    return number(mark);
  }

  Value::List list(int depth) {
    Value::List items;
    if (accept(']')) return items;
    do {
      items.push_back(value(depth + 1));
    } while (accept(','));
    expect(']', "',' or ']'");
    return items;
  }

  Value number(Mark mark) {
    std::size_t end = at_;
    while (end < text_.size() && (name_part(text_[end]) || text_[end] == '+')) ++end;
    // "1 + alibi" and "1+alibi" both end the number before the plus; "1e+5" does not.
    const std::string_view all = text_.substr(at_, end - at_);
    const char* first = all.data() + (all.starts_with('+') ? 1 : 0);
    const char* last = all.data() + all.size();
    double real = 0.0;
    const auto [stop, problem] = read_double(first, last, real);
    if (stop == first || (stop != last && *stop != '+')) throw unexpected("a value");
    if (problem == std::errc::result_out_of_range) {
      throw Error(ErrorKind::kNotFinite,
                  {.scope = "spec",
                   .key = "",
                   .rule = "has a number too large or too small for a double" + mark_text(mark),
                   .value = std::string(first, stop),
                   .hint = ""});
    }
    at_ += static_cast<std::size_t>(stop - all.data());
    std::int64_t integer = 0;
    const auto whole = std::from_chars(first, stop, integer);
    if (whole.ptr == stop && whole.ec == std::errc()) return {Value::Data(integer), mark};
    return {Value::Data(real), mark};
  }

  std::string name() {
    skip_space();
    if (at_ >= text_.size() || !name_start(text_[at_])) throw unexpected("a name");
    const std::size_t begin = at_;
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c, const std::string& what) {
    if (!accept(c)) throw unexpected(what);
  }

  // Counted in characters: what a person counts in a text with accents.
  std::size_t column() {
    column_ += character_count(text_.substr(counted_, at_ - counted_));
    counted_ = at_;
    return column_;
  }
  Mark here() { return {1, static_cast<int>(column())}; }

  Error unexpected(const std::string& wanted) {
    const std::string_view rest = text_.substr(at_);
    const std::size_t length = std::max<std::size_t>(1, character_length(rest));
    const std::string found =
        rest.empty() ? "the end" : fmt::format("'{}'", rest.substr(0, length));
    return {ErrorKind::kSyntax,
            {.scope = "spec",
             .key = "",
             .rule = fmt::format("needs {} at column {}", wanted, column()),
             .value = found,
             .hint = "a spec looks like rope(theta=10000, layout=half) + alibi"}};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // bytes that column_ has counted
  std::size_t column_ = 1;
};

struct Print {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(std::int64_t i) const { return std::to_string(i); }
  std::string operator()(double d) const { return number_text(d); }
  std::string operator()(const std::string& s) const { return s; }
  std::string operator()(const Value::List& list) const {
    std::string text;
    for (const Value& item : list)
      text += (text.empty() ? "" : ", ") + std::visit(*this, item.data());
    return "[" + text + "]";
  }
  // A map in canonical form is one name with its arguments.
  std::string operator()(const Value::Map& map) const {
    std::string text;
    for (const Member& argument : *map.front().value.get_if<Value::Map>()) {
      text += (text.empty() ? "" : ", ") + argument.key + "=" +
              std::visit(*this, argument.value.data());
    }
    return map.front().key + "(" + text + ")";
  }
};

}  // namespace

Value parse_spec_text(std::string_view text) { return Parser(text).parse(); }

std::string spec_text(const Value& terms) {
  std::string text;
  for (const Value& term : *terms.get_if<Value::List>()) {
    text += (text.empty() ? "" : " + ") + std::visit(Print{}, term.data());
  }
  return text;
}

}  // namespace posenc

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/value.h"

namespace posenc {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 64;

// Builds the tree while the parser walks. Knowing the path to the value at hand is what lets an
// error about a number name its key, which the parser by itself cannot do.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, std::string_view scope) : text_(text), scope_(scope) {}

  Value take() { return std::move(root_); }

  bool null() override { return add(Value()); }
  bool boolean(bool b) override { return add(Value(Value::Data(b))); }
  bool number_integer(number_integer_t i) override {
    return add(Value(Value::Data(std::int64_t{i})));
  }
  bool number_unsigned(number_unsigned_t u) override {
    if (u > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return add(Value(Value::Data(static_cast<double>(u))));
    }
    return add(Value(Value::Data(static_cast<std::int64_t>(u))));
  }
  bool number_float(number_float_t d, const string_t& /*text*/) override {
    return add(Value(Value::Data(d)));
  }
  bool string(string_t& s) override { return add(Value::of_string(s)); }
  bool binary(binary_t& /*b*/) override { return false; }

  bool start_object(std::size_t /*size*/) override {
    return open(Value(Value::Data(Value::Map{})));
  }
  bool start_array(std::size_t /*size*/) override {
    return open(Value(Value::Data(Value::List{})));
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (stack_.back().second.find(name) != nullptr) {
      throw Error(ErrorKind::kConflict, {.scope = scope_,
                                         .key = path(name),
                                         .rule = "is given twice",
                                         .value = "",
                                         .hint = "keep one of the two"});
    }
    key_ = name;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& problem) override {
    const std::string word = word_at(position > 0 ? position - 1 : 0);
    if (non_finite(word)) {
      throw Error(ErrorKind::kNotFinite, {.scope = scope_,
                                          .key = path(key_),
                                          .rule = "must be a finite number",
                                          .value = word,
                                          .hint = ""});
    }
    std::string what = problem.what();
    what = what.substr(what.find("] ") == std::string::npos ? 0 : what.find("] ") + 2);
    throw Error(ErrorKind::kSyntax, {.scope = scope_,
                                     .key = "",
                                     .rule = fmt::format("is not JSON (byte {})", position),
                                     .value = "",
                                     .hint = what});
  }

 private:
  // The whole word that the parser stopped in; it reports only the part it had read.
  [[nodiscard]] std::string word_at(std::size_t position) const {
    const auto in_word = [&](std::size_t i) {
      return std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '-' ||
             text_[i] == '+' || text_[i] == '.';
    };
    std::size_t begin = std::min(position, text_.size());
    if (begin > 0 && (begin == text_.size() || !in_word(begin))) --begin;
    std::size_t end = begin;
    while (begin > 0 && in_word(begin - 1)) --begin;
    while (end < text_.size() && in_word(end)) ++end;
    return std::string(text_.substr(begin, end - begin));
  }
  // Python's json writes NaN and Infinity, and 1e999 is a number that no double holds.
  static bool non_finite(const std::string& word) {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    return end != word.c_str() && *end == '\0' && !std::isfinite(number);
  }

  std::string path(const std::string& last) const {
    std::string joined;
    for (const auto& [name, value] : stack_) joined += name.empty() ? "" : name + ".";
    return joined + last;
  }

  bool add(Value value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Value& parent = stack_.back().second;
    if (auto* list = parent.get_if<Value::List>()) {
      list->push_back(std::move(value));
    } else {
      parent.get_if<Value::Map>()->push_back({key_, std::move(value)});
    }
    return true;
  }

  bool open(Value container) {
    if (stack_.size() >= kDeepest) {
      throw Error(ErrorKind::kSyntax, {.scope = scope_,
                                       .key = "",
                                       .rule = fmt::format("nests deeper than {}", kDeepest),
                                       .value = "",
                                       .hint = "flatten it"});
    }
    const bool in_map = !stack_.empty() && stack_.back().second.get_if<Value::Map>() != nullptr;
    stack_.emplace_back(in_map ? key_ : "", std::move(container));
    return true;
  }

  bool close() {
    auto [name, value] = std::move(stack_.back());
    stack_.pop_back();
    key_ = name;
    return add(std::move(value));
  }

  std::string_view text_;
  std::string scope_;
  std::string key_;
  std::vector<std::pair<std::string, Value>> stack_;
  Value root_;
};

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool b) const { return b; }
  Json operator()(std::int64_t i) const { return i; }
  Json operator()(double d) const {
    // Whole numbers print without a fraction, so that 10000 and 10000.0 are one text and one hash.
    if (std::abs(d) < 1e15 && std::nearbyint(d) == d) return static_cast<std::int64_t>(d);
    return d;
  }
  Json operator()(const std::string& s) const { return s; }
  Json operator()(const Value::List& list) const {
    Json array = Json::array();
    for (const Value& item : list) array.push_back(std::visit(ToJson{}, item.data()));
    return array;
  }
  Json operator()(const Value::Map& map) const {
    Json object = Json::object();
    for (const Member& member : map) object[member.key] = std::visit(ToJson{}, member.value.data());
    return object;
  }
};

}  // namespace

Value parse_json(std::string_view text, std::string_view scope) {
  TreeBuilder builder(text, scope);
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::string to_json(const Value& value) {
  return std::visit(ToJson{}, value.data()).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace posenc

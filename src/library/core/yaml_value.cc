#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/float_text.h"
#include "core/plain_text.h"
#include "core/value.h"

namespace posenc {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLongestKey = 200;  // bytes: escaped, it still fits YAML's limit of 1024

Mark mark_of(const YAML::Mark& mark) {
  return mark.is_null() ? Mark{} : Mark{mark.line + 1, mark.column + 1};
}

Error syntax_error(std::string_view scope, Mark mark, const std::string& rule,
                   const std::string& hint) {
  return {ErrorKind::kSyntax,
          {.scope = std::string(scope),
           .key = "",
           .rule = rule + mark_text(mark),
           .value = "",
           .hint = hint}};
}

std::optional<Value::Data> plain_word(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return Value::Data();
  if (text == "true" || text == "false") return Value::Data(text == "true");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (text == ".inf" || text == "+.inf") return Value::Data(kInf);
  if (text == "-.inf") return Value::Data(-kInf);
  if (text == ".nan") return Value::Data(std::numeric_limits<double>::quiet_NaN());
  return std::nullopt;
}

std::from_chars_result read_number(const char* first, const char* last, std::int64_t& number) {
  return std::from_chars(first, last, number);
}
std::from_chars_result read_number(const char* first, const char* last, double& number) {
  return read_double(first, last, number);
}

template <class Number>
std::optional<Value::Data> plain_number(const std::string& text) {
  const char* begin = text.data() + (text.size() > 1 && text.front() == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  Number number{};
  const auto [stop, problem] = read_number(begin, end, number);
  if (stop != end) return std::nullopt;
  if (problem == std::errc()) return Value::Data(number);
  // A number too large for a double becomes infinity; the check of the field reports it by name.
  return std::is_floating_point_v<Number>
             ? std::optional(Value::Data(std::numeric_limits<double>::infinity()))
             : std::nullopt;
}

// YAML 1.2's core types; from_chars also knows "inf" and "nan" as words, which YAML does not.
Value::Data plain_scalar(const std::string& text) {
  if (auto word = plain_word(text)) return *word;
  const bool numeric = text.find_first_of("0123456789") != std::string::npos &&
                       text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  if (numeric) {
    if (auto integer = plain_number<std::int64_t>(text)) return *integer;
    if (auto number = plain_number<double>(text)) return *number;
  }
  return text;
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

// What YAML does not allow, or reads as a line break, and yaml-cpp takes in silence: it replaces bytes that are not
// UTF-8, ends at control characters that it uses itself, and keeps a carriage return without a line feed.
void check_characters(std::string_view text, std::string_view scope) {
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    length = character_length(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      throw syntax_error(scope, {}, fmt::format("is not UTF-8 at byte {} (0x{:02x})", i + 1, c),
                         "save it as UTF-8");
    }
    const bool line_end = c == '\n' || text.substr(i, 2) == "\r\n";
    if (!is_control(c) || c == '\t' || line_end) continue;
    throw syntax_error(scope, {},
                       fmt::format("has a control character at byte {} (0x{:02x})", i + 1, c),
                       c == '\r' ? "end lines with a line feed"
                                 : fmt::format("remove it, or write \"\\x{:02x}\" in quotes", c));
  }
}

// Builds the tree from the parser's events. yaml-cpp's own tree is not used: it resolves an alias to
// the very same node, so that a short text can stand for a tree of exponential size, and its LoadAll
// never comes back from some malformed texts.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view scope) : scope_(scope) {}

  Value take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true)) {
      throw syntax_error(scope_, mark_of(mark), "must be one YAML document", "keep one of them");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    if (wants_key()) throw bad_key(mark);
    add(Value(Value::Data(), mark_of(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw syntax_error(scope_, mark_of(mark), "uses an alias", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& text) override {
    if (wants_key()) return set_key(mark_of(mark), text);
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    add(Value(quoted ? Value::Data(text) : plain_scalar(text), mark_of(mark)));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    open(mark, Value::Data(Value::List{}));
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, Value::Data(Value::Map{}));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Value container;
    std::optional<std::string> key = {};  // read, and waiting for its value
    Mark key_mark = {};
  };

  [[nodiscard]] bool wants_key() const {
    return !stack_.empty() && stack_.back().container.get_if<Value::Map>() != nullptr &&
           !stack_.back().key;
  }

  [[nodiscard]] Error bad_key(const YAML::Mark& mark) const {
    return syntax_error(scope_, mark_of(mark), "has a key that is not a word", "use plain keys");
  }

  void set_key(Mark mark, const std::string& key) {
    if (key == "<<") {
      throw syntax_error(scope_, mark, "uses a merge key '<<', which would be ignored",
                         "write the fields out");
    }
    if (key.size() > kLongestKey) {
      throw syntax_error(scope_, mark, fmt::format("has a key of {} bytes", key.size()),
                         fmt::format("shorten it to at most {}", kLongestKey));
    }
    if (stack_.back().container.find(key) != nullptr) {
      throw Error(ErrorKind::kConflict, {.scope = scope_,
                                         .key = key,
                                         .rule = "is given twice" + mark_text(mark),
                                         .value = "",
                                         .hint = "keep one of the two"});
    }
    stack_.back().key = key;
    stack_.back().key_mark = mark;
  }

  void add(Value value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& parent = stack_.back();
    if (auto* list = parent.container.get_if<Value::List>()) {
      list->push_back(std::move(value));
      return;
    }
    parent.container.get_if<Value::Map>()->push_back(
        {std::move(*parent.key), std::move(value), parent.key_mark});
    parent.key.reset();
  }

  void open(const YAML::Mark& mark, Value::Data container) {
    if (wants_key()) throw bad_key(mark);
    if (stack_.size() >= kDeepest) {
      throw syntax_error(scope_, mark_of(mark), fmt::format("nests deeper than {}", kDeepest),
                         "flatten it");
    }
    stack_.push_back({Value(std::move(container), mark_of(mark))});
  }

  void close() {
    Value value = std::move(stack_.back().container);
    stack_.pop_back();
    add(std::move(value));
  }

  std::string scope_;
  std::vector<Frame> stack_;
  Value root_;
  bool started_ = false;
};

void emit(YAML::Emitter& out, const Value& value);

// As plain_scalar reads it back: not the word "nan", nor the integer -0.
std::string yaml_number(double number) {
  if (std::isnan(number)) return ".nan";
  if (std::isinf(number)) return number > 0 ? ".inf" : "-.inf";
  return number == 0.0 && std::signbit(number) ? "-0.0" : number_text(number);
}

// Control characters are escaped, which yaml-cpp does in quotes alone.
void emit_text(YAML::Emitter& out, const std::string& text) {
  if (std::any_of(text.begin(), text.end(), is_control)) out << YAML::DoubleQuoted;
  out << text;
}

struct Emit {
  YAML::Emitter& out;
  void operator()(std::monostate) const { out << YAML::Null; }
  void operator()(bool b) const { out << b; }
  void operator()(std::int64_t i) const { out << i; }
  void operator()(double d) const { out << yaml_number(d); }
  void operator()(const std::string& s) const {
    // A word that would read back as a number or a truth value is quoted.
    if (!std::holds_alternative<std::string>(plain_scalar(s))) out << YAML::DoubleQuoted;
    emit_text(out, s);
  }
  void operator()(const Value::List& list) const {
    const bool leaves = list.empty() || list.front().get_if<double>() != nullptr ||
                        list.front().get_if<std::int64_t>() != nullptr;
    out << (leaves ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
    for (const Value& item : list) emit(out, item);
    out << YAML::EndSeq;
  }
  void operator()(const Value::Map& map) const {
    out << YAML::BeginMap;
    for (const Member& member : map) {
      out << YAML::Key;
      emit_text(out, member.key);
      out << YAML::Value;
      emit(out, member.value);
    }
    out << YAML::EndMap;
  }
};

void emit(YAML::Emitter& out, const Value& value) { std::visit(Emit{out}, value.data()); }

}  // namespace

Value parse_yaml(std::string_view text, std::string_view scope) {
  check_characters(text, scope);
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    TreeBuilder builder(scope);
    if (!parser.HandleNextDocument(builder)) {
      throw syntax_error(scope, {}, "is empty", "write a spec, for example rope");
    }
    parser.HandleNextDocument(builder);  // a second one is refused where it starts
    return builder.take();
  } catch (const YAML::Exception& problem) {
    throw syntax_error(scope, mark_of(problem.mark), "is not YAML", problem.msg);
  }
}

std::string to_yaml(const Value& value) {
  YAML::Emitter out;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

}  // namespace posenc

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "core/value.h"

namespace posenc {
namespace {

constexpr int kDeepest = 64;

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

template <class Number>
std::optional<Value::Data> plain_number(const std::string& text) {
  const char* begin = text.data() + (text.size() > 1 && text.front() == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  Number number{};
  const auto [stop, problem] = std::from_chars(begin, end, number);
  if (stop != end) return std::nullopt;
  if (problem == std::errc()) return Value::Data(number);
  // A number that no double holds is not finite here; whoever reads the field says so by name.
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

class Reader {
 public:
  explicit Reader(std::string_view scope) : scope_(scope) {}

  Value read(const YAML::Node& node, int depth) const {
    const Mark mark = mark_of(node.Mark());
    if (depth > kDeepest) {
      throw syntax_error(scope_, mark, fmt::format("nests deeper than {}", kDeepest), "flatten it");
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar: {
        const bool quoted = node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
        return {quoted ? Value::Data(node.Scalar()) : plain_scalar(node.Scalar()), mark};
      }
      case YAML::NodeType::Sequence:
        return {Value::Data(read_list(node, depth)), mark};
      case YAML::NodeType::Map:
        return {Value::Data(read_map(node, depth)), mark};
      default:
        return {Value::Data(), mark};
    }
  }

 private:
  Value::List read_list(const YAML::Node& node, int depth) const {
    Value::List list;
    for (const YAML::Node& item : node) list.push_back(read(item, depth + 1));
    return list;
  }

  Value::Map read_map(const YAML::Node& node, int depth) const {
    Value map = Value(Value::Data(Value::Map{}));
    for (const auto& entry : node) {
      const Mark mark = mark_of(entry.first.Mark());
      if (!entry.first.IsScalar()) {
        throw syntax_error(scope_, mark, "has a key that is not a word", "use plain keys");
      }
      const std::string& key = entry.first.Scalar();
      if (key == "<<") {
        throw syntax_error(scope_, mark, "uses a merge key '<<', which would be ignored",
                           "write the fields out");
      }
      if (map.find(key) != nullptr) {
        throw Error(ErrorKind::kConflict, {.scope = scope_,
                                           .key = key,
                                           .rule = "is given twice" + mark_text(mark),
                                           .value = "",
                                           .hint = "keep one of the two"});
      }
      map.get_if<Value::Map>()->push_back({key, read(entry.second, depth + 1)});
    }
    return std::move(*map.get_if<Value::Map>());
  }

  std::string scope_;
};

// yaml-cpp resolves an alias to the very same node, so a short text can stand for a tree of
// exponential size. Nothing here needs aliases: refuse them where they are scanned.
class RefuseAliases : public YAML::EventHandler {
 public:
  explicit RefuseAliases(std::string_view scope) : scope_(scope) {}
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw syntax_error(scope_, mark_of(mark), "uses an alias", "write the value out");
  }
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    descend(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    descend(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  void descend(const YAML::Mark& mark) {
    if (++depth_ > kDeepest) {
      throw syntax_error(scope_, mark_of(mark), fmt::format("nests deeper than {}", kDeepest),
                         "flatten it");
    }
  }
  std::string scope_;
  int depth_ = 0;
};

void emit(YAML::Emitter& out, const Value& value);

struct Emit {
  YAML::Emitter& out;
  void operator()(std::monostate) const { out << YAML::Null; }
  void operator()(bool b) const { out << b; }
  void operator()(std::int64_t i) const { out << i; }
  void operator()(double d) const { out << number_text(d); }
  void operator()(const std::string& s) const {
    // A word that would read back as a number or a truth value is quoted.
    if (!std::holds_alternative<std::string>(plain_scalar(s))) out << YAML::DoubleQuoted;
    out << s;
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
      out << YAML::Key << member.key << YAML::Value;
      emit(out, member.value);
    }
    out << YAML::EndMap;
  }
};

void emit(YAML::Emitter& out, const Value& value) { std::visit(Emit{out}, value.data()); }

}  // namespace

Value parse_yaml(std::string_view text, std::string_view scope) {
  try {
    std::istringstream events{std::string(text)};
    YAML::Parser parser(events);
    RefuseAliases handler(scope);
    if (!parser.HandleNextDocument(handler)) {
      throw syntax_error(scope, {}, "is empty", "write a spec, for example rope");
    }
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() != 1) {
      throw syntax_error(scope, {}, "must be one YAML document",
                         fmt::format("found {}", documents.size()));
    }
    return Reader(scope).read(documents.front(), 0);
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

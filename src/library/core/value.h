// The common tree for spec strings, YAML and JSON, which differ only in how they are parsed and
// printed. Maps keep their order, and every node stores its line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "posenc/core/error.h"

namespace posenc {

struct Mark {
  int line = 0;  // from 1; 0 means unknown
  int column = 0;
};

struct Member;

class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<Member>;
  using Data = std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map>;

  Value() = default;
  Value(Data data, Mark mark = {});  // NOLINT(google-explicit-constructor): data is a value
  static Value of_string(std::string text, Mark mark = {});

  [[nodiscard]] const Data& data() const { return data_; }
  [[nodiscard]] Mark mark() const { return mark_; }
  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(data_); }

  // The value as this type, or nullptr when it is another type.
  template <class T>
  [[nodiscard]] const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <class T>
  [[nodiscard]] T* get_if() {
    return std::get_if<T>(&data_);
  }

  // The member of a map, or nullptr when this is no map or has no such member.
  [[nodiscard]] const Value* find(std::string_view key) const;

  // Compares what is said, not where it stood.
  friend bool operator==(const Value& a, const Value& b);

 private:
  Data data_;
  Mark mark_;
};

struct Member {
  std::string key;
  Value value;
  Mark key_mark = {};
  friend bool operator==(const Member& a, const Member& b) {
    return a.key == b.key && a.value == b.value;
  }
};

// Here, where Member is complete: clang 14 compiles members of a class before what follows it.
inline Value::Value(Data data, Mark mark) : data_(std::move(data)), mark_(mark) {}
inline Value Value::of_string(std::string text, Mark mark) { return {Data(std::move(text)), mark}; }
inline bool operator==(const Value& a, const Value& b) { return a.data_ == b.data_; }

// "a list of 3", "'half'", "true", "7": for the "but got" of an error.
std::string describe(const Value& value);
// The shortest decimal text that reads back as the same number; "inf" and "nan" by name.
std::string number_text(double number);
// " (line 3, column 5)", or nothing when the place is unknown.
std::string mark_text(Mark mark);

// JSON (RFC 8259). Refuses duplicate keys, numbers that are not finite (naming the key) and nesting
// deeper than 64. `scope` is what errors are signed with.
Value parse_json(std::string_view text, std::string_view scope);
std::string to_json(const Value& value);

// One YAML document. Refuses duplicate keys, merge keys and aliases, which would be read in silence
// as something else than what they say.
Value parse_yaml(std::string_view text, std::string_view scope);
std::string to_yaml(const Value& value);

// Whole content of a regular file; an Error of kind kIo names the path and the reason (open_file.h).
std::string read_file(const std::string& path);

}  // namespace posenc

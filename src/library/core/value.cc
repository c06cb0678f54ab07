#include "core/value.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/float_text.h"
#include "core/open_file.h"
#include "core/plain_text.h"

namespace posenc {
namespace {

constexpr std::size_t kLongest = 60;  // bytes of a text in a message

struct Describe {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(std::int64_t i) const { return std::to_string(i); }
  std::string operator()(double d) const { return number_text(d); }
  std::string operator()(const std::string& s) const { return "'" + shortened(s, kLongest) + "'"; }
  std::string operator()(const Value::List& l) const {
    return fmt::format("a list of {}", l.size());
  }
  std::string operator()(const Value::Map& m) const {
    return m.empty() ? "an empty map"
                     : fmt::format("a map with '{}'", shortened(m.front().key, kLongest));
  }
};

}  // namespace

const Value* Value::find(std::string_view key) const {
  const Map* map = get_if<Map>();
  if (map == nullptr) return nullptr;
  for (const Member& member : *map) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string describe(const Value& value) { return std::visit(Describe{}, value.data()); }

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return shortest_text(number);
}

std::string mark_text(Mark mark) {
  return mark.line > 0 ? fmt::format(" (line {}, column {})", mark.line, mark.column) : "";
}

std::string read_file(const std::string& path) {
  const Descriptor file = open_to_read(path);
  std::array<char, 65536> piece{};
  std::string content;
  // By its end, not by its size: files of /proc have none.
  while (const std::size_t got = read_bytes(file, piece, path)) content.append(piece.data(), got);
  return content;
}

}  // namespace posenc

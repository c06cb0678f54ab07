#include "command/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command/verb_doc.h"
#include "core/plain_text.h"

namespace posenc::command {
namespace {

constexpr std::size_t kOptionColumn = 28;
constexpr std::size_t kVerbColumn = 14;

class Layout : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool /*is_positional*/) const override {
    const OptionDoc doc = option_doc(*option);
    const bool shows_value = !doc.argument && !doc.value.empty();
    return two_columns(doc.names + (shows_value ? " " + doc.value : ""), doc.doc, kOptionColumn);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return two_columns(verb->get_name(), verb->get_description(), kVerbColumn);
  }
  std::string make_description(const CLI::App* app) const override {
    if (app->get_name().empty())
      return CLI::Formatter::make_description(app);  // a group of options
    return wrapped(app->get_description(), kWidth) + "\n";
  }
};

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t used = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const std::size_t length = character_count(word);
    if (used > indent && used + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    }
    if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += length;
  }
  return out;
}

std::string two_columns(const std::string& left, std::string_view text, std::size_t column) {
  std::string line = "  " + left;
  if (text.empty()) return line + "\n";
  const std::size_t length = character_count(line);
  line += length + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - length, ' ');
  return line + wrapped(text, kWidth, column) + "\n";
}

void use_help_layout(CLI::App& app) {
  auto layout = std::make_shared<Layout>();
  layout->label("SUBCOMMAND", "VERB");
  app.formatter(layout);
  app.set_help_flag("-h,--help", "print this help");
}

}  // namespace posenc::command

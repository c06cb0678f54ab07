#include "cli/man_page.h"

#include <fmt/format.h>

#include "core/strings.h"
#include "posenc/core/version.h"

namespace posenc::cli {
namespace {

using command::OptionDoc;
using command::VerbDoc;

// Backslashes and hyphens are roff's own, and so is a dot or an apostrophe that begins a line.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string heading(const std::string& page) {
  return fmt::format(".TH {} 1 \"\" \"posenc {}\" \"posenc manual\"\n.SH NAME\n",
                     upper(escaped(page)), POSENC_VERSION_STRING);
}

std::string name_text(const OptionDoc& option) {
  std::string text;
  for (const std::string_view name : split(option.names, ',')) {
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", escaped(name));
  }
  if (!option.argument && !option.value.empty()) {
    text += fmt::format(" \\fI{}\\fR", escaped(option.value));
  }
  return text;
}

std::string options_text(const VerbDoc& verb) {
  std::string text;
  for (const OptionDoc& option : verb.options) {
    text += fmt::format(".TP\n{}\n{}\n", name_text(option), escaped(option.doc));
  }
  return text;
}

// Lines as they are: examples and notes.
std::string footer_text(const VerbDoc& verb) {
  if (verb.footer.empty()) return "";
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string_view line : split_lines(verb.footer)) {
    if (line != "Example:" && line != "Examples:") text += escaped(line) + "\n";
  }
  return text + ".fi\n";
}

void add_verbs_below(const VerbDoc& verb, const std::string& words, std::string& text) {
  for (const VerbDoc& below : verb.verbs) {
    const std::string path = words + " " + below.name;
    text += fmt::format(".SS {}\n{}.\n", escaped(path), escaped(below.summary));
    text += options_text(below);
    add_verbs_below(below, path, text);
  }
}

}  // namespace

std::string program_page(const VerbDoc& program) {
  std::string text = heading("posenc");
  text += "posenc \\- positional encodings in attention\n";
  text += ".SH SYNOPSIS\n.B posenc\n\\fIVERB\\fR [\\fIOPTIONS\\fR]\n";
  text +=
      ".SH DESCRIPTION\nposenc documents, inspects, trains and compares positional encodings of\n"
      "transformers, alone and combined.\n";
  text += ".SH VERBS\n";
  for (const VerbDoc& verb : program.verbs) {
    text += fmt::format(".TP\n\\fBposenc\\-{}\\fR(1)\n{}.\n", escaped(verb.name),
                        escaped(verb.summary));
  }
  text += ".SH OPTIONS\n" + options_text(program);
  text +=
      ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nno colours on a terminal, if set and not empty\n"
      ".TP\n.B POSENC_DATA\nfolder of the corpora that posenc\\-data(1) fetches\n";
  text +=
      ".SH EXIT STATUS\n0 on success, 2 for a mistake in the command or in a file that it names,\n"
      "75 where a time box ended before the work, 1 for any other failure.\n";
  return text + footer_text(program);
}

std::string verb_page(const VerbDoc& verb) {
  std::string text = heading("posenc-" + verb.name);
  std::string summary = verb.summary;
  if (!summary.empty() && summary[0] >= 'A' && summary[0] <= 'Z') summary[0] += 'a' - 'A';
  text += fmt::format("posenc\\-{} \\- {}\n", escaped(verb.name), escaped(summary));
  text += fmt::format(".SH SYNOPSIS\n{}\n", escaped(verb.usage));
  if (!verb.options.empty()) text += ".SH OPTIONS\n" + options_text(verb);
  if (!verb.verbs.empty()) {
    text += ".SH VERBS\n";
    add_verbs_below(verb, "posenc " + verb.name, text);
  }
  text += footer_text(verb);
  return text + ".SH SEE ALSO\n\\fBposenc\\fR(1)\n";
}

}  // namespace posenc::cli

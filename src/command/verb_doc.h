// The verbs and options of a program as data: help, man pages and completions are made from it. Programs that posenc
// starts print theirs as JSON.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/value.h"
#include "posenc/core/fields.h"

namespace posenc::command {

struct OptionDoc {
  std::string names;      // "-o,--out", or the name of an argument
  std::string value;      // "FILE"; empty for a flag
  std::string doc;        // with default and restrictions
  std::string choices;    // "exact,hf"; empty where any value goes
  bool argument = false;  // given by its place
  bool required = false;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("names", self.names, FieldRule{});
    visit("value", self.value, FieldRule{});
    visit("doc", self.doc, FieldRule{});
    visit("choices", self.choices, FieldRule{});
    visit("argument", self.argument, FieldRule{});
    visit("required", self.required, FieldRule{});
  }
};

struct VerbDoc {
  std::string name;
  std::string summary;
  std::string usage;   // "posenc list [OPTIONS] [NAME]"
  std::string footer;  // examples
  std::vector<OptionDoc> options;
  std::vector<VerbDoc> verbs;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("name", self.name, FieldRule{});
    visit("summary", self.summary, FieldRule{});
    visit("usage", self.usage, FieldRule{});
    visit("footer", self.footer, FieldRule{});
    visit("options", self.options, FieldRule{});
    visit("verbs", self.verbs, FieldRule{});
  }
};

OptionDoc option_doc(const CLI::Option& option);
// `before`: the words in front of the name: "posenc".
VerbDoc verb_doc(const CLI::App& app, const std::string& before = "");

// What `program --verbs` prints.
bool asks_for_verbs(int argc, const char* const* argv);
std::string verbs_json(const CLI::App& app);
VerbDoc parse_verbs(const std::string& json);

}  // namespace posenc::command

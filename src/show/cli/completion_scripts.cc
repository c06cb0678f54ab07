#include "cli/completion_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/program_verbs.h"
#include "core/strings.h"

namespace posenc::cli {
namespace {

using command::OptionDoc;
using command::VerbDoc;

std::vector<std::string> option_names(const OptionDoc& option) {
  std::vector<std::string> names;
  for (const std::string_view name : split(option.names, ',')) names.emplace_back(name);
  return names;
}

std::string words_text(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string choice_words(const OptionDoc& option) {
  std::string words = option.choices;
  std::replace(words.begin(), words.end(), ',', ' ');
  return words;
}

std::vector<std::string> verb_names(const VerbDoc& verb) {
  std::vector<std::string> names;
  for (const VerbDoc& below : verb.verbs) names.push_back(below.name);
  return names;
}

std::vector<std::string> flags_of(const VerbDoc& verb) {
  std::vector<std::string> flags;
  for (const OptionDoc& option : verb.options) {
    if (option.argument) continue;
    const std::vector<std::string> names = option_names(option);
    flags.insert(flags.end(), names.begin(), names.end());
  }
  return flags;
}

// Within single quotes of sh, zsh and fish; brackets and colons end a word of _arguments.
std::string quoted(const std::string& text, std::string_view also_escaped = "") {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (also_escaped.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return "'" + out + "'";
}

constexpr std::string_view kOfArguments = "[]:\\";

std::string value_of_zsh(const OptionDoc& option) {
  if (option.value.empty()) return "";
  return option.choices.empty() ? ":value:_files"
                                : fmt::format(":value:({})", choice_words(option));
}

std::string zsh_options(const VerbDoc& verb) {
  std::string text;
  for (const OptionDoc& option : verb.options) {
    if (option.argument) continue;
    for (const std::string& name : option_names(option)) {
      const std::string doc = quoted(option.doc, kOfArguments);
      text += fmt::format(" \\\n        {}'[{}]{}'", name, doc.substr(1, doc.size() - 2),
                          value_of_zsh(option));
    }
  }
  return text;
}

// The condition under which fish offers what belongs to a verb.
std::string fish_condition(const std::string& words) {
  if (words.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (const std::string_view word : split(words, ' ')) {
    condition +=
        fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ", word);
  }
  return condition;
}

std::string fish_option(const std::string& condition, const OptionDoc& option) {
  std::string line = fmt::format("complete -c posenc -n {}", quoted(condition));
  for (const std::string& name : option_names(option)) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += option.choices.empty() ? " -r" : " -x";
  if (!option.choices.empty()) line += fmt::format(" -a '{}'", choice_words(option));
  return line + " -d " + quoted(option.doc, "\\") + "\n";
}

}  // namespace

std::string bash_completion(const VerbDoc& program) {
  std::string verbs;
  std::string values;
  std::string words;
  for (const VerbPath& path : all_verbs(program)) {
    if (!path.words.empty()) verbs += fmt::format("    {}) verb=$next ;;\n", quoted(path.words));
    for (const OptionDoc& option : path.verb->options) {
      if (option.argument || option.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : option_names(option)) {
        patterns +=
            fmt::format("{}{}", patterns.empty() ? "" : "|", quoted(path.words + ":" + name));
      }
      values += fmt::format("    {}) words='{}'; value=1 ;;\n", patterns, choice_words(option));
    }
    std::vector<std::string> names = verb_names(*path.verb);
    const std::vector<std::string> choices = argument_choices(program, path.words);
    names.insert(names.end(), choices.begin(), choices.end());
    words += fmt::format("    {}) flags='{}'; words='{}' ;;\n", quoted(path.words),
                         words_text(flags_of(*path.verb)), words_text(names));
  }
  return fmt::format(R"sh(# Completion of posenc for bash; made by `posenc completion bash`.
_posenc() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
  local verb='' next flags='' words='' value='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next=${{verb:+$verb }}${{COMP_WORDS[i]}}
    case $next in
{}    esac
  done
  case "$verb:$prev" in
{}  esac
  if [[ -z $value ]]; then
    case $verb in
{}    esac
    [[ $cur == -* ]] && words=$flags
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _posenc posenc
)sh",
                     verbs, values, words);
}

std::string zsh_completion(const VerbDoc& program) {
  std::string verbs;
  std::string cases;
  for (const VerbDoc& verb : program.verbs) {
    verbs += fmt::format("    {}\n", quoted(verb.name + ":" + verb.summary));
  }
  for (const VerbPath& path : all_verbs(program)) {
    if (path.words.empty()) continue;
    std::vector<std::string> names = verb_names(*path.verb);
    const std::vector<std::string> choices = argument_choices(program, path.words);
    names.insert(names.end(), choices.begin(), choices.end());
    const std::string first = names.empty() ? "_files" : fmt::format("({})", words_text(names));
    cases += fmt::format(
        "    {})\n      _arguments{} \\\n        '1:argument:{}' '*:file:_files'\n      ;;\n",
        quoted(path.words), zsh_options(*path.verb), first);
  }
  std::string known;
  for (const VerbPath& path : all_verbs(program)) {
    if (!path.words.empty())
      known += fmt::format("{}{}", known.empty() ? "" : "|", quoted(path.words));
  }
  return fmt::format(R"sh(#compdef posenc
# Completion of posenc for zsh; made by `posenc completion zsh`.
_posenc() {{
  local -a verbs
  verbs=(
{}  )
  local verb='' next
  integer i depth=1
  for ((i = 2; i < CURRENT; i++)); do
    next=${{verb:+$verb }}${{words[i]}}
    case $next in
      {}) verb=$next; depth=$i ;;
    esac
  done
  if [[ -z $verb ]]; then
    _describe 'verb' verbs
    return
  fi
  # _arguments counts from the verb on.
  words=("${{(@)words[depth,-1]}}")
  (( CURRENT -= depth - 1 ))
  case $verb in
{}  esac
}}
_posenc "$@"
)sh",
                     verbs, known, cases);
}

std::string fish_completion(const VerbDoc& program) {
  std::string text = "# Completion of posenc for fish; made by `posenc completion fish`.\n";
  for (const VerbPath& path : all_verbs(program)) {
    const std::string condition = fish_condition(path.words);
    for (const VerbDoc& verb : path.verb->verbs) {
      text += fmt::format("complete -c posenc -n {}{} -a {} -d {}\n", quoted(condition),
                          path.words.empty() ? " -f" : "", verb.name, quoted(verb.summary, "\\"));
    }
    const std::vector<std::string> choices = argument_choices(program, path.words);
    if (!choices.empty()) {
      text += fmt::format("complete -c posenc -n {} -f -a '{}'\n", quoted(condition),
                          words_text(choices));
    }
    for (const OptionDoc& option : path.verb->options) {
      if (!option.argument) text += fish_option(condition, option);
    }
  }
  return text;
}

}  // namespace posenc::cli

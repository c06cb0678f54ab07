#include "report/details.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "posenc/core/error.h"
#include "runs/metrics.h"
#include "runs/numbers.h"
#include "runs/run_directory.h"

namespace posenc::report {
namespace {

double number_of(const Value& row, std::string_view key) {
  const Value* value = row.find(key);
  if (value == nullptr) return std::numeric_limits<double>::quiet_NaN();
  if (const auto* whole = value->get_if<std::int64_t>()) return static_cast<double>(*whole);
  const auto* real = value->get_if<double>();
  return real != nullptr ? *real : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t whole_of(const Value& row, std::string_view key) {
  const double number = number_of(row, key);
  return std::abs(number) < 1e15 ? static_cast<std::int64_t>(number) : 0;  // and where it is NaN
}

std::string word_of(const Value& row, std::string_view key, const std::string& otherwise) {
  const Value* value = row.find(key);
  const auto* word = value == nullptr ? nullptr : value->get_if<std::string>();
  return word == nullptr ? otherwise : *word;
}

void read_training(const runs::RunDirectory& directory, RunDetails& details) {
  for (const Value& row : runs::read_metrics(directory.metrics_path())) {
    const Value* kind = row.find("kind");
    const auto* name = kind == nullptr ? nullptr : kind->get_if<std::string>();
    const std::int64_t step = whole_of(row, "step");
    if (name != nullptr && *name == "train") {
      details.training.push_back({step, number_of(row, "loss"), number_of(row, "accuracy")});
    } else if (name != nullptr && *name == "eval") {
      details.checks.push_back({step, number_of(row, "value"), word_of(row, "axis", kInDomain),
                                whole_of(row, "length")});
    }
  }
}

RunDetails read_run(const std::string& path, const RunFolder& folder,
                    std::vector<std::string>& remarks) {
  RunDetails details;
  try {
    const auto directory = runs::RunDirectory::open(folder.path, runs::Access::kRead);
    details.config = directory.config();
    details.environment = directory.environment();
    read_training(directory, details);
  } catch (const Error& e) {
    remarks.push_back(
        fmt::format("{} is shown in part: {}", path, shown_message(e.what(), folder, path)));
  }
  return details;
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
}

// As a POSIX shell reads it back.
std::string shell_word(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// "2 cores"; nothing where the machine does not say.
std::string counted(const Value& environment, std::string_view key, std::string_view one) {
  const std::string word = environment_word(environment, key);
  if (word.empty()) return "";
  return fmt::format("{} {}{}", word, one, word == "1" ? "" : "s");
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::vector<std::string> given;
  for (const std::string& word : words) {
    if (!word.empty()) given.push_back(word);
  }
  return fmt::format("{}", fmt::join(given, between));
}

std::string labelled(std::string_view label, const std::string& word) {
  return word.empty() ? "" : fmt::format("{} {}", label, word);
}

std::string version_text(const Value& environment) {
  const std::string version = labelled("posenc", environment_word(environment, "posenc"));
  const std::string commit = environment_word(environment, "commit");
  return commit.empty() ? version : fmt::format("{} ({})", version, commit.substr(0, 10));
}

}  // namespace

std::string environment_word(const Value& environment, std::string_view key) {
  const Value* value = environment.find(key);
  if (value == nullptr || value->is_null()) return "";
  const auto* word = value->get_if<std::string>();
  return word != nullptr ? *word : to_json(*value);
}

std::string machine_text(const Value& environment) {
  const double bytes = number_of(environment, "memory_bytes");
  const std::string memory = bytes > 0 ? fmt::format("{:.1f} GiB", bytes / (1 << 30)) : "";
  const std::string device = environment_word(environment, "device");
  return joined(
      {joined({environment_word(environment, "cpu"), environment_word(environment, "architecture"),
               counted(environment, "cores", "core"), memory, environment_word(environment, "os")},
              ", "),
       joined({counted(environment, "threads", "thread"), labelled("on", device)}, " "),
       joined(
           {version_text(environment), labelled("libtorch", environment_word(environment, "torch")),
            environment_word(environment, "compiler")},
           ", ")},
      "; ");
}

std::string command_of(const RunDetails& run) {
  const Value* words = run.environment.find("command_line");
  const auto* list = words == nullptr ? nullptr : words->get_if<Value::List>();
  if (list == nullptr || list->empty()) return "";
  std::string command = "posenc";
  for (const Value& word : *list) {
    const auto* text = word.get_if<std::string>();
    command += " " + shell_word(text != nullptr ? *text : to_json(word));
  }
  return command;
}

Details read_details(const Comparison& comparison, std::vector<std::string>& remarks) {
  Details details;
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (std::size_t i = 0; i < entry.paths.size(); ++i) {
        details.emplace(entry.paths[i], read_run(entry.paths[i], entry.folders[i], remarks));
      }
    }
  }
  return details;
}

}  // namespace posenc::report

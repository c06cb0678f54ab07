// Config and command of every row: what it takes to get it again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "core/strings.h"
#include "report/html_parts.h"
#include "report/html_text.h"

namespace posenc::report {
namespace {

struct Line {
  std::string text;
  std::string place;  // keys above it and the line itself: alike in two configs where both are
};

// Lines of YAML with the keys that they stand below, by their indentation.
std::vector<Line> config_lines(const std::string& text) {
  std::vector<Line> lines;
  std::vector<std::pair<std::size_t, std::string>> above;
  for (const std::string_view view : split_lines(text)) {
    const std::string line(view);
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    while (!above.empty() && above.back().first >= indent) above.pop_back();
    std::string place;
    for (const auto& [column, key] : above) place += key + "\n";
    lines.push_back({line, place + line});
    above.emplace_back(indent, line.substr(0, line.find(':')));
  }
  return lines;
}

// In how many runs of a table each line stands.
class LineCount {
 public:
  LineCount(const TaskTable& table, const Details& details) {
    for (const Entry& entry : table.entries) {
      for (const std::string& path : entry.paths) add(details, path);
    }
  }
  [[nodiscard]] bool common(const Line& line) const {
    const auto found = count_.find(line.place);
    return found != count_.end() && found->second == runs_;
  }

 private:
  void add(const Details& details, const std::string& path) {
    const auto run = details.find(path);
    if (run == details.end()) return;
    ++runs_;
    std::set<std::string> places;
    for (const Line& line : config_lines(run->second.config)) places.insert(line.place);
    for (const std::string& place : places) ++count_[place];
  }

  std::map<std::string, std::size_t> count_;
  std::size_t runs_ = 0;
};

std::string config_html(const RunDetails& run, const LineCount& lines) {
  std::string out;
  for (const Line& line : config_lines(run.config)) {
    out += lines.common(line) ? escaped(line.text) + "\n"
                              : fmt::format("<mark>{}</mark>\n", escaped(line.text));
  }
  return out;
}

std::string command_html(const std::string& path, const RunDetails& run) {
  const std::string command = command_of(run);
  const std::string when = environment_word(run.environment, "started");
  return fmt::format(
      "<p class=\"run\"><code>{}</code> {}</p>\n{}", escaped(path), escaped(when),
      command.empty()
          ? "<p class=\"empty\">The run does not say how it was started.</p>\n"
          : fmt::format("<pre class=\"command\"><code>{}</code></pre>\n", escaped(command)));
}

std::string entry_html(const PageContent& page, const TaskTable& table, const Entry& entry,
                       const LineCount& lines) {
  const std::string name = series_name(table, entry);
  std::string out = fmt::format(
      "<details class=\"entry\"><summary>{}<code>{}</code> <span class=\"soft\">seeds "
      "{}</span></summary>\n",
      swatch(page.colors.of(name)), escaped(name), fmt::join(entry.seeds, ", "));
  for (const std::string& path : entry.paths) out += command_html(path, page.details.at(path));
  for (const FailedRun& run : entry.failed) {
    out += fmt::format("<p class=\"run\"><code>{}</code> {}</p>\n", escaped(run.path),
                       escaped(run.remark));
  }
  if (entry.paths.empty()) return out + "</details>\n";
  const RunDetails& first = page.details.at(entry.paths.front());
  out += fmt::format(
      "<p>Config of seed {}, every field written out; what other runs have otherwise is "
      "marked:</p>\n<pre class=\"config\"><code>{}</code></pre>\n",
      entry.seeds.front(), config_html(first, lines));
  return out + "</details>\n";
}

}  // namespace

std::string runs_section(const PageContent& page) {
  std::string out =
      "<section id=\"runs\">\n<h2>Configs and commands</h2>\n<p>Each command makes its run again; "
      "a "
      "config that is saved to a file works as well: <code>posenc train FILE --out "
      "DIR</code>.</p>\n";
  for (const TaskTable& table : page.comparison.tasks) {
    if (page.comparison.tasks.size() > 1) {
      out += fmt::format("<h3>{}</h3>\n", escaped(table.task));
    }
    const LineCount lines(table, page.details);
    for (const Entry& entry : table.entries) out += entry_html(page, table, entry, lines);
  }
  return out + "</section>\n";
}

}  // namespace posenc::report

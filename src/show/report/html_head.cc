// The head of the page: what was compared, where and when, and what came out best.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/html_parts.h"
#include "report/html_text.h"
#include "report/words.h"

namespace posenc::report {
namespace {

std::string plural(std::size_t n, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

// "2026-11-15T10:49:13Z" as people read it, to the minute.
std::string time_text(const std::string& time) {
  if (time.size() < 16 || time[10] != 'T') return time;
  return time.substr(0, 10) + " " + time.substr(11, 5);
}

std::string when(const Details& details) {
  std::set<std::string> times;
  for (const auto& [path, run] : details) {
    const std::string started = environment_word(run.environment, "started");
    if (!started.empty()) times.insert(time_text(started));
  }
  if (times.empty()) return "";
  const std::string& first = *times.begin();
  const std::string& last = *times.rbegin();
  if (first == last) return fmt::format("Started {} UTC.", first);
  const bool same_day = first.substr(0, 10) == last.substr(0, 10) && last.size() == 16;
  return fmt::format("Started {} to {} UTC.", first, same_day ? last.substr(11) : last);
}

std::string machines(const Details& details) {
  std::map<std::string, std::size_t> count;
  for (const auto& [path, run] : details) {
    const std::string machine = machine_text(run.environment);
    if (!machine.empty()) ++count[machine];
  }
  std::string items;
  for (const auto& [machine, n] : count) {
    items += fmt::format("<li>{}{}</li>\n", escaped(machine),
                         count.size() > 1 ? fmt::format(" ({})", plural(n, "run", "runs")) : "");
  }
  return items.empty() ? "" : "<ul class=\"machines\">\n" + items + "</ul>\n";
}

// --- cards ---------------------------------------------------------------------------------------

std::string card(const PageContent& page, const TaskTable& table, const BackedBest& best,
                 const std::string& what, const std::string& figure) {
  const std::string name = series_name(table, table.entries[best.entry], best.schedule);
  return fmt::format(
      "<div class=\"card\"><h3>{}</h3><p class=\"name\">{}<code>{}</code></p><p "
      "class=\"figure\">{}</p><p class=\"more\">{}</p></div>\n",
      escaped(what), swatch(page.colors.of(name)), escaped(name), escaped(figure),
      escaped(best.support));
}

std::string unit_text(Metric metric) {
  if (metric == Metric::kAccuracy) return " %";
  return metric == Metric::kError ? " % error" : " bits/byte";
}

std::string mean_figure(double mean, Metric metric) {
  return std::isfinite(mean) ? figure_text(mean, metric) + unit_text(metric) : "";
}

std::string best_card(const PageContent& page, const TaskTable& table, const BackedBest& best) {
  const Entry& entry = table.entries[best.entry];
  switch (best.merit) {
    case Merit::kInDistribution:
      return card(page, table, best, "Best in domain",
                  mean_figure(entry.cell(kInDomain, 1)->headline().mean, table.metric));
    case Merit::kBeyondTraining:
      return card(page, table, best, "Best beyond training",
                  mean_figure(*beyond_training(table, entry, best.schedule), table.metric));
    case Merit::kSpeed:
      return card(page, table, best, "Fastest training",
                  speed_text(entry.tokens_per_s) + " tokens/s");
  }
  return "";
}

std::string cards(const PageContent& page, const TaskTable& table) {
  std::string out;
  for (const BackedBest& best : table.best) out += best_card(page, table, best);
  return out.empty() ? "" : "<div class=\"cards\">\n" + out + "</div>\n";
}

std::string findings_list(const TaskTable& table) {
  if (table.findings.empty()) {
    return "<p class=\"empty\">No two encodings could be compared; the notes below the tables say "
           "why.</p>\n";
  }
  std::string items;
  for (const statistics::Finding& finding : table.findings) {
    items += fmt::format("<li>{}</li>\n", escaped(finding.text));
  }
  return "<ul class=\"findings\">\n" + items + "</ul>\n";
}

}  // namespace

std::string default_title(const Comparison& comparison) {
  std::set<std::string> encodings;
  std::vector<std::string> tasks;
  for (const TaskTable& table : comparison.tasks) {
    tasks.push_back(table.task);
    for (const Entry& entry : table.entries) encodings.insert(entry.encoding);
  }
  if (tasks.empty()) return "No finished runs";
  const std::string what = tasks.size() <= 3 ? fmt::format("{}", fmt::join(tasks, ", "))
                                             : plural(tasks.size(), "task", "tasks");
  return fmt::format("{} on {}", plural(encodings.size(), "encoding", "encodings"), what);
}

std::string headline(const PageContent& page, const std::string& title) {
  std::set<std::size_t> seeds;
  std::size_t runs = 0;
  for (const TaskTable& table : page.comparison.tasks) {
    for (const Entry& entry : table.entries) {
      seeds.insert(entry.runs());
      runs += entry.runs();
    }
  }
  std::string out =
      fmt::format("<header>\n<p class=\"brand\">posenc report</p>\n<h1>{}</h1>\n", escaped(title));
  std::string each;
  if (!seeds.empty()) {
    each = *seeds.begin() == *seeds.rbegin()
               ? fmt::format(", {} each", plural(*seeds.begin(), "seed", "seeds"))
               : fmt::format(", {} to {} seeds each", *seeds.begin(), *seeds.rbegin());
  }
  out += fmt::format("<p class=\"lead\">{}{}. {}</p>\n", plural(runs, "run", "runs"), each,
                     escaped(when(page.details)));
  return out + machines(page.details) + "</header>\n";
}

std::string summary_section(const PageContent& page) {
  std::string out = "<section id=\"summary\">\n<h2>Findings</h2>\n";
  for (const TaskTable& table : page.comparison.tasks) {
    if (page.comparison.tasks.size() > 1) {
      out += fmt::format("<h3 class=\"of\">{}</h3>\n", escaped(table.task));
    }
    out += findings_list(table) + cards(page, table);
  }
  return out + "</section>\n";
}

}  // namespace posenc::report

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

struct Best {
  const Entry* entry = nullptr;
  double value = 0.0;
};

template <class Of>
Best best_of(const TaskTable& table, bool higher, const Of& of) {
  Best best;
  for (const Entry& entry : table.entries) {
    const std::optional<double> value = of(entry);
    if (!value || !std::isfinite(*value)) continue;
    if (best.entry == nullptr || (higher ? *value > best.value : *value < best.value)) {
      best = {&entry, *value};
    }
  }
  return best;
}

std::string card(const PageContent& page, const TaskTable& table, const std::string& what,
                 const Best& best, const std::string& figure, const std::string& more) {
  if (best.entry == nullptr) return "";
  const std::string name = series_name(table, *best.entry);
  return fmt::format(
      "<div class=\"card\"><h3>{}</h3><p class=\"name\">{}<code>{}</code></p><p "
      "class=\"figure\">{}</p><p class=\"more\">{}</p></div>\n",
      escaped(what), swatch(page.colors.of(name)), escaped(name), escaped(figure), escaped(more));
}

std::string unit_text(const std::string& metric) {
  if (metric == "accuracy") return " %";
  return metric == "error" ? " error" : " bits/byte";
}

// Intervals that reach the best one's: these data do not tell them apart.
std::string overlap_text(const TaskTable& table, const Best& best) {
  const runs::Interval& own = best.entry->cell(kInDomain, 1)->estimate.interval;
  std::size_t others = 0;
  for (const Entry& entry : table.entries) {
    const Cell* cell = entry.cell(kInDomain, 1);
    if (cell == nullptr || &entry == best.entry) continue;
    const runs::Interval& i = cell->estimate.interval;
    if (i.low <= own.high && i.high >= own.low) ++others;
  }
  if (others == 0) return "no other interval reaches it";
  return fmt::format("{} of {} other intervals overlap with it", others, table.entries.size() - 1);
}

std::string in_domain_card(const PageContent& page, const TaskTable& table) {
  const Best best = best_of(
      table, runs::higher_is_better(table.metric), [](const Entry& entry) -> std::optional<double> {
        const Cell* cell = entry.cell(kInDomain, 1);
        return cell == nullptr ? std::nullopt : std::optional(cell->estimate.value);
      });
  if (best.entry == nullptr) return "";
  const runs::Interval& i = best.entry->cell(kInDomain, 1)->estimate.interval;
  return card(page, table, "Best in domain", best,
              figure_text(best.value, table.metric) + unit_text(table.metric),
              fmt::format("[{}, {}]; {}", figure_text(i.low, table.metric),
                          figure_text(i.high, table.metric), overlap_text(table, best)));
}

std::string beyond_card(const PageContent& page, const TaskTable& table) {
  const Best best = best_of(table, runs::higher_is_better(table.metric),
                            [&](const Entry& entry) { return beyond_training(table, entry); });
  if (best.entry == nullptr) return "";
  return card(page, table, "Best beyond training", best,
              figure_text(best.value, table.metric) + unit_text(table.metric),
              "mean over axes and longer lengths");
}

std::string speed_card(const PageContent& page, const TaskTable& table) {
  const auto speed = [](const Entry& entry) -> std::optional<double> {
    return entry.tokens_per_s > 0 ? std::optional(entry.tokens_per_s) : std::nullopt;
  };
  const Best best = best_of(table, true, speed);
  if (best.entry == nullptr) return "";
  const Best slowest = best_of(table, false, speed);
  return card(page, table, "Fastest training", best, speed_text(best.value) + " tokens/s",
              fmt::format("slowest: {}, {} tokens/s", series_name(table, *slowest.entry),
                          speed_text(slowest.value)));
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
  for (const TaskTable& table : page.comparison.tasks) {
    for (const Entry& entry : table.entries) seeds.insert(entry.seeds.size());
  }
  std::string out =
      fmt::format("<header>\n<p class=\"brand\">posenc report</p>\n<h1>{}</h1>\n", escaped(title));
  const std::size_t runs = page.details.size();
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
  std::string out = "<section id=\"summary\">\n<h2>Summary</h2>\n";
  for (const TaskTable& table : page.comparison.tasks) {
    if (page.comparison.tasks.size() > 1) {
      out += fmt::format("<h3 class=\"of\">{}</h3>\n", escaped(table.task));
    }
    out += "<div class=\"cards\">\n" + in_domain_card(page, table) + beyond_card(page, table) +
           speed_card(page, table) + "</div>\n";
  }
  return out + "</section>\n";
}

}  // namespace posenc::report

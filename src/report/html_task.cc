// Sections of the page: tasks, rankings, attention, remarks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "draw/svg.h"
#include "report/html_parts.h"
#include "report/html_tables.h"
#include "report/html_text.h"
#include "report/words.h"

namespace posenc::report {
namespace {

std::string chart(const std::optional<draw::Figure>& figure, const std::string& id,
                  const std::string& heading, const std::string& caption) {
  if (!figure) return "";
  return fmt::format(
      "<h3 id=\"{0}\">{1}</h3>\n<figure class=\"chart\" data-chart=\"{0}\">\n{2}<figcaption>{3}"
      "</figcaption></figure>\n",
      id, heading, draw::to_svg(*figure, {.embedded = true}), escaped(caption));
}

std::string notes_of(const TaskTable& table) {
  std::vector<std::string> notes = table.notes;
  if (table.metric != "bits_per_byte") notes.push_back(effective_note(table));
  if (!table.axes.empty()) {
    notes.emplace_back(
        "beyond training: the mean over the axes and their lengths past the training length");
  }
  std::string items;
  for (const std::string& note : notes) items += fmt::format("<li>{}</li>\n", escaped(note));
  return "<ul class=\"notes\">\n" + items + "</ul>\n";
}

bool one_machine(const TaskTable& table) {
  return std::all_of(table.entries.begin(), table.entries.end(), [&](const Entry& entry) {
    return entry.machine == table.entries.front().machine;
  });
}

std::string cost_caption(const TaskTable& table) {
  return fmt::format(
      "{} is better, and so is right for speed and left for memory. Upright lines are 95 % "
      "intervals, "
      "which may leave the panel.",
      runs::higher_is_better(table.metric) ? "Up" : "Down");
}

std::string machine_warning(const TaskTable& table) {
  if (one_machine(table)) return "";
  return "<p class=\"warning\">These runs are of different machines: their speeds do not "
         "compare.</p>\n";
}

}  // namespace

std::string swatch(int color) {
  const char* second = color >= draw::kPaletteSize ? " pe-second" : "";
  return fmt::format(
      "<svg class=\"swatch\" width=\"18\" height=\"8\" aria-hidden=\"true\"><line x1=\"1\" "
      "y1=\"4\" "
      "x2=\"17\" y2=\"4\" class=\"pe-line pe-s{}{}\"/></svg>",
      color % draw::kPaletteSize, second);
}

std::string task_section(const PageContent& page, std::size_t task) {
  const TaskTable& table = page.comparison.tasks[task];
  const std::string id = fmt::format("task-{}", task);
  std::string out = fmt::format(
      "<section id=\"{}\">\n<h2>{}</h2>\n<p>Trained at length {}; {} entries.</p>\n", id,
      escaped(table.task), fmt::join(table.train_lengths, ", "), table.entries.size());
  out += fmt::format("<h3 id=\"{}-table\">Comparison</h3>\n", id);
  out += overview_table(table, page.colors, id + "-overview");
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    out += axis_table(table, table.axes[a], page.colors, fmt::format("{}-axis-{}", id, a));
  }
  out += notes_of(table);
  out += chart(length_figure(table, page.colors), id + "-length", "Quality against length",
               "Bands are 95 % intervals over seeds and samples. Click a name to hide it in all "
               "charts; hover to see one alone.");
  out +=
      chart(training_figure(table, page.details, page.colors), id + "-training", "Training curves",
            "Lines are means over seeds; bands reach from the lowest to the highest seed, and "
            "where many steps share a point, from the lowest to the highest step.");
  out += chart(cost_figure(table, page.colors), id + "-cost", "Cost against quality",
               cost_caption(table));
  return out + machine_warning(table) + "</section>\n";
}

std::string rankings_section(const Comparison& comparison) {
  if (comparison.rankings.empty()) return "";
  std::string out =
      "<section id=\"rankings\">\n<h2>Rankings</h2>\n<p>Mean reciprocal rank over tasks: 1 for an "
      "encoding that is the best everywhere.</p>\n";
  for (std::size_t i = 0; i < comparison.rankings.size(); ++i) {
    out += ranking_table(comparison.rankings[i], fmt::format("ranking-{}", i));
  }
  return out + "</section>\n";
}

std::string attention_section(const PageMaps& maps, const Comparison& comparison) {
  std::string out = "<section id=\"attention\">\n<h2>Attention</h2>\n";
  if (maps.records == 0) {
    const bool any = !comparison.tasks.empty() && !comparison.tasks[0].entries.empty();
    const std::string run = any ? comparison.tasks[0].entries[0].paths[0] : "RUN";
    return out + fmt::format(
                     "<p class=\"empty\">These runs have no attention records. This makes one, and "
                     "the next report shows it:</p>\n<pre class=\"command\"><code>posenc attention "
                     "{} --sample 0</code></pre>\n</section>\n",
                     escaped(run));
  }
  out += fmt::format(
      "<p>What trained models look at in one example: rows are queries, columns keys. One seed of "
      "each encoding is shown. Values are kept in 8 bits{}.</p>\n",
      maps.cells < maps.tokens
          ? fmt::format(", and maps of {} tokens are pooled to {} cells a side by their greatest "
                        "values; differences are of pooled maps",
                        maps.tokens, maps.cells)
          : "");
  return out +
         "<div id=\"attention-view\"><noscript><p>The maps need JavaScript, which this browser "
         "does "
         "not run.</p></noscript></div>\n</section>\n";
}

std::string remarks_section(const std::vector<std::string>& remarks) {
  std::string out = "<section id=\"remarks\">\n<h2>Remarks</h2>\n";
  if (remarks.empty())
    return out + "<p>Every run that was found is in the tables.</p>\n</section>\n";
  out += "<ul class=\"remarks\">\n";
  for (const std::string& remark : remarks) out += fmt::format("<li>{}</li>\n", escaped(remark));
  return out + "</ul>\n</section>\n";
}

}  // namespace posenc::report

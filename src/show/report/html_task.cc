// Sections of the page: tasks, attention, remarks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "draw/svg_panel.h"
#include "report/html_parts.h"
#include "report/html_tables.h"
#include "report/html_text.h"
#include "report/opening.h"
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
  if (!table.axes.empty()) {
    notes.push_back(regions_note());
    notes.emplace_back("beyond training: the mean over the conditions beyond training");
    for (const ExtraColumn& extra : kExtraColumns) notes.emplace_back(extra.note);
  }
  if (any_failed(table)) notes.push_back(failure_note(table.metric));
  if (traits_of(table.metric).share) notes.push_back(effective_note(table));
  std::string items;
  for (const std::string& note : notes) items += fmt::format("<li>{}</li>\n", escaped(note));
  return "<ul class=\"notes\">\n" + items + "</ul>\n";
}

std::string question_text(const TaskTable& table, const Question& question) {
  std::string out = fmt::format("<p>The question, <em>{}</em>: {}.</p>\n", escaped(table.task),
                                escaped(question.text));
  if (!question.row.empty()) {
    out += fmt::format(
        "<pre class=\"row\" tabindex=\"0\">{}</pre>\n<p class=\"under\">A row that models learn "
        "from; below it what they must say there.</p>\n",
        escaped(question.row));
  }
  std::string items;
  for (const tasks::Axis& axis : question.axes) {
    const auto& shown = table.axes;
    if (std::find(shown.begin(), shown.end(), axis.name) == shown.end()) continue;
    items +=
        fmt::format("<li><strong>{}</strong>: {}</li>\n", escaped(axis.name), escaped(axis.doc));
  }
  if (items.empty()) return out;
  return out +
         "<p>Each axis is another way to draw the rows of a test:</p>\n<ul class=\"axes\">\n" +
         items + "</ul>\n";
}

bool one_machine(const TaskTable& table) {
  std::set<std::string> machines;
  for (const Entry& entry : table.entries) {
    if (!entry.seeds.empty()) machines.insert(entry.machine);
  }
  return machines.size() < 2 && !machines.contains(kSeveralMachines);
}

// The first run that is a directory: commands cannot open runs of packs.
std::optional<std::string> first_directory(const Comparison& comparison) {
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (std::size_t i = 0; i < entry.paths.size(); ++i) {
        if (entry.folders[i].pack == nullptr) return entry.paths[i];
      }
    }
  }
  return std::nullopt;
}

std::string no_records(const Comparison& comparison) {
  if (const auto run = first_directory(comparison)) {
    return fmt::format(
        "<p class=\"empty\">These runs have no attention records. This makes one, and the next "
        "report shows it:</p>\n<pre class=\"command\"><code>posenc attention {} --sample "
        "0</code></pre>\n",
        escaped(*run));
  }
  return "<p class=\"empty\">These runs have no attention records. <code>posenc attention</code> "
         "makes them from run directories: unpack a pack that has weights with <code>posenc runs "
         "unpack</code> first.</p>\n";
}

std::string cost_caption(const TaskTable& table) {
  return fmt::format(
      "{} is better, and so is right for speed and left for memory. Upright lines are 95 % "
      "intervals, "
      "which may leave the panel.",
      traits_of(table.metric).higher_better ? "Up" : "Down");
}

std::string machine_warning(const TaskTable& table) {
  if (!table.sharing.empty()) {
    return "<p class=\"warning\">These runs shared a machine with others: their speeds do not "
           "compare.</p>\n";
  }
  if (one_machine(table)) return "";
  return "<p class=\"warning\">These runs are of different machines: their speeds do not "
         "compare.</p>\n";
}

}  // namespace

std::string swatch(int color) {
  return fmt::format(
      "<svg class=\"swatch\" width=\"26\" height=\"8\" aria-hidden=\"true\"><line x1=\"1\" "
      "y1=\"4\" x2=\"25\" y2=\"4\" class=\"{}\"/></svg>",
      draw::stroke_class(color, draw::Stroke::kSolid));
}

std::string opening_section(const PageContent& page) {
  std::string out;
  for (const TaskTable& table : page.comparison.tasks) {
    const std::string outcome = outcome_text(table);
    if (outcome.empty()) continue;
    if (const auto question = question_of(table, page.details)) {
      out += question_text(table, *question);
    }
    out += fmt::format("<p class=\"outcome\">{}</p>\n", escaped(outcome));
    if (const auto figure = outcome_figure(table, page.colors)) {
      out += fmt::format(
          "<figure class=\"chart\">\n{}<figcaption>A dot is a model that finished training; those "
          "of one "
          "encoding differ in their seed. {} is better.</figcaption></figure>\n",
          draw::to_svg(*figure, {.embedded = true}),
          traits_of(table.metric).share ? "Higher" : "Lower");
    }
  }
  if (out.empty()) return "";
  return "<section id=\"opening\">\n<h2>In short</h2>\n" + out + "</section>\n";
}

std::string task_section(const PageContent& page, std::size_t task) {
  const TaskTable& table = page.comparison.tasks[task];
  const std::string id = fmt::format("task-{}", task);
  std::string out = fmt::format(
      "<section id=\"{}\">\n<h2>{}</h2>\n<p>Trained at length {}; {} entries.</p>\n", id,
      escaped(table.task), fmt::join(table.train_lengths, ", "), table.entries.size());
  out += fmt::format("<h3 id=\"{}-table\">Comparison</h3>\n", id);
  out += overview_table(table, page.colors, overview_id(task));
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    out += axis_table(table, table.axes[a], page.colors, axis_id(task, a));
  }
  out += notes_of(table);
  out += chart(length_figure(table, page.colors), id + "-length", "Quality against length",
               "Lengths beyond the trained one are scored on the positions beyond it. Bands are "
               "95 % intervals over seeds and rows; with fewer than three seeds dots are the "
               "seeds. Click a name to hide it in all charts; hover to see one alone.");
  out += chart(position_figure(table, page.colors), id + "-position", "Quality by position",
               "Means over the runs that finished, for each stretch of positions. The upright line "
               "is the trained length; chance is computed on the same positions.");
  out += chart(depth_figure(table), id + "-depth", "Length and depth",
               "Rows that are right as a whole, by where they hide what is asked for: 0 is the "
               "start of the row. Means over the runs that finished.");
  out +=
      chart(training_figure(table, page.details, page.colors), id + "-training", "Training curves",
            "Lines are means over the runs that finished; bands reach from the lowest to the "
            "highest seed, and "
            "where many steps share a point, from the lowest to the highest step.");
  out += chart(cost_figure(table, page.colors), id + "-cost", "Cost against quality",
               cost_caption(table));
  return out + machine_warning(table) + "</section>\n";
}

std::string attention_section(const PageMaps& maps, const Comparison& comparison) {
  std::string out = "<section id=\"attention\">\n<h2>Attention</h2>\n";
  if (maps.records == 0) return out + no_records(comparison) + "</section>\n";
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

#include "report/html.h"

#include <fmt/format.h>

#include "draw/svg.h"
#include "report/html_parts.h"
#include "report/html_tables.h"
#include "report/html_text.h"
#include "report/latex.h"

namespace posenc::report {
namespace {

PageContent gather(const ReportInput& input) {
  Comparison comparison = compare(input.runs, input.compare);
  std::vector<std::string> remarks = comparison.left_out;
  Details details = read_details(comparison, remarks);
  PageMaps maps = page_maps(comparison);
  remarks.insert(remarks.end(), maps.remarks.begin(), maps.remarks.end());
  SeriesColors colors(comparison);
  return {std::move(comparison), std::move(colors), std::move(details), std::move(maps),
          std::move(remarks)};
}

std::string data_block(const std::string& id, const Value& value) {
  return fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id,
                     script_json(value));
}

// The tables of the page as LaTeX, by their ids.
Value latex_value(const Comparison& comparison) {
  Value::Map tables;
  const auto add = [&](const std::string& id, const TextTable& table) {
    tables.push_back({id, Value::of_string(latex_table(table))});
  };
  for (std::size_t t = 0; t < comparison.tasks.size(); ++t) {
    const std::vector<TextTable> of_task = document_tables(comparison.tasks[t]);
    add(overview_id(t), of_task.front());
    for (std::size_t a = 0; a + 1 < of_task.size(); ++a) add(axis_id(t, a), of_task[a + 1]);
  }
  return Value(std::move(tables));
}

// Headings that the page has: a task without metrics has no training curves.
std::string contents(const PageContent& page, const std::string& sections) {
  std::vector<Heading> headings = {{"opening", "In short"}, {"summary", "Findings"}};
  for (std::size_t t = 0; t < page.comparison.tasks.size(); ++t) {
    const std::string id = fmt::format("task-{}", t);
    headings.insert(headings.end(), {{id, page.comparison.tasks[t].task},
                                     {id + "-table", "Comparison", true},
                                     {id + "-length", "Length", true},
                                     {id + "-position", "Position", true},
                                     {id + "-depth", "Depth", true},
                                     {id + "-training", "Training", true},
                                     {id + "-cost", "Cost", true}});
  }
  headings.insert(
      headings.end(),
      {{"attention", "Attention"}, {"runs", "Configs and commands"}, {"remarks", "Remarks"}});
  std::string items;
  for (const Heading& h : headings) {
    if (sections.find(fmt::format("id=\"{}\"", h.id)) == std::string::npos) continue;
    items += fmt::format("<li{}><a href=\"#{}\">{}</a></li>\n", h.inner ? " class=\"inner\"" : "",
                         h.id, escaped(h.text));
  }
  return "<nav aria-label=\"contents\">\n<ol>\n" + items + "</ol>\n</nav>\n";
}

std::string body(const PageContent& page, const ReportInput& input, const std::string& title) {
  std::string sections = opening_section(page) + summary_section(page);
  for (std::size_t t = 0; t < page.comparison.tasks.size(); ++t) sections += task_section(page, t);
  sections += attention_section(page.maps, page.comparison) + runs_section(page) +
              remarks_section(page.remarks);
  std::string out = "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n" +
                    headline(page, title) + contents(page, sections) +
                    "<main id=\"main\" tabindex=\"-1\">\n" + sections + "</main>\n";
  if (!input.command.empty()) {
    out += fmt::format("<footer><p>Made from run directories alone: <code>{}</code></p></footer>\n",
                       escaped(input.command));
  }
  return out;
}

std::string head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data:; script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" "
      "content=\"posenc report\">\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n",
      script_hash(page_script()), escaped(title), draw::svg_style(draw::Look::kAuto), page_style());
}

}  // namespace

std::string html_report(const ReportInput& input) {
  const PageContent page = gather(input);
  const std::string title = input.title.empty() ? default_title(page.comparison) : input.title;
  std::string out = head(title) + "<body>\n" + body(page, input, title);
  out += data_block("comparison-data", to_value(page.comparison));
  out += data_block("color-data", page_colors());
  out += data_block("latex-data", latex_value(page.comparison));
  out += data_block("attention-data", page.maps.data);
  return out + fmt::format("<script>{}</script>\n</body>\n</html>\n", page_script());
}

}  // namespace posenc::report

// Parts of the page, each a piece of HTML.
#pragma once

#include <string>
#include <vector>

#include "report/charts.h"
#include "report/page_maps.h"

namespace posenc::report {

struct PageContent {
  Comparison comparison;
  SeriesColors colors;
  Details details;
  PageMaps maps;
  std::vector<std::string> remarks;  // of the comparison, and of what could not be shown
};

// A line of a table of contents.
struct Heading {
  std::string id;
  std::string text;
  bool inner = false;
};

// What was compared, on which machines, when.
std::string headline(const PageContent& page, const std::string& title);
std::string default_title(const Comparison& comparison);
// What was asked and what came out, in a few words and a picture.
std::string opening_section(const PageContent& page);
// What tests found, in sentences, and in cards what they put ahead of everything else.
std::string summary_section(const PageContent& page);
// Tables and charts of one task.
std::string task_section(const PageContent& page, std::size_t task);
std::string attention_section(const PageMaps& maps, const Comparison& comparison);
// Config and command of every row.
std::string runs_section(const PageContent& page);
std::string remarks_section(const std::vector<std::string>& remarks);

// A short line in the colour of a series.
std::string swatch(int color);

// Generated from web/ (cmake/PosencEmbed.cmake).
std::string_view page_script();
std::string_view page_style();

}  // namespace posenc::report

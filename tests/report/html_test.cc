// The page as a whole: what is in it, and what cannot get into it.
#include "report/html.h"

#include <gtest/gtest.h>

#include <regex>

#include "report/html_parts.h"
#include "report/html_text.h"
#include "report/page_case.h"
#include "report/tables.h"
#include "runs/metrics.h"
#include "runs/numbers.h"

namespace posenc::report {
namespace {

using nlohmann::json;
using testing::count_of;
using testing::data_block;
using testing::page_of;
using testing::TemporaryFolder;
using testing::write_run;

std::vector<testing::CaseRow> rows(double value) {
  return {{"train", 1, value, value - 0.01, value + 0.005},
          {"longer", 1, value, value - 0.02, value},
          {"longer", 2, value / 2, 0.2, 0.6},
          {"longer", 4, value / 4, 0.1, 0.3}};
}

void write_runs(const TemporaryFolder& folder) {
  for (const int seed : {0, 1, 2}) {
    write_run(folder / fmt::format("none-{}", seed),
              {.encoding = "none", .seed = seed, .rows = rows(0.81 + 0.01 * seed)});
    write_run(folder / fmt::format("rope-{}", seed),
              {.encoding = "rope", .seed = seed, .rows = rows(0.973 + 0.011 * seed)});
  }
}

TEST(HtmlReport, HasItsSectionsAndOnlyItsOwnScript) {
  const TemporaryFolder folder;
  write_runs(folder);
  const std::string page = page_of(folder.path());
  for (const char* id : {"summary", "task-0", "task-0-table", "task-0-overview", "task-0-axis-0",
                         "task-0-length", "task-0-cost", "attention", "runs", "remarks"}) {
    EXPECT_EQ(count_of(page, fmt::format("id=\"{}\"", id)), 1U) << id;
  }
  EXPECT_NE(page.find("<h1>2 encodings on selective_counting</h1>"), std::string::npos);
  EXPECT_NE(page.find("6 runs, 3 seeds each"), std::string::npos);
  EXPECT_EQ(count_of(page, "<script"), 5U) << "four blocks of data and the script";
  EXPECT_NE(page.find("script-src '" + script_hash(page_script()) + "'"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find(fmt::format("<script>{}</script>", page_script())), std::string::npos);
}

TEST(HtmlReport, AsksForNothing) {
  const TemporaryFolder folder;
  write_runs(folder);
  const std::string page = page_of(folder.path());
  const std::regex link(R"re((?:src|href|action|data)="([^"]*)")re");
  for (std::sregex_iterator i(page.begin(), page.end(), link), end; i != end; ++i) {
    const std::string target = (*i)[1];
    EXPECT_TRUE(target.rfind("#", 0) == 0 || target.rfind("data:", 0) == 0) << target;
  }
  EXPECT_EQ(page.find("@import"), std::string::npos);
  EXPECT_EQ(page.find("fetch("), std::string::npos);
  const std::string name = "http://www.w3.org/2000/svg";  // a name, which nothing fetches
  EXPECT_EQ(count_of(page, "http://"), count_of(page, name));
  EXPECT_EQ(count_of(page, "https://"), 0U);
}

TEST(HtmlReport, EveryContentsLinkHasItsTarget) {
  const TemporaryFolder folder;
  write_runs(folder);  // without metrics: the page has no training curves
  const std::string page = page_of(folder.path());
  const std::regex link("href=\"#([^\"]*)\"");
  std::size_t links = 0;
  for (std::sregex_iterator i(page.begin(), page.end(), link), end; i != end; ++i, ++links) {
    EXPECT_EQ(count_of(page, fmt::format("id=\"{}\"", (*i)[1].str())), 1U) << (*i)[1];
  }
  EXPECT_GE(links, 6U);
}

TEST(HtmlReport, IsTheSameBytesTwice) {
  const TemporaryFolder folder;
  write_runs(folder);
  EXPECT_EQ(page_of(folder.path()), page_of(folder.path()));
}

TEST(HtmlReport, HasTheFiguresOfTheComparison) {
  const TemporaryFolder folder;
  write_runs(folder);
  const std::string page = page_of(folder.path());
  const Comparison comparison = compare(find_runs({folder.path()}));
  EXPECT_EQ(data_block(page, "comparison-data"),
            json::parse(to_json(runs::without_non_finite(to_value(comparison)))));
  std::size_t cells = 0;
  for (const Entry& entry : comparison.tasks[0].entries) {
    for (const Cell& cell : entry.cells) {
      const RegionFigure& figure = cell.headline();
      const std::string td = fmt::format(
          "data-value=\"{}\" data-low=\"{}\" data-high=\"{}\"", number_text(figure.mean),
          number_text(figure.interval->low), number_text(figure.interval->high));
      EXPECT_NE(page.find(td), std::string::npos) << td;
      ++cells;
    }
  }
  EXPECT_EQ(cells, 8U);
  EXPECT_NE(page.find("98.4 <span class=\"ci\">["), std::string::npos);
  EXPECT_NE(page.find("<span class=\"points\">97.3 98.4 99.5</span>"), std::string::npos);
}

TEST(HtmlReport, WhatFilesSayStaysText) {
  const TemporaryFolder folder;
  write_runs(folder);
  // Written into JSON and into YAML, both of which read \" as a quote.
  write_run(folder / "evil", {.encoding = R"(</script><script>alert(\"x\")</script>' onload=\"y\")",
                              .cpu = "<b>cpu</b>",
                              .rows = rows(0.5)});
  write_run(folder / "<img src=x onerror=z>", {.encoding = "t5"}, runs::RunState::kFailed,
            "<script>alert('m')</script>");
  const std::string page = page_of(folder.path(), "<i>title</i> & \"more\"");
  EXPECT_EQ(count_of(page, "<script"), 5U);
  EXPECT_EQ(count_of(page, "</script"), 5U);
  for (const char* tag : {"<img", "<i>title", "<b>cpu", "onload=\"y\""}) {
    EXPECT_EQ(page.find(tag), std::string::npos) << tag;
  }
  EXPECT_NE(page.find("&lt;i&gt;title&lt;/i&gt; &amp; &quot;more&quot;"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;m&#39;)"), std::string::npos) << "the remark";
  const json data = data_block(page, "comparison-data");
  EXPECT_EQ(data["tasks"][0]["entries"][1]["encoding"],
            "</script><script>alert(\"x\")</script>' onload=\"y\"")
      << "and is the same text for the script";
}

TEST(HtmlReport, UnfinishedRunsAreRemarks) {
  const TemporaryFolder folder;
  write_runs(folder);
  write_run(folder / "half", {.encoding = "alibi"}, runs::RunState::kStopped);
  const std::string page = page_of(folder.path());
  EXPECT_NE(page.find("half stopped at step 100</li>"), std::string::npos);
  const TemporaryFolder none;
  write_run(none / "half", {.encoding = "alibi"}, runs::RunState::kStopped);
  EXPECT_NE(page_of(none.path()).find("<h1>No finished runs</h1>"), std::string::npos);
}

TEST(HtmlReport, MarksWhatConfigsDoNotShare) {
  const TemporaryFolder folder;
  write_runs(folder);
  const std::string page = page_of(folder.path());
  EXPECT_NE(page.find("<mark>seed: 0</mark>"), std::string::npos);
  EXPECT_EQ(page.find("<mark>task: "), std::string::npos);
  EXPECT_NE(page.find("\ntask: selective_counting\n"), std::string::npos);
}

TEST(HtmlReport, SaysHowAttentionIsMade) {
  const TemporaryFolder folder;
  write_runs(folder);
  EXPECT_NE(page_of(folder.path()).find("posenc attention " + folder / "none-0 --sample 0"),
            std::string::npos);
}

TEST(HtmlText, EscapesAndRepairs) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escaped("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped("\xFFz"), bad + "z");
  EXPECT_EQ(escaped("\xC0\xAF"), bad + bad) << "overlong";
  EXPECT_EQ(escaped("\xED\xA0\x80"), bad + bad + bad) << "half of a surrogate pair";
  EXPECT_EQ(escaped("\xE2\x82"), bad + bad) << "cut off";
  EXPECT_EQ(escaped(std::string("\0\x1b", 2)), bad + bad);
  EXPECT_EQ(script_json(Value::of_string("</script>&")), "\"\\u003c/script\\u003e\\u0026\"");
  // The hash of an empty script, as openssl prints it.
  EXPECT_EQ(script_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

}  // namespace
}  // namespace posenc::report

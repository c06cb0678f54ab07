// What an evidence page shows of one part: its runs compared, next to the published tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/compare.h"
#include "report/tables.h"
#include "runs/published.h"

namespace posenc::report {

struct EvidencePart {
  std::string page;
  std::string part;
  std::size_t jobs = 0;   // of its sweep
  std::vector<Run> runs;  // none: nothing is committed yet
  Comparison comparison;  // of the runs
  std::vector<runs::PublishedTable> published;
};

// --- tables (evidence_table.cc) -----------------------------------------------------------------

// A column of a results table, and a group of points in its picture.
struct TableCondition {
  std::string axis;
  double factor = 1.0;
  std::int64_t length = 0;  // 0 where variants were trained at different lengths
  bool beyond_training = false;
};
// In domain, then what is beyond training: by axis, then by length. Bits per byte also have the trained
// length of an axis, which scores the same bytes as its longer ones.
std::vector<TableCondition> conditions_of(const TaskTable& table);
// "in domain", "sparse (512)", "longer 2x (96)".
std::string condition_name(const TableCondition& condition);

// "model.layers=2, train.length=64": what sets the variant apart; empty where there is only one.
std::string variant_words(const Variant& variant);
// The row of an entry: "rope, model.layers=2", "rope, yarn".
std::string row_name(const TaskTable& table, const Entry& entry, const std::string& schedule = "");

// "98.2 [97.1, 99.0]" where there is an interval, else the points.
std::string evidence_text(const Cell* cell, Metric metric);

TextTable results_table(const TaskTable& table);

// The cell over single answers in place of whole rows: its points, without an interval.
Cell single_answers(const Cell& cell);
// Where the metric is of whole rows: the same table over single answers, seed by seed.
std::optional<TextTable> single_answers_table(const TaskTable& table);

// --- published tables (evidence_published.cc) -----------------------------------------------------

// One table for each published one of the part.
std::vector<TextTable> published_tables(const EvidencePart& part);
// Rows that no job or more than one variant answers to, and tables whose `where` fits no job, a line each.
// `jobs`: the training fields of each job.
std::vector<std::string> published_problems(const EvidencePart& part,
                                            const std::vector<std::string>& encodings,
                                            const std::vector<FlatConfig>& jobs);

// --- the blocks of a page (evidence_blocks.cc) ----------------------------------------------------

// The Markdown between the markers, with a line break at its end.
std::string results_block(const EvidencePart& part);
std::string picture_block(const EvidencePart& part);

// --- the picture (evidence_picture.cc) ----------------------------------------------------------

// The metric in every condition: a line through the means of each encoding, and a point for every seed.
std::optional<draw::Figure> evidence_figure(const EvidencePart& part);

}  // namespace posenc::report

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/plain_text.h"
#include "report/evidence.h"
#include "report/words.h"

namespace posenc::report {
namespace {

constexpr const char* kHowToRead =
    "A cell is `mean [low, high]`, a 95 % interval over seeds and rows; with fewer than three "
    "seeds it "
    "lists the seeds. Rows longer than the trained length are scored on the positions beyond it. "
    "`worst "
    "seed` is taken at the farthest condition whose figure is clearly better than chance.";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Findings name variants by letters; a page names what sets them apart. Runs of a sweep share their
// machine, so their speeds say nothing.
std::string findings_text(const TaskTable& table) {
  std::string text;
  for (const statistics::Finding& finding : table.findings) {
    if (finding.place.starts_with("in training speed")) continue;
    std::string sentence = one_line(finding.text);
    for (const Variant& variant : table.variants) {
      if (variant.name.empty()) continue;
      replace_all(sentence, fmt::format("(variant {})", variant.name),
                  fmt::format("({})", variant_words(variant)));
    }
    text += fmt::format("- {}\n", sentence);
  }
  return text.empty() ? "" : text + "\n";
}

std::string machines_text(const EvidencePart& part) {
  std::map<std::string, std::size_t> machines;
  for (const Run& run : part.runs) ++machines[run.machine];
  std::vector<std::string> texts;
  for (const auto& [machine, count] : machines) {
    const std::string name = machine.empty() ? "an unknown machine" : machine;
    texts.push_back(machines.size() == 1 ? name : fmt::format("{} on {}", count, name));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string runs_line(const EvidencePart& part) {
  double seconds = 0.0;
  for (const Run& run : part.runs) seconds += run.results ? run.results->train_seconds : 0.0;
  const auto failed =
      std::count_if(part.runs.begin(), part.runs.end(), [](const Run& run) { return run.failed; });
  return fmt::format(
      "{} runs of {} jobs{}; {}. Training took {:.1f} minutes, added up over the runs.\n",
      part.runs.size(), part.jobs,
      failed == 0 ? "" : fmt::format(", {} diverged or failed", failed),
      one_line(machines_text(part)), seconds / 60.0);
}

// The paths of runs, without the folder in which they lie.
std::string left_out_text(const EvidencePart& part) {
  std::string text;
  for (std::string line : part.comparison.left_out) {
    for (const Run& run : part.runs) {
      replace_all(line, run.path.string(), run.path.filename().string());
    }
    text += fmt::format("- Not in the table: {}\n", one_line(line));
  }
  return text.empty() ? "" : text + "\n";
}

std::string task_text(const TaskTable& table) {
  std::string text = markdown_table(results_table(table));
  if (const auto single = single_answers_table(table)) text += markdown_table(*single);
  if (any_failed(table)) text += fmt::format("{}.\n\n", failure_note(table.metric));
  return text;
}

std::string command_of(const EvidencePart& part) {
  return fmt::format("posenc reproduce {} --part {}", part.page, part.part);
}

}  // namespace

std::string results_block(const EvidencePart& part) {
  if (part.runs.empty()) {
    return fmt::format("\nNo runs of this part are published yet; `{}` trains its {} jobs.\n\n",
                       command_of(part), part.jobs);
  }
  std::string text = "\n";
  for (const TaskTable& table : part.comparison.tasks) text += task_text(table);
  text += fmt::format("{}\n\n", kHowToRead);
  for (const TextTable& table : published_tables(part)) text += markdown_table(table);
  for (const TaskTable& table : part.comparison.tasks) text += findings_text(table);
  return text + left_out_text(part) + runs_line(part) + "\n";
}

std::string picture_block(const EvidencePart& part) {
  if (!evidence_figure(part)) return "";
  return fmt::format(
      "\n![{}, part {}: every seed a point, a line through the means]({}/{}.svg)\n\n", part.page,
      part.part, part.page, part.part);
}

}  // namespace posenc::report

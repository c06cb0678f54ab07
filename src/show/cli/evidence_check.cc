#include "cli/evidence_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "cli/print.h"
#include "cli/verbs.h"
#include "draw/svg.h"
#include "posenc/core/error.h"
#include "report/evidence_measured.h"
#include "report/evidence_page.h"
#include "runs/files.h"
#include "sweep/evidence_runs.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

struct PartState {
  report::EvidencePart part;
  std::optional<std::string> picture;  // SVG
  std::size_t jobs_with_runs = 0;
  std::vector<std::string> problems;  // of its runs and published tables
};

std::vector<sweep::KeptRun> kept_runs(const std::vector<report::Run>& runs) {
  std::vector<sweep::KeptRun> kept;
  for (const report::Run& run : runs) {
    kept.push_back({run.path.string(), run.config, std::nullopt});
    if (run.results) kept.back().eval = run.results->eval;
  }
  return kept;
}

std::vector<report::FlatConfig> fields_of(const sweep::Plan& plan) {
  std::vector<report::FlatConfig> fields;
  for (const config::LabConfig& config : sweep::configs_of(plan)) {
    fields.push_back(report::training_fields(config::resolved_tree(config)));
  }
  return fields;
}

PartState read_part(const EvidenceFiles& files, const sweep::EvidenceFile& file,
                    const sweep::EvidencePart& part) {
  const sweep::Plan plan = sweep::make_plan(part.sweep, {});
  PartState state{
      .part = make_part(file, part, plan.jobs.size(), files.committed(file.name, part.name)),
      .picture = std::nullopt,
      .problems = {}};
  if (const auto figure = report::evidence_figure(state.part)) {
    state.picture = draw::to_svg(*figure);
  }
  sweep::RunMatch match = sweep::match_runs(plan, kept_runs(state.part.runs));
  state.jobs_with_runs = match.jobs_with_runs;
  state.problems = std::move(match.problems);
  for (std::string& line :
       report::published_problems(state.part, sweep::encodings_of(plan), fields_of(plan))) {
    state.problems.push_back(fmt::format("{}: {}", file.path, line));
  }
  return state;
}

using Parts = std::map<std::string, PartState>;

Parts read_parts(const EvidenceFiles& files, const sweep::EvidenceFile& file) {
  Parts parts;
  for (const sweep::EvidencePart& part : file.parts) {
    parts.emplace(part.name, read_part(files, file, part));
  }
  return parts;
}

std::string measured_text(const EvidenceFiles& files, const sweep::EvidenceFile& file,
                          const sweep::MeasuredPart& part) {
  return report::measured_block(files.committed_rows(file.name, part.name),
                                fmt::format("{}, part {}", file.name, part.name),
                                fmt::format("posenc reproduce {} --part {}", file.name, part.name));
}

std::string block_text(const EvidenceFiles& files, const sweep::EvidenceFile& file,
                       const Parts& parts, const report::PageBlock& block) {
  const std::string page = files.page(file.name).string();
  const sweep::MeasuredPart* measured = file.measured_part(block.part);
  if (measured != nullptr && block.kind == "results") return measured_text(files, file, *measured);
  const auto state = parts.find(block.part);
  if (state == parts.end()) {
    throw Error(ErrorKind::kUnknownKey,
                {.scope = page,
                 .key = fmt::format("line {}", block.line),
                 .rule = "names a part that the evidence file does not have",
                 .value = "'" + block.part + "'",
                 .hint = "correct the marker"});
  }
  const report::EvidencePart& part = state->second.part;
  return block.kind == "results" ? report::results_block(part) : report::picture_block(part);
}

std::vector<std::string> missing_blocks(const sweep::EvidenceFile& file, const std::string& page,
                                        const std::string& text) {
  const auto blocks = report::find_blocks(text, page);
  std::vector<std::string> lines;
  const auto need = [&](const std::string& name, const char* kind) {
    const bool found = std::any_of(blocks.begin(), blocks.end(), [&](const auto& block) {
      return block.kind == kind && block.part == name;
    });
    if (!found) lines.push_back(fmt::format("{}: has no block {} {}", page, kind, name));
  };
  for (const sweep::EvidencePart& part : file.parts) {
    need(part.name, "results");
    need(part.name, "picture");
  }
  for (const sweep::MeasuredPart& part : file.measured) need(part.name, "results");
  return lines;
}

std::string picture_difference(const fs::path& path, const std::optional<std::string>& picture) {
  if (!fs::exists(path)) return picture ? path.string() + ": is missing" : "";
  if (!picture) return path.string() + ": is there, but no runs are";
  const std::string difference = report::first_difference(read_file(path.string()), *picture, 1);
  return difference.empty() ? "" : fmt::format("{}: {}", path.string(), difference);
}

void write_if_new(const fs::path& path, const std::string& text) {
  const bool same = fs::exists(path) && read_file(path.string()) == text;
  if (!same) atomic_write(path, text);
  print("{}: {}\n", path.string(), same ? "unchanged" : "written");
}

}  // namespace

int check_page(const EvidenceFiles& files, const sweep::EvidenceFile& file) {
  const Parts parts = read_parts(files, file);
  const std::string page = files.page(file.name).string();
  const std::string text = read_file(page);
  std::vector<std::string> lines = missing_blocks(file, page, text);
  const auto text_of = [&](const report::PageBlock& b) {
    return block_text(files, file, parts, b);
  };
  for (std::string& line : report::block_differences(text, page, text_of)) {
    lines.push_back(std::move(line));
  }
  for (const auto& [name, state] : parts) {
    print("{}, part {}: {} of {} jobs have runs\n", file.name, name, state.jobs_with_runs,
          state.part.jobs);
    lines.insert(lines.end(), state.problems.begin(), state.problems.end());
    const std::string line = picture_difference(files.picture(file.name, name), state.picture);
    if (!line.empty()) lines.push_back(line);
  }
  for (const std::string& line : lines) print("{}\n", one_line(line));
  if (lines.empty()) print("{}: agrees with its runs\n", page);
  return lines.empty() ? kFine : kFailure;
}

int write_page(const EvidenceFiles& files, const sweep::EvidenceFile& file) {
  const Parts parts = read_parts(files, file);
  const std::string page = files.page(file.name).string();
  const std::string text = read_file(page);
  std::vector<std::string> lines = missing_blocks(file, page, text);
  for (const auto& [name, state] : parts) {
    lines.insert(lines.end(), state.problems.begin(), state.problems.end());
  }
  for (const std::string& line : lines) print("{}\n", one_line(line));
  if (!lines.empty()) return kFailure;
  const std::string made = report::with_blocks(
      text, page, [&](const report::PageBlock& b) { return block_text(files, file, parts, b); });
  for (const auto& [name, state] : parts) {
    if (state.picture) write_if_new(files.picture(file.name, name), *state.picture);
  }
  write_if_new(page, made);
  return kFine;
}

}  // namespace posenc::cli

// Hostile files of a run. The first line of an input says which file the rest is; the others are whole.
// Whatever it holds, reports and the server answer with a remark, an Error of one line, or figures.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/plain_text.h"
#include "fuzz/memory_file.h"
#include "report/tables.h"
#include "runs/manifest.h"
#include "runs/metrics.h"
#include "runs/numbers.h"
#include "serve/metrics_tail.h"

namespace {

using posenc::fuzz::MemoryFile;
using posenc::fuzz::require;
namespace runs = posenc::runs;
namespace report = posenc::report;

template <class Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const posenc::Error& error) {
    require(posenc::one_line(error.what()) == error.what());
  }
}

void check_metrics(std::string_view text) {
  const MemoryFile file(text);
  attempt([&] {
    std::string torn;
    const auto rows = runs::read_metrics(file.path(), &torn);
    require(torn.size() <= text.size() && rows.size() <= text.size());
  });
  const posenc::serve::File open{posenc::Descriptor(::dup(file.number())), text.size(), 0};
  std::uint64_t from = 0;
  for (std::size_t part = 0; part <= text.size(); ++part) {
    const auto lines = posenc::serve::metrics_since(open, from, 256);
    require(lines.next >= lines.from && lines.next <= text.size());
    if (lines.next == from) break;
    posenc::parse_json(posenc::serve::metrics_json(lines), "part");  // an Error here is a finding
    from = lines.next;
  }
  (void)posenc::serve::read_pace(open);
}

void check_manifest(std::string_view text) {
  attempt([&] {
    const runs::Manifest manifest = runs::parse_manifest(text, "manifest.json");
    for (const auto& file : manifest.files) require(file.name.find('/') == std::string::npos);
    const auto again = runs::parse_manifest(runs::manifest_text(manifest), "again");
    require(again.step == manifest.step && again.files.size() == manifest.files.size());
  });
}

// The run that the file belongs to, next to one that is whole.
void check_report(const std::string& name, std::string text) {
  report::RunFiles whole{
      .status = R"({"state":"finished","step":30,"message":"","config_hash":"a1"})",
      .config = "task: parity\nmodel: {encoding: rope}\n",
      .environment = R"({"cpu":"x","threads":2})",
      .results = R"({"task":"parity","encoding":"rope","config_hash":"a1","seed":0,"train_length":8,
        "metric":"accuracy","rows":[{"axis":"train","length":8,"factor":1,"value":0.9,"low":0.8,
        "high":1,"chance":0.5}]})",
      .in_use = false};
  report::RunFiles files = whole;
  if (name == "status") files.status = std::move(text);
  if (name == "config") files.config = std::move(text);
  if (name == "environment") files.environment = std::move(text);
  if (name == "results") files.results = std::move(text);
  const auto read = [&](const report::RunFiles& f) {
    return report::read_run("runs/x", [&] { return f; });
  };
  std::string json = "{}";
  attempt([&] {
    const report::Comparison comparison = report::compare({read(files), read(whole)});
    for (const auto& table : report::text_tables(comparison, report::CurveLetters::kDigits))
      (void)report::fitted(table, 100);
    (void)report::to_csv(comparison);
    json = posenc::to_json(runs::without_non_finite(report::to_value(comparison)));
  });
  posenc::parse_json(json, "comparison");  // an Error here is a finding
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string name(input.substr(0, line));
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  if (name == "metrics") {
    check_metrics(text);
  } else if (name == "manifest") {
    check_manifest(text);
  } else {
    check_report(name, std::string(text));
  }
  return 0;
}

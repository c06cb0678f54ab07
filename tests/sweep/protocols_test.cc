// The protocols of docs/evidence: every part expands to jobs, every page shows every part, every published row
// has a place in the results, and a perfect model is right wherever one is scored.
#include "sweep/protocols.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "config/load.h"
#include "posenc/encodings/spec.h"
#include "support/shipped_configs.h"
#include "sweep/evidence_runs.h"

namespace posenc::sweep {
namespace {

using testing::protocol_parts;
using testing::ProtocolPart;
using testing::protocols;
using testing::repository_root;

// `visit(part, plan)` for every part of every page.
template <class Visit>
void for_every_part(Visit visit) {
  for (const std::string& path : protocols()) {
    for (const ProtocolPart& part : protocol_parts(path)) {
      SCOPED_TRACE(part.page + ", part " + part.name);
      visit(part, make_plan(part.sweep, {}));
    }
  }
}

std::string page_of(const ProtocolPart& part) {
  return read_file(repository_root() / "docs/evidence" / (part.page + ".md"));
}

TEST(Protocols, AreThereForEveryPageWithASweep) {
  std::set<std::string> pages;
  for (const std::string& path : protocols()) pages.insert(std::filesystem::path(path).stem());
  for (const char* page :
       {"counting", "counting-1024", "flip-flop", "selective-copy", "counting-program",
        "navigation", "text-and-code", "theta", "linear-attention"}) {
    EXPECT_EQ(pages.count(page), 1U) << page;
  }
}

TEST(Protocols, EveryPartExpandsToJobsOfItsOwn) {
  for_every_part([](const ProtocolPart& /*part*/, const Plan& plan) {
    EXPECT_FALSE(plan.jobs.empty());
    EXPECT_EQ(plan.repeated, 0U);
    std::set<std::string> names;
    for (const Job& job : plan.jobs) names.insert(job.name);
    EXPECT_EQ(names.size(), plan.jobs.size()) << "names tell jobs apart";
  });
}

// The pages' figures are of a GPU, so the device is part of what they ran. Those of small pages are of two cores.
TEST(Protocols, EveryBaseIsUsedNamesItselfAndRunsOnAGpu) {
  std::set<std::string> used;
  std::set<std::string> small;
  for_every_part([&](const ProtocolPart& part, const Plan& /*plan*/) {
    used.insert(part.base);
    if (part.page.ends_with("-small")) small.insert(part.base);
  });
  const auto folder = repository_root() / "configs/evidence/base";
  for (const std::string& path : testing::files_with(folder, ".yaml")) {
    const std::filesystem::path file(path);
    const config::LabConfig config = config::load_config(path).config;
    EXPECT_EQ(config.name, file.stem().string());
    if (small.count("base/" + file.filename().string()) == 0) {
      EXPECT_EQ(config.train.device, config::Device::kCuda) << path;
      EXPECT_FALSE(config.eval.conditions.empty()) << path;
    }
    EXPECT_GT(testing::header_of(path).size(), 80U) << path;
    EXPECT_EQ(used.erase("base/" + file.filename().string()), 1U) << path << ": no part uses it";
  }
  const bool all_in_folder = std::all_of(
      used.begin(), used.end(), [](const std::string& base) { return !base.starts_with("base/"); });
  EXPECT_TRUE(all_in_folder) << "a base that is not there";
}

std::set<std::int64_t> seeds_of(const Plan& plan, const std::string& encoding) {
  std::set<std::int64_t> seeds;
  for (const Job& job : plan.jobs) {
    const auto config = config::load_config(plan.file.base, job.settings).config;
    if (config.model.encoding.front() == encoding) seeds.insert(config.seed);
  }
  return seeds;
}

Plan plan_of(const std::string& page, const std::string& part) {
  const auto path = repository_root() / "configs/evidence" / (page + ".yaml");
  for (const ProtocolPart& known : protocol_parts(path)) {
    if (known.name == part) return make_plan(known.sweep, {});
  }
  throw std::runtime_error("no part " + part);
}

// At least as many seeds as a page needs for its findings.
TEST(Protocols, HaveEnoughSeeds) {
  struct Wanted {
    const char* page;
    const char* part;
    std::set<std::string> decisive;
    std::size_t seeds_of_decisive;
    std::size_t seeds_of_rest;
  };
  const std::string cope = "cope(npos_max=64)";
  const std::string learned = "learned(max_positions=512)";
  const std::vector<Wanted> all = {
      {"counting", "main", {"none", "rope", cope}, 10, 5},
      {"counting", "scaling", {"none", "rope", cope}, 10, 10},
      {"flip-flop", "cope-size", {learned, "rope", cope}, 10, 5},
      {"flip-flop", "path-size", {learned, "rope", cope}, 10, 5},
      {"selective-copy", "cope-size", {}, 3, 3},
      {"counting-program", "main", {}, 3, 3},
      {"navigation", "torus", {}, 5, 5},
      {"text-and-code", "code-512", {}, 2, 2},
      {"theta", "counting", {}, 3, 3},
      {"linear-attention", "recall", {}, 3, 3},
  };
  for (const Wanted& wanted : all) {
    const Plan plan = plan_of(wanted.page, wanted.part);
    for (const std::string& encoding : encodings_of(plan)) {
      const bool decisive = wanted.decisive.count(encoding) > 0;
      EXPECT_GE(seeds_of(plan, encoding).size(),
                decisive ? wanted.seeds_of_decisive : wanted.seeds_of_rest)
          << wanted.page << " " << wanted.part << " " << encoding;
    }
    for (const std::string& encoding : wanted.decisive) {
      EXPECT_FALSE(seeds_of(plan, encoding).empty()) << wanted.page << " " << encoding;
    }
  }
}

// Rates are chosen on seeds and test rows that no result is computed on.
TEST(Protocols, PartsThatTuneShareNothingWithThePartsThatReport) {
  std::map<std::string, std::set<std::int64_t>> reported;
  std::map<std::string, std::set<std::int64_t>> tuned;
  for_every_part([&](const ProtocolPart& part, const Plan& plan) {
    const bool tunes = part.name.ends_with("rates");
    for (const Job& job : plan.jobs) {
      const auto config = config::load_config(plan.file.base, job.settings).config;
      (tunes ? tuned : reported)[part.page].insert(config.seed);
      EXPECT_EQ(config.eval.seed != config::EvalConfig{}.seed, tunes);
    }
  });
  EXPECT_GE(tuned.size(), 4U);
  for (const auto& [page, seeds] : tuned) {
    for (const std::int64_t seed : seeds) EXPECT_EQ(reported[page].count(seed), 0U) << page;
  }
}

TEST(Protocols, PagesHaveTheQuestionTheCommandAndABlockForEveryPart) {
  for_every_part([](const ProtocolPart& part, const Plan& /*plan*/) {
    const std::string page = page_of(part);
    const Value tree = parse_yaml(read_file(part.path), part.path);
    EXPECT_NE(page.find(*tree.find("question")->get_if<std::string>()), std::string::npos);
    EXPECT_NE(page.find("posenc reproduce " + part.page), std::string::npos);
    for (const char* block : {"results", "picture"}) {
      const std::string marker = fmt::format("<!-- generated: {} {} -->\n", block, part.name);
      EXPECT_NE(page.find(marker), std::string::npos) << marker;
    }
  });
}

// Every row of a published table that names an encoding has runs to stand next to.
TEST(Protocols, PublishedRowsHaveRunsToStandNextTo) {
  int rows = 0;
  for (const std::string& path : protocols()) {
    const Value tree = parse_yaml(read_file(path), path);
    const Value* published = tree.find("published");
    if (published == nullptr) continue;
    for (const Value& table : *published->get_if<Value::List>()) {
      const Plan plan =
          plan_of(std::filesystem::path(path).stem(), *table.find("part")->get_if<std::string>());
      const std::vector<std::string> encodings = encodings_of(plan);
      const auto task = tasks::make_task(config::load_config(plan.file.base).config.task);
      std::set<std::string> axes;
      for (const tasks::Axis& axis : task->axes()) axes.insert(axis.name);
      for (const Value& row : *table.find("rows")->get_if<Value::List>()) {
        ++rows;
        const Value* encoding = row.find("encoding");
        if (encoding != nullptr) {
          const auto& name = *encoding->get_if<std::string>();
          EXPECT_NE(std::find(encodings.begin(), encodings.end(), name), encodings.end()) << name;
        }
        for (const Member& value : *row.find("values")->get_if<Value::Map>()) {
          EXPECT_EQ(axes.count(value.key.substr(0, value.key.find('@'))), 1U) << value.key;
        }
      }
    }
  }
  EXPECT_GE(rows, 30);
}

}  // namespace
}  // namespace posenc::sweep

// The sweeps that are shipped: every combination is a config.
#include <gtest/gtest.h>

#include "config/load.h"
#include "support/shipped_configs.h"
#include "sweep/plan.h"

namespace posenc::sweep {
namespace {

std::vector<std::string> sweeps() {
  std::vector<std::string> paths;
  for (const std::string& path : testing::shipped_configs()) {
    if (testing::top_level_keys(path).count("base") > 0) paths.push_back(path);
  }
  return paths;
}

TEST(ShippedSweeps, ExpandToJobsOfTheirOwn) {
  ASSERT_FALSE(sweeps().empty());
  for (const std::string& path : sweeps()) {
    const Plan plan = make_plan(read_sweep(path), {});
    EXPECT_GT(plan.jobs.size(), 1U) << path;
    EXPECT_EQ(plan.repeated, 0U) << path;
    std::set<std::string> names;
    for (const Job& job : plan.jobs) names.insert(job.name);
    EXPECT_EQ(names.size(), plan.jobs.size()) << path << ": names tell jobs apart";
    for (const Job& job : plan.jobs) {
      EXPECT_EQ(config::load_config(plan.file.base, job.settings).hash, job.hash) << path;
    }
  }
}

// The figures to expect are the base config's where a sweep adds none of its own.
TEST(ShippedSweeps, HeadersSayWhatTheyShowOrNameTheConfigThatDoes) {
  for (const std::string& path : sweeps()) {
    const std::string header = testing::header_of(path);
    const std::string base = read_sweep(path).base.filename();
    const bool own = header.find("Expected") != std::string::npos &&
                     header.find("Hardware and time: ") != std::string::npos;
    EXPECT_TRUE(own || header.find("see " + base) != std::string::npos) << path;
    const std::string command =
        "posenc sweep configs/" + std::filesystem::path(path).filename().string();
    EXPECT_NE(header.find(command), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace posenc::sweep

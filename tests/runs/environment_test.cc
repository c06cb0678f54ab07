#include "runs/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <regex>
#include <utility>
#include <vector>

#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::text;

TEST(Environment, SaysWhatTheRunRanOn) {
  const Value env = describe_environment({.command_line = {"posenc", "train", "a b.yaml"},
                                          .seed = 17,
                                          .threads = 2,
                                          .torch_version = "1.13.1",
                                          .more = {{"device", text("cpu")}}});
  std::vector<std::string> keys;
  for (const Member& member : *env.get_if<Value::Map>()) keys.push_back(member.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"posenc", "commit", "compiler", "torch", "cpu",
                                            "architecture", "cores", "threads", "jobs_at_once",
                                            "memory_bytes", "os", "started", "seed", "command_line",
                                            "device"}));
  EXPECT_EQ(*env.find("seed")->get_if<std::int64_t>(), 17);
  EXPECT_EQ(*env.find("torch"), text("1.13.1"));
  EXPECT_GE(*env.find("cores")->get_if<std::int64_t>(), 1);
  EXPECT_GT(*env.find("memory_bytes")->get_if<std::int64_t>(), 1 << 20);
  EXPECT_EQ(env.find("command_line")->get_if<Value::List>()->at(2), text("a b.yaml"));
  EXPECT_TRUE(std::regex_match(*env.find("started")->get_if<std::string>(),
                               std::regex("20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")));
  EXPECT_TRUE(describe_environment({}).find("torch")->is_null());
}

TEST(Environment, TheCommitIsOneOrUnknown) {
  EXPECT_TRUE(std::regex_match(build_commit(), std::regex("([0-9a-f]{40}(-dirty)?)?")))
      << build_commit();
}

TEST(Environment, TimesAreInUtc) {
  EXPECT_EQ(utc_time_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_time_text(1'700'000'000), "2023-11-14T22:13:20Z");
  EXPECT_EQ(utc_time("2023-11-14T22:13:20Z"), 1'700'000'000);
  for (const char* text : {"", "yesterday", "2023-11-14", "2023-11-14T22:13:20Z and more"}) {
    EXPECT_EQ(utc_time(text), std::nullopt) << text;
  }
}

std::string jobs_text(const Value& environment) {
  const Value* jobs = environment.find("jobs_at_once");
  return jobs == nullptr ? "missing" : to_json(*jobs);
}

TEST(Environment, SaysHowManyJobsTheSweepRunsAtOnce) {
  ::unsetenv("POSENC_JOBS_AT_ONCE");
  EXPECT_EQ(jobs_text(describe_environment({})), "null") << "no sweep";
  for (const auto& [given, written] :
       std::vector<std::pair<std::string, std::string>>{{"4", "4"},
                                                        {"1", "1"},
                                                        {"0", "null"},
                                                        {"-2", "null"},
                                                        {"many", "null"},
                                                        {"4x", "null"}}) {
    ::setenv("POSENC_JOBS_AT_ONCE", given.c_str(), 1);
    EXPECT_EQ(jobs_text(describe_environment({})), written) << given;
  }
  ::unsetenv("POSENC_JOBS_AT_ONCE");
}

// A run that goes on keeps the fullest of its sessions.
TEST(Environment, ARunThatGoesOnKeepsItsFullestSession) {
  const auto after = [](const std::string& before, const char* jobs) {
    ::setenv("POSENC_JOBS_AT_ONCE", jobs, 1);
    const std::string text = jobs_text(with_jobs_at_once(parse_json(before, "x")));
    ::unsetenv("POSENC_JOBS_AT_ONCE");
    return text;
  };
  EXPECT_EQ(after(R"({"jobs_at_once": 1})", "4"), "4");
  EXPECT_EQ(after(R"({"jobs_at_once": 8})", "4"), "8");
  EXPECT_EQ(after(R"({"jobs_at_once": null})", "4"), "4");
  EXPECT_EQ(after(R"({"jobs_at_once": null})", "1"), "null") << "it may have had company before";
  EXPECT_EQ(after("{}", "4"), "4");
  EXPECT_EQ(after("{}", "1"), "missing");
  EXPECT_EQ(jobs_text(with_jobs_at_once(parse_json(R"({"jobs_at_once": 2})", "x"))), "2");
}

TEST(Environment, MemoryGrowsWithWhatIsTouched) {
  constexpr std::int64_t kSize = 64 << 20;
  const std::int64_t before = resident_bytes();
  const std::vector<char> block(kSize, 'x');
  const volatile char* seen = block.data();
  EXPECT_EQ(seen[kSize / 2], 'x');
  EXPECT_GE(resident_bytes(), before + kSize / 2);
  EXPECT_GE(peak_resident_bytes(), kSize / 2);
}

}  // namespace
}  // namespace posenc::runs

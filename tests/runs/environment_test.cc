#include "runs/environment.h"

#include <gtest/gtest.h>

#include <ctime>
#include <regex>
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
                                            "architecture", "cores", "threads", "memory_bytes",
                                            "os", "started", "seed", "command_line", "device"}));
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

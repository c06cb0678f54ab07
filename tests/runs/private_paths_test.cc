#include "runs/private_paths.h"

#include <gtest/gtest.h>

#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::map_of;
using posenc::testing::text;

TEST(PrivatePaths, AbsoluteOnesBecomeTheirLastComponent) {
  const auto becomes = [](std::string_view word, const std::string& wanted) {
    EXPECT_EQ(without_absolute_paths(word), wanted) << word;
  };
  becomes("/home/ann/configs/demo.yaml", "demo.yaml");
  becomes("/home/ann/runs/", "runs");
  becomes("--out=/home/ann/runs/a", "--out=a");
  becomes("-o/home/ann/a", "-oa");
  becomes("task.files=[/home/ann/x.txt,\"/srv/y.txt\"]", "task.files=[x.txt,\"y.txt\"]");
  becomes("/home/Ann Lee/a.yaml", "a.yaml");
  becomes("file:///home/ann/a", "file:a");
  becomes("[/home/ann/runs/a/status.json] cannot be written: No space left",
          "[status.json] cannot be written: No space left");
}

TEST(PrivatePaths, OtherTextStays) {
  for (const char* word :
       {"configs/demo.yaml", "../runs/a", "~/a", "./a", "rope(theta=1e4) + alibi", "1/2", "a / b",
        "/", "", "--out", "runs/a/b", "é/b"}) {
    EXPECT_EQ(without_absolute_paths(std::string_view(word)), word);
  }
}

TEST(PrivatePaths, OfAnEnvironmentOnlyTheCommandLineChanges) {
  const Value words(Value::Data(Value::List{text("train"), text("/home/ann/a.yaml")}));
  const Value changed =
      without_absolute_paths(map_of({{"os", text("/etc/os")}, {"command_line", words}}));
  EXPECT_EQ(to_json(changed), R"({"os":"/etc/os","command_line":["train","a.yaml"]})");
}

}  // namespace
}  // namespace posenc::runs

#include "runs/files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

TEST(RemoveTree, TakesFoldersWithAllInThemAndNoLinksTarget) {
  const testing::TemporaryFolder folder;
  const fs::path root = folder.path();
  fs::create_directories(root / "doomed/inner");
  fs::create_directory(root / "kept");
  std::ofstream(root / "doomed/inner/file") << "x";
  std::ofstream(root / "kept/file") << "x";
  fs::create_directory_symlink(root / "kept", root / "doomed/link");
  EXPECT_EQ(remove_tree(root / "doomed"), 0);
  EXPECT_FALSE(fs::exists(root / "doomed"));
  EXPECT_TRUE(fs::exists(root / "kept/file"));
  EXPECT_EQ(remove_tree(root / "doomed"), 0) << "what is not there is gone";
  EXPECT_EQ(remove_tree(root / "kept/file"), 0);
  EXPECT_TRUE(fs::is_empty(root / "kept"));
}

}  // namespace
}  // namespace posenc::runs

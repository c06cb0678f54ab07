// Files below a folder that is served: no name of a path may be a link.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/open_file.h"
#include "core/value.h"
#include "support/temporary_folder.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::write_content;

std::string refusal(const std::string& path) {
  try {
    return "read: " + read_file(path);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NoLinks, HoldsForEveryNameBelowTheFolder) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run/deep/er");
  fs::create_directories(folder / "outside/er");
  write_content(folder / "run/deep/er/file", "inside");
  write_content(folder / "outside/er/file", "outside");
  fs::create_directory_symlink(folder / "outside", folder / "run/linked");
  fs::create_symlink(folder / "outside/er/file", folder / "run/file");
  fs::create_directory_symlink(folder / "run", folder / "served");
  EXPECT_EQ(refusal(folder / "served/file"), "read: outside") << "links are followed otherwise";
  refuse_links_below(folder / "served");
  EXPECT_EQ(refusal(folder / "served/deep/er/file"), "read: inside");
  EXPECT_EQ(refusal(folder / "served/deep//er/./file"), "read: inside");
  for (const char* name : {"served/file", "served/linked/er/file",
                           "served/deep/../../outside/er/file", "served/../outside/er/file"}) {
    EXPECT_NE(refusal(folder / name).find("cannot be read"), std::string::npos)
        << name << ": " << refusal(folder / name);
  }
  EXPECT_LT(open_regular(folder / "served/linked/new", O_WRONLY | O_CREAT).number(), 0);
  EXPECT_FALSE(fs::exists(folder / "outside/new"));
  EXPECT_EQ(refusal(folder / "run/file"), "read: outside") << "by another path it is another file";
  EXPECT_THROW(refuse_links_below(folder / "nowhere"), Error);
}

}  // namespace
}  // namespace posenc

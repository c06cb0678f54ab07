// What is no regular file is refused at once, by name. Before, read_file waited for a FIFO's writer and read
// a device without end.
#include "core/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/value.h"
#include "support/temporary_folder.h"
#include "system/process.h"
#include "system/sha256.h"

namespace posenc {
namespace {

using testing::TemporaryFolder;
using testing::write_content;

template <class Body>
std::string error_of(const Body& body) {
  ::alarm(60);  // a wait for the other end of a FIFO fails the test instead of hanging it
  std::string text;
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    text = error.what();
  }
  ::alarm(0);
  return text;
}

class OpenFile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkfifo(fifo_.c_str(), 0600), 0); }
  TemporaryFolder folder_;
  std::string fifo_ = folder_ / "fifo";
  std::string refusal_ =
      "[" + fifo_ + "] is a FIFO, not a regular file; give the path of a regular file";
};

TEST_F(OpenFile, FifosAreRefusedByEveryReader) {
  EXPECT_EQ(error_of([&] { (void)open_to_read(fifo_); }), refusal_);
  EXPECT_EQ(error_of([&] { (void)read_file(fifo_); }), refusal_);
  EXPECT_EQ(error_of([&] { (void)sha256_of_file(fifo_); }), refusal_);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(last_line(fifo_), ""); }), "");
}

TEST_F(OpenFile, FifosAreRefusedByWriters) {
  EXPECT_EQ(error_of([&] { (void)open_regular(fifo_, O_WRONLY | O_CREAT | O_APPEND); }), refusal_);
  EXPECT_EQ(error_of([&] { (void)open_regular(fifo_, O_RDWR | O_CREAT); }), refusal_);
}

TEST_F(OpenFile, DirectoriesAndDevicesAreNamed) {
  EXPECT_EQ(error_of([&] { (void)open_to_read("/dev/zero"); }),
            "[/dev/zero] is a device, not a regular file; give the path of a regular file");
  EXPECT_NE(error_of([&] { (void)open_to_read(folder_.path()); }).find("is a directory, not a"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)open_regular(folder_.path(), O_WRONLY); }).find("is a directory"),
            std::string::npos);
}

TEST_F(OpenFile, LinksToRegularFilesAreFollowedAndOthersAreNot) {
  write_content(folder_ / "file", "words");
  std::filesystem::create_symlink(folder_ / "file", folder_ / "to_file");
  std::filesystem::create_symlink(fifo_, folder_ / "to_fifo");
  EXPECT_EQ(read_file(folder_ / "to_file"), "words");
  EXPECT_NE(error_of([&] { (void)read_file(folder_ / "to_fifo"); }).find("is a FIFO"),
            std::string::npos);
}

TEST_F(OpenFile, ReadsWholeFilesWhateverTheirSizeSays) {
  std::string content;
  for (int i = 0; i < 40000; ++i) content += std::to_string(i) + "\n";
  content += '\0';
  write_content(folder_ / "long", content);
  EXPECT_EQ(read_file(folder_ / "long"), content);
  EXPECT_EQ(sha256_of_file(folder_ / "long"), sha256_hex(content));
  EXPECT_NE(read_file("/proc/self/status").find("Name:"), std::string::npos);  // of size 0
}

TEST_F(OpenFile, WhatTheSystemRefusesIsAnErrno) {
  EXPECT_LT(open_regular(folder_ / "absent", O_RDONLY).number(), 0);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(error_of([&] { (void)open_to_read(folder_ / "absent"); }),
            "[" + (folder_ / "absent") +
                "] cannot be read: No such file or directory; check the path and its permissions");
}

}  // namespace
}  // namespace posenc

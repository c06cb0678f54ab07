// Files on disk: what is written reads back, and a failure leaves things as they were.
#include "posenc/weights/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "posenc/core/error.h"
#include "support/checkpoint_case.h"
#include "system/files.h"

namespace posenc::weights {
namespace {

using testing::file_content;
using testing::OwnedTensor;
using testing::random_tensor;
using testing::TemporaryFolder;
using testing::write_content;
using testing::write_tensors;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Safetensors, EveryTypeReadsBack) {
  const TemporaryFolder folder;
  Rng rng(1);
  std::vector<OwnedTensor> tensors;
  for (int i = 0; i <= static_cast<int>(ElementType::kU64); ++i) {
    const auto type = static_cast<ElementType>(i);
    tensors.push_back(
        random_tensor("t." + std::string(element_type_name(type)), type, {i % 3, 4, 2}, rng));
  }
  write_tensors(folder / "a.safetensors", tensors, {{"format", "pt"}});
  const Reader reader(folder / "a.safetensors");
  ASSERT_EQ(reader.tensors().size(), tensors.size());
  EXPECT_EQ(*find_metadata(reader.metadata(), "format"), "pt");
  EXPECT_EQ(find_metadata(reader.metadata(), "other"), nullptr);
  for (const OwnedTensor& tensor : tensors) {
    const TensorInfo& info = reader.at(tensor.spec.name);
    EXPECT_EQ(static_cast<const TensorSpec&>(info), tensor.spec);
    EXPECT_EQ(reader.read(info), tensor.bytes);
  }
  EXPECT_EQ(reader.find("t.none"), nullptr);
  EXPECT_THROW((void)reader.at("t.none"), Error);
}

TEST(Safetensors, ReadsPiecesAndNothingBeyondATensor) {
  const TemporaryFolder folder;
  Rng rng(2);
  const OwnedTensor tensor = random_tensor("a", ElementType::kU8, {100}, rng);
  write_tensors(folder / "a", {tensor, random_tensor("b", ElementType::kU8, {100}, rng)});
  const Reader reader(folder / "a");
  std::vector<std::byte> piece(10);
  reader.read(reader.at("a"), 90, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), tensor.bytes.begin() + 90));
  EXPECT_THROW(reader.read(reader.at("a"), 91, piece), Error);
  EXPECT_THROW(reader.read(reader.at("a"), ~std::uint64_t{0}, piece), Error);
}

TEST(Safetensors, AFileThatShrinksIsAnError) {
  const TemporaryFolder folder;
  Rng rng(3);
  write_tensors(folder / "a", {random_tensor("a", ElementType::kU8, {100}, rng)});
  const Reader reader(folder / "a");
  std::filesystem::resize_file(folder / "a", 90);
  EXPECT_THROW((void)reader.read(reader.at("a")), Error);
}

TEST(Safetensors, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  EXPECT_THROW(Reader(folder / "missing"), Error);
  EXPECT_THROW(Reader(folder.path()), Error);
  EXPECT_THROW(Reader("/dev/zero"), Error);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(Reader(folder / "pipe"), Error);
}

TEST(Safetensors, WriterTakesPiecesOfAnyLength) {
  const TemporaryFolder folder;
  Writer writer(folder / "a", {{"a", ElementType::kU8, {3}}, {"b", ElementType::kI16, {2}}});
  EXPECT_EQ(writer.tensors()[1].begin, 3u);
  writer.append(bytes_of("0"));
  writer.append(bytes_of("1234"));
  EXPECT_EQ(writer.remaining(), 2u);
  EXPECT_FALSE(std::filesystem::exists(folder / "a")) << "nothing in place before commit";
  EXPECT_THROW(writer.commit(), Error) << "bytes are missing";
  EXPECT_THROW(writer.append(bytes_of("567")), Error) << "too many";
  writer.append(bytes_of("56"));
  writer.commit();
  const Reader reader(folder / "a");
  EXPECT_EQ(std::memcmp(reader.read(reader.at("b")).data(), "3456", 4), 0);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"a"});
}

TEST(Safetensors, WriterRefusesWhatAReaderWould) {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<TensorSpec> tensors, const Metadata& metadata = {}) {
    EXPECT_THROW(Writer(folder / "a", std::move(tensors), metadata), Error);
  };
  refused({{"a", ElementType::kU8, {1}}, {"a", ElementType::kU8, {1}}});
  refused({{"__metadata__", ElementType::kU8, {1}}});
  refused({{"a", ElementType::kU8, {-1}}});
  refused({{"a", ElementType::kF4, {1}}});
  refused({{"a", ElementType::kF64, {std::int64_t{1} << 40, std::int64_t{1} << 40}}});
  refused({{"\xff", ElementType::kU8, {1}}});
  refused({{std::string(5000, 'n'), ElementType::kU8, {1}}});
  refused({{"a", ElementType::kU8, {1}}}, {{"k", "1"}, {"k", "2"}});
  const std::string short_bytes = "123";
  const TensorData wrong{{"a", ElementType::kF32, {1}}, bytes_of(short_bytes)};
  EXPECT_THROW(write_safetensors(folder / "a", std::span(&wrong, 1)), Error);
  EXPECT_TRUE(folder.files().empty());
}

TEST(Safetensors, WithoutCommitTheTargetIsAsItWas) {
  const TemporaryFolder folder;
  write_content(folder / "a", "precious");
  {
    Writer writer(folder / "a", {{"a", ElementType::kU8, {4}}});
    writer.append(bytes_of("1234"));
    writer.sync();
    EXPECT_EQ(folder.files().size(), 2u) << "a temporary beside it";
  }
  EXPECT_EQ(file_content(folder / "a"), "precious");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"a"});
}

TEST(Safetensors, RefusesToReplaceUnlessTold) {
  const TemporaryFolder folder;
  write_content(folder / "a", "precious");
  EXPECT_THROW(Writer(folder / "a", {}, {}, Overwrite::kRefuse), Error);
  // It may also appear while the new one is written.
  Writer late(folder / "b", {}, {}, Overwrite::kRefuse);
  write_content(folder / "b", "precious");
  EXPECT_THROW(late.commit(), Error);
  EXPECT_EQ(file_content(folder / "a") + file_content(folder / "b"), "preciousprecious");
}

TEST(Safetensors, ReplacingKeepsPermissionsAndLinksTargets) {
  const TemporaryFolder folder;
  write_content(folder / "a", "old");
  ASSERT_EQ(chmod((folder / "a").c_str(), 0640), 0);
  Writer(folder / "a", {}).commit();
  struct stat status {};
  ASSERT_EQ(stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);

  write_content(folder / "blob", "shared");
  std::filesystem::create_symlink(folder / "blob", folder / "link");
  Writer(folder / "link", {}).commit();
  EXPECT_EQ(file_content(folder / "blob"), "shared") << "a link is replaced, not followed";
}

// A disk that fills up in the middle, as write() reports it: the limit on file sizes.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(SmallDisk&&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

TEST(Safetensors, AFailureInTheMiddleLeavesTheTargetAndNoTemporary) {
  const TemporaryFolder folder;
  write_content(folder / "a", "precious");
  {
    const SmallDisk disk(4096);
    Writer writer(folder / "a", {{"a", ElementType::kU8, {10000}}});
    const std::vector<std::byte> piece(1000);
    std::string message;
    try {
      for (int i = 0; i < 10; ++i) writer.append(piece);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      message = error.what();
    }
    EXPECT_NE(message.find("cannot be written"), std::string::npos) << message;
    EXPECT_THROW(writer.append(piece), Error) << "a failed write cannot be made good";
    EXPECT_THROW(writer.commit(), Error) << "half a file never gets its name";
    EXPECT_EQ(folder.files(), std::vector<std::string>{"a"});
  }
  EXPECT_EQ(file_content(folder / "a"), "precious");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"a"});
}

TEST(Safetensors, AFolderThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  try {
    Writer writer(folder / "none/a", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("none/a] cannot be written: No such file"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace posenc::weights

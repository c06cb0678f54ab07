#include "system/sha256.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "posenc/core/error.h"

namespace posenc {
namespace {

// FIPS 180-4's examples, and NIST's long message.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Lengths around the padding's borders; digests of runs of 'x', from coreutils' sha256sum.
TEST(Sha256, PaddingAtEveryBorder) {
  EXPECT_EQ(sha256_hex(std::string(55, 'x')),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256_hex(std::string(56, 'x')),
            "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256_hex(std::string(63, 'x')),
            "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256_hex(std::string(64, 'x')),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256_hex(std::string(119, 'x')),
            "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  EXPECT_EQ(sha256_hex(std::string(120, 'x')),
            "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

TEST(Sha256, PiecesOfAnyLengthGiveTheSame) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>(i * 7);
  for (std::size_t piece = 1; piece < 140; ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.update(std::string_view(text).substr(at, piece));
      (void)hash.digest();  // asking in between changes nothing
    }
    EXPECT_EQ(hash.hex(), sha256_hex(text)) << piece;
  }
}

TEST(Sha256, FilesAndFoldersAndNothing) {
  const std::string path = ::testing::TempDir() + "posenc_sha256_test";
  const std::string text(200'000, 'q');
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(sha256_of_file(path), sha256_hex(text));
  std::ofstream(path, std::ios::binary) << "";
  EXPECT_EQ(sha256_of_file(path), sha256_hex(""));
  std::filesystem::remove(path);
  EXPECT_THROW(sha256_of_file(path), Error);
  EXPECT_THROW(sha256_of_file(::testing::TempDir()), Error);
}

}  // namespace
}  // namespace posenc

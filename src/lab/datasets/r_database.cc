// Character vectors in R's .rdb files.
//
// A record is the unpacked size (32 bits, big-endian) and a zlib stream; records follow each other. The
// stream is R's serialization, XDR, version 2 or 3: "X\n", version, two versions of R, in version 3 the
// name of the encoding, then the object. A vector of strings is type 16, its length, and per string
// type 9, its length and bytes (length -1: NA). "R Internals", section 1.8.
#include <fmt/format.h>

#include <cstdint>

#include "datasets/convert.h"
#include "posenc/core/error.h"

#ifdef POSENC_HAVE_ZLIB
#include <zlib.h>
#endif

namespace posenc::datasets {
namespace {

Error bad_database(const std::string& why) {
  return {ErrorKind::kIo,
          {.scope = "data",
           .key = "",
           .rule = "the package's R database cannot be read: " + why,
           .value = "",
           .hint = "is it the version that posenc data --list names?"}};
}

#ifdef POSENC_HAVE_ZLIB

class Xdr {
 public:
  explicit Xdr(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool done() const { return bytes_.empty(); }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) throw bad_database("it ends too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint32_t word() {
    std::uint32_t number = 0;
    for (const char c : take(4)) number = number << 8U | static_cast<unsigned char>(c);
    return number;
  }
  [[nodiscard]] std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

// Unpacks one zlib stream and drops it from the input.
std::string inflated(Xdr& input, std::size_t size) {
  constexpr std::size_t kLargest = std::size_t{1} << 28;
  constexpr std::size_t kMostPerByte = 1032;  // that zlib packs into one
  if (size > kLargest) throw bad_database("a record claims more than 256 MB");
  if (size / kMostPerByte > input.rest().size()) throw bad_database("a record is cut off");
  std::string out(size, '\0');
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw bad_database("zlib has no memory");
  const std::string packed(input.rest());
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int ended = inflate(&stream, Z_FINISH);
  const std::size_t used = packed.size() - stream.avail_in;
  const bool whole = ended == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) throw bad_database("a record is no zlib stream of its size");
  input.take(used);
  return out;
}

void skip_header(Xdr& in) {
  if (in.take(2) != "X\n") throw bad_database("an object is not in XDR form");
  const std::uint32_t version = in.word();
  in.take(8);
  if (version == 3) in.take(in.word());
  if (version != 2 && version != 3) {
    throw bad_database(fmt::format("version {} of its form is not known", version));
  }
}

std::vector<std::string> strings_of(std::string_view object) {
  constexpr std::uint32_t kStrings = 16;
  constexpr std::uint32_t kString = 9;
  constexpr std::uint32_t kMissing = 0xffffffffU;
  Xdr in(object);
  skip_header(in);
  if ((in.word() & 0xffU) != kStrings) throw bad_database("an object is no vector of strings");
  std::vector<std::string> strings;
  for (std::uint32_t left = in.word(); left > 0; --left) {
    if ((in.word() & 0xffU) != kString) throw bad_database("a string is of another type");
    const std::uint32_t length = in.word();
    strings.emplace_back(length == kMissing ? std::string_view() : in.take(length));
  }
  return strings;
}

#endif

}  // namespace

#ifdef POSENC_HAVE_ZLIB
std::vector<NamedText> texts_of_r_database(std::string_view bytes) {
  std::vector<NamedText> texts;
  for (Xdr input(bytes); !input.done();) {
    const std::size_t size = input.word();
    const std::vector<std::string> lines = strings_of(inflated(input, size));
    if (lines.empty() || lines.front().empty()) {
      throw bad_database("a text has no first line to name it by");
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    texts.emplace_back(text_file_name(lines.front()), std::move(text));
  }
  return texts;
}
#else
std::vector<NamedText> texts_of_r_database(std::string_view /*bytes*/) {
  throw bad_database("posenc was built without zlib");
}
#endif

}  // namespace posenc::datasets

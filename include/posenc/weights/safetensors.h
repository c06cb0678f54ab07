// Reads and writes safetensors files. Files are validated when opened, and tensors are streamed, so a
// file is never held in memory as a whole.
//
//   8 bytes   length N of the header, little-endian
//   N bytes   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3],
//              "data_offsets": [0, 24]}, ...}, padded with spaces
//   the rest  the tensors, row-major, little-endian, without gaps
//
//   const weights::Reader in("model.safetensors");
//   std::vector<std::byte> bytes = in.read(in.at("wte.weight"));
//
//   weights::Writer out("copy.safetensors", {{"wte.weight", type, shape}});
//   out.append(bytes);
//   out.commit();  // before this call "copy.safetensors" is not changed
//
// Invalid files cause an Error that names the path: a header longer than the file or than 100 MB,
// invalid or deeply nested JSON, duplicate names, unknown types, shapes that overflow, and tensors that
// overlap, leave gaps, exceed the file or have a size that does not match their shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace posenc::weights {

enum class ElementType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
// The name in the file: "BF16", "F8_E4M3".
std::string_view element_type_name(ElementType type);
std::optional<ElementType> element_type_from_name(std::string_view name);
int element_bits(ElementType type);

using Shape = std::vector<std::int64_t>;
// Bytes of a dense tensor; empty if the product overflows or is not a whole number of bytes.
std::optional<std::uint64_t> byte_length(ElementType type, const Shape& shape);
// "[2, 3]"
std::string shape_text(const Shape& shape);

// The name, type and shape of a tensor.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::kF32;
  Shape shape;

  bool operator==(const TensorSpec&) const = default;
};

// A TensorSpec with its byte range [begin, end), counted from the end of the header.
struct TensorInfo : TensorSpec {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
  bool operator==(const TensorInfo&) const = default;
};

// In the order of the file.
using Metadata = std::vector<std::pair<std::string, std::string>>;
const std::string* find_metadata(const Metadata& metadata, std::string_view key);

class Reader {
 public:
  explicit Reader(const std::string& path);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  [[nodiscard]] const std::string& path() const { return path_; }
  // In the order of their byte ranges.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  // Bytes of all tensors together.
  [[nodiscard]] std::uint64_t data_size() const { return data_size_; }

  [[nodiscard]] const TensorInfo* find(const std::string& name) const;
  // Throws Error if there is no such tensor.
  [[nodiscard]] const TensorInfo& at(const std::string& name) const;

  // Reads into.size() bytes of a tensor, starting at `offset`. Thread-safe.
  void read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> into) const;
  // All bytes of a tensor.
  [[nodiscard]] std::vector<std::byte> read(const TensorInfo& tensor) const;

 private:
  struct File;

  std::string path_;
  std::unique_ptr<File> file_;
  std::uint64_t data_begin_ = 0;
  std::uint64_t data_size_ = 0;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::unordered_map<std::string, std::size_t> index_;
};

enum class Overwrite { kRefuse, kReplace };

// Writes a temporary file in the folder of `path`; commit() renames it to `path` atomically. If commit()
// is not called, for example after an error, the temporary file is removed and `path` is not changed.
class Writer {
 public:
  Writer(const std::string& path, std::vector<TensorSpec> tensors, const Metadata& metadata = {},
         Overwrite overwrite = Overwrite::kReplace);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  // The tensors as declared, with their byte ranges.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Bytes still to be appended.
  [[nodiscard]] std::uint64_t remaining() const { return remaining_; }

  // Appends the next bytes of the tensors, in the order of their declaration. Pieces may have any length.
  void append(std::span<const std::byte> data);
  // Syncs the finished file to disk, still under its temporary name. Throws Error if bytes are missing.
  // To write several files together, sync all of them, then commit all.
  void sync();
  // Calls sync() if necessary, and renames the file to `path`.
  void commit();

 private:
  struct State;

  std::vector<TensorInfo> tensors_;
  std::uint64_t remaining_ = 0;
  std::unique_ptr<State> state_;
};

// A tensor in memory.
struct TensorData {
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

// Writes a file from tensors in memory, in the given order.
void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                       const Metadata& metadata = {}, Overwrite overwrite = Overwrite::kReplace);

}  // namespace posenc::weights

// SPDX-License-Identifier: MIT

// Reads, validates and writes the header of a safetensors file. Limits on the JSON are strict.
#pragma once

#include "posenc/weights/safetensors.h"

namespace posenc::weights {

inline constexpr std::uint64_t kLongestHeader = 100'000'000;
inline constexpr std::size_t kMostTensors = 1 << 18;
inline constexpr std::size_t kMostMetadata = 1 << 16;
inline constexpr std::size_t kLongestName = 4096;
inline constexpr std::size_t kHighestRank = 32;
inline constexpr std::size_t kPrefixLength = 8;

struct Header {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  Metadata metadata;

  bool operator==(const Header&) const = default;
};

// The length that the first eight bytes of a file announce; an Error where the file cannot hold it.
std::uint64_t header_length(std::string_view prefix, std::uint64_t file_size,
                            const std::string& path);

// Reads and checks the header of a file whose tensors take `data_size` bytes.
Header parse_header(std::string_view json, std::uint64_t data_size, const std::string& path);

// Gives every tensor its place, one after the other; an Error for names, ranks or numbers of tensors
// that parse_header would refuse.
std::vector<TensorInfo> place(std::vector<TensorSpec> tensors, const std::string& path);

// Prefix and header as they stand in the file, padded so that the tensors start at a multiple of 8.
std::string header_bytes(const Header& header, const std::string& path);

}  // namespace posenc::weights

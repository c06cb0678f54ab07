#include "weights/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "weights/json_reader.h"
#include "weights/messages.h"

namespace posenc::weights {
namespace {

// Reads the header while it is parsed: {name: {dtype, shape, data_offsets}}.
class HeaderReader : public JsonReader {
 public:
  explicit HeaderReader(const std::string& path) : JsonReader(path, "header") {}

  Header take() { return std::move(header_); }

  bool start_object(std::size_t size) override {
    if (at_ == At::kStart) return go(At::kRoot);
    if (at_ == At::kEntry) return go(At::kTensor);
    if (at_ == At::kMetadataEntry) return go(At::kMetadata);
    return JsonReader::start_object(size);
  }
  bool end_object() override {
    if (at_ == At::kTensor) add_tensor();
    return go(at_ == At::kRoot ? At::kEnd : At::kRoot);
  }
  bool start_array(std::size_t size) override {
    if (at_ == At::kShape) return go(At::kShapeList);
    if (at_ == At::kOffsets) return go(At::kOffsetsList);
    return JsonReader::start_array(size);
  }
  bool end_array() override {
    if (at_ == At::kOffsetsList && offsets_.size() != 2) {
      throw error(where() + " must have two numbers", std::to_string(offsets_.size()));
    }
    return go(At::kTensor);
  }
  bool key(string_t& name) override {
    if (at_ == At::kTensor) return field(name);
    if (at_ == At::kMetadata) return metadata_key(name);
    return entry(name);
  }
  bool string(string_t& text) override {
    if (at_ == At::kText) {
      header_.metadata.emplace_back(key_, text);
      return go(At::kMetadata);
    }
    if (at_ != At::kType) return JsonReader::string(text);
    const auto type = element_type_from_name(text);
    if (!type) throw error(where() + " must be a known type", in_quotes(text));
    tensor_.type = *type;
    return go(At::kTensor);
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (at_ == At::kOffsetsList && offsets_.size() < 2) {
      offsets_.push_back(number);
      return true;
    }
    if (at_ != At::kShapeList || number > std::numeric_limits<std::int64_t>::max()) {
      return JsonReader::number_unsigned(number);
    }
    if (tensor_.shape.size() == kHighestRank) {
      throw error(fmt::format("{} must have at most {} numbers", where(), kHighestRank));
    }
    tensor_.shape.push_back(static_cast<std::int64_t>(number));
    return true;
  }

 private:
  enum class At {
    kStart,
    kRoot,
    kEntry,  // a tensor's object must follow
    kTensor,
    kType,
    kShape,
    kShapeList,
    kOffsets,
    kOffsetsList,
    kMetadataEntry,
    kMetadata,
    kText,
    kEnd,
  };

  bool go(At at) {
    at_ = at;
    return true;
  }

  bool entry(const std::string& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata_, true)) throw error("has __metadata__ twice");
      return go(At::kMetadataEntry);
    }
    if (name.size() > kLongestName) {
      throw error(fmt::format("must have names of at most {} bytes", kLongestName),
                  in_quotes(name));
    }
    if (!names_.insert(name).second) throw error("has " + in_quotes(name) + " twice");
    if (names_.size() > kMostTensors) {
      throw error(fmt::format("must name at most {} tensors", kMostTensors), "more",
                  ErrorKind::kResource);
    }
    tensor_ = {};
    tensor_.name = name;
    offsets_.clear();
    fields_ = {};
    return go(At::kEntry);
  }

  bool field(const std::string& name) {
    constexpr std::array<std::pair<std::string_view, At>, 3> kFields = {
        {{"dtype", At::kType}, {"shape", At::kShape}, {"data_offsets", At::kOffsets}}};
    key_ = name;
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      if (kFields[i].first != name) continue;
      if (std::exchange(fields_[i], true)) throw error("has " + where() + " twice");
      return go(kFields[i].second);
    }
    throw error("must have dtype, shape and data_offsets for " + in_quotes(tensor_.name),
                in_quotes(name));
  }

  bool metadata_key(const std::string& name) {
    if (!metadata_names_.insert(name).second) {
      throw error("has " + in_quotes(name) + " of __metadata__ twice");
    }
    if (metadata_names_.size() > kMostMetadata) {
      throw error(fmt::format("must have at most {} entries of __metadata__", kMostMetadata),
                  "more", ErrorKind::kResource);
    }
    key_ = name;
    return go(At::kText);
  }

  void add_tensor() {
    if (!fields_[0] || !fields_[1] || !fields_[2]) {
      throw error("must have dtype, shape and data_offsets for " + in_quotes(tensor_.name));
    }
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    header_.tensors.push_back(std::move(tensor_));
  }

  bool refuse(const std::string& what) override {
    if (at_ == At::kStart) throw error("must be a JSON object", what);
    if (at_ == At::kText) {
      throw error(in_quotes(key_) + " of __metadata__ must be a text", what);
    }
    if (at_ == At::kMetadataEntry) throw error("__metadata__ must be an object of texts", what);
    if (at_ == At::kEntry) throw error(in_quotes(tensor_.name) + " must be an object", what);
    if (at_ == At::kType) throw error(where() + " must be a text", what);
    throw error(where() + " must be a list of whole numbers from 0 on", what);
  }

  // "shape of 'wte.weight'"
  [[nodiscard]] std::string where() const { return key_ + " of " + in_quotes(tensor_.name); }

  At at_ = At::kStart;
  Header header_;
  bool has_metadata_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_names_;
  std::string key_;  // of the field or of the metadata
  TensorInfo tensor_;
  std::vector<std::uint64_t> offsets_;
  std::array<bool, 3> fields_ = {};  // dtype, shape, data_offsets
};

Error lie(const std::string& path, const TensorInfo& tensor, const std::string& rule) {
  return file_error(ErrorKind::kConflict, path, in_quotes(tensor.name), rule, "", kDamaged);
}

void check_tensor(const TensorInfo& tensor, std::uint64_t data_size, const std::string& path) {
  if (tensor.begin > tensor.end) {
    throw lie(path, tensor,
              fmt::format("ends ({}) before it begins ({})", tensor.end, tensor.begin));
  }
  if (tensor.end > data_size) {
    throw lie(path, tensor, fmt::format("ends at byte {} of {}", tensor.end, data_size));
  }
  const auto length = byte_length(tensor.type, tensor.shape);
  const std::string what =
      fmt::format("{} {}", element_type_name(tensor.type), shape_text(tensor.shape));
  if (!length) throw lie(path, tensor, "has a shape without a byte length, " + what);
  if (*length != tensor.size()) {
    throw lie(path, tensor,
              fmt::format("has {} bytes, but {} takes {}", tensor.size(), what, *length));
  }
}

// After sorting, each tensor must begin where the one before it ended.
void check_places(const Header& header, std::uint64_t data_size, const std::string& path) {
  std::uint64_t reached = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin < reached) {
      throw lie(path, tensor, fmt::format("overlaps another tensor at byte {}", tensor.begin));
    }
    if (tensor.begin > reached) {
      throw lie(path, tensor,
                fmt::format("leaves a gap before it from byte {} to {}", reached, tensor.begin));
    }
    reached = tensor.end;
  }
  if (reached != data_size) {
    throw file_error(ErrorKind::kConflict, path, "",
                     fmt::format("has {} bytes that belong to no tensor", data_size - reached), "",
                     kDamaged);
  }
}

}  // namespace

std::uint64_t header_length(std::string_view prefix, std::uint64_t file_size,
                            const std::string& path) {
  if (prefix.size() < kPrefixLength || file_size < kPrefixLength) {
    throw file_error(ErrorKind::kSyntax, path, "", "must have at least 8 bytes",
                     std::to_string(file_size), kDamaged);
  }
  std::uint64_t length = 0;
  for (std::size_t i = kPrefixLength; i-- > 0;) {
    length = length << 8U | static_cast<unsigned char>(prefix[i]);
  }
  const std::uint64_t most = std::min(kLongestHeader, file_size - kPrefixLength);
  if (length > most) {
    throw file_error(ErrorKind::kSyntax, path, "header",
                     fmt::format("must have at most {} bytes", most), std::to_string(length),
                     kDamaged);
  }
  return length;
}

Header parse_header(std::string_view json, std::uint64_t data_size, const std::string& path) {
  if (json.empty() || json.front() != '{') {
    throw file_error(ErrorKind::kSyntax, path, "header", "must be a JSON object", "", kDamaged);
  }
  HeaderReader reader(path);
  reader.walk(json);
  Header header = reader.take();
  for (const TensorInfo& tensor : header.tensors) check_tensor(tensor, data_size, path);
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  check_places(header, data_size, path);
  return header;
}

}  // namespace posenc::weights

#include "posenc/core/error.h"
#include "posenc/weights/safetensors.h"
#include "system/files.h"
#include "weights/header.h"
#include "weights/messages.h"

namespace posenc::weights {

struct Reader::File : InputFile {
  using InputFile::InputFile;
};

Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

Reader::Reader(const std::string& path) : path_(path), file_(std::make_unique<File>(path)) {
  const std::string prefix =
      file_->read_text(0, std::min<std::size_t>(kPrefixLength, file_->size()));
  const std::uint64_t length = header_length(prefix, file_->size(), path);
  data_begin_ = kPrefixLength + length;
  data_size_ = file_->size() - data_begin_;
  Header header = parse_header(file_->read_text(kPrefixLength, length), data_size_, path);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const TensorInfo* Reader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo& Reader::at(const std::string& name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  throw file_error(ErrorKind::kMissingKey, path_, "", "has no tensor " + in_quotes(name), "", "");
}

void Reader::read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > tensor.size() || into.size() > tensor.size() - offset || tensor.end > data_size_) {
    throw file_error(ErrorKind::kOutOfRange, path_, in_quotes(tensor.name),
                     "has " + std::to_string(tensor.size()) + " bytes",
                     std::to_string(into.size()) + " from byte " + std::to_string(offset), "");
  }
  file_->read(data_begin_ + tensor.begin + offset, into);
}

std::vector<std::byte> Reader::read(const TensorInfo& tensor) const {
  std::vector<std::byte> bytes(tensor.size());
  read(tensor, 0, bytes);
  return bytes;
}

}  // namespace posenc::weights

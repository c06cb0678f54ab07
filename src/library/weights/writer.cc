#include <fmt/format.h>

#include "posenc/core/error.h"
#include "posenc/weights/safetensors.h"
#include "system/files.h"
#include "weights/header.h"
#include "weights/messages.h"

namespace posenc::weights {
namespace {

Error length_error(const std::string& path, const std::string& rule, std::uint64_t value) {
  return file_error(ErrorKind::kWrongLength, path, "", rule, std::to_string(value), "");
}

}  // namespace

struct Writer::State {
  State(const std::string& path, Overwrite overwrite)
      : file(path, overwrite == Overwrite::kReplace) {}
  AtomicFile file;
};

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

Writer::Writer(const std::string& path, std::vector<TensorSpec> tensors, const Metadata& metadata,
               Overwrite overwrite)
    : tensors_(place(std::move(tensors), path)) {
  const std::string header = header_bytes({tensors_, metadata}, path);
  if (!tensors_.empty()) remaining_ = tensors_.back().end;
  state_ = std::make_unique<State>(path, overwrite);
  state_->file.write(header);
}

void Writer::append(std::span<const std::byte> data) {
  if (data.size() > remaining_) {
    throw length_error(state_->file.path(),
                       fmt::format("takes {} bytes more of its tensors", remaining_), data.size());
  }
  state_->file.write(data);
  remaining_ -= data.size();
}

void Writer::sync() {
  if (remaining_ > 0) {
    throw length_error(state_->file.path(),
                       "must have all bytes of its tensors before it is committed",
                       tensors_.back().end - remaining_);
  }
  state_->file.sync();
}

void Writer::commit() {
  sync();
  state_->file.commit();
}

void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                       const Metadata& metadata, Overwrite overwrite) {
  std::vector<TensorSpec> specs;
  for (const TensorData& tensor : tensors) {
    const auto length = byte_length(tensor.spec.type, tensor.spec.shape);
    if (length != tensor.bytes.size()) {
      throw length_error(
          path,
          fmt::format("needs as many bytes for {} as {} {} takes", in_quotes(tensor.spec.name),
                      element_type_name(tensor.spec.type), shape_text(tensor.spec.shape)),
          tensor.bytes.size());
    }
    specs.push_back(tensor.spec);
  }
  Writer writer(path, std::move(specs), metadata, overwrite);
  for (const TensorData& tensor : tensors) writer.append(tensor.bytes);
  writer.commit();
}

}  // namespace posenc::weights

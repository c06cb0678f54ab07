#include "pretrained/floats.h"

#include <cstring>

#include "posenc/core/tensor_view.h"
#include "system/file_errors.h"

namespace posenc::pretrained {
namespace {

template <class Widen>
std::vector<float> widened(const std::vector<std::byte>& bytes, const Widen& widen) {
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = widen(bits);
  }
  return values;
}

}  // namespace

std::vector<float> read_floats(const weights::Reader& reader, const weights::TensorInfo& tensor) {
  using weights::ElementType;
  if (tensor.type == ElementType::kF32) {
    std::vector<float> values(tensor.size() / sizeof(float));
    reader.read(tensor, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  if (tensor.type == ElementType::kBf16) return widened(reader.read(tensor), bfloat16_to_float);
  if (tensor.type == ElementType::kF16) return widened(reader.read(tensor), float16_to_float);
  throw file_error(ErrorKind::kUnsupported, reader.path(), "'" + tensor.name + "'",
                   "must be F32, BF16 or F16", std::string(element_type_name(tensor.type)),
                   "convert the file first");
}

}  // namespace posenc::pretrained

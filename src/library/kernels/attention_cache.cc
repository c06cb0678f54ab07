#include "kernels/attention_cache.h"

#include "kernels/attention_reference.h"
#include "kernels/view_checks.h"

namespace posenc {
namespace {

constexpr const char* kOp = "attention";
using Long = long long;

Status check_scales(const char* name, const ConstTensorView& scales, const char* of,
                    const ConstTensorView& rows) noexcept {
  if (rows.dtype != DType::kInt8) {
    if (!scales.present()) return {};
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention] %s must not be given: %s is %s, and only int8 has scales",
                          name, of, dtype_name(rows.dtype));
  }
  if (rows.empty()) return {};
  const TensorShape wanted = {rows.batch(), rows.heads(), rows.tokens(), 1};
  if (!scales.present() || scales.dtype != DType::kFloat32 || scales.shape != wanted) {
    return Status::format(
        StatusCode::kInvalidArgument,
        "[attention] %s must be float32 [%lld, %lld, %lld, 1], since %s is int8, but got %s "
        "[%lld, %lld, %lld, %lld]; quantize_rows writes them",
        name, static_cast<Long>(wanted[0]), static_cast<Long>(wanted[1]),
        static_cast<Long>(wanted[2]), of, scales.present() ? dtype_name(scales.dtype) : "null",
        static_cast<Long>(scales.shape[0]), static_cast<Long>(scales.shape[1]),
        static_cast<Long>(scales.shape[2]), static_cast<Long>(scales.shape[3]));
  }
  return check_view(kOp, name, scales);
}

}  // namespace

Status check_cache(const AttentionCall& call) {
  if (Status s = check_scales("k_scales", call.k_scales, "k", call.k); !s.ok()) return s;
  if (Status s = check_scales("v_scales", call.v_scales, "v", call.v); !s.ok()) return s;
  const bool quantized = call.k.dtype == DType::kInt8 || call.v.dtype == DType::kInt8;
  if (!quantized) return {};
  const std::string obstacle = decode_obstacle(call);
  if (obstacle.empty()) return {};
  return Status::format(StatusCode::kUnsupported,
                        "[attention] %s is int8, which only decode steps read, but the call is not "
                        "one: %s; multiply it by its scales (C++ and C: dequantize_rows)",
                        call.k.dtype == DType::kInt8 ? "k" : "v", obstacle.c_str());
}

void RowScales::apply(float* numbers, std::size_t count) const {
  for (std::size_t j = 0; j < count; ++j)
    numbers[j] *= first[static_cast<std::ptrdiff_t>(j) * stride];
}

RowScales scales_of(const ConstTensorView& rows, const ConstTensorView& scales, std::int64_t batch,
                    std::int64_t kv_head, std::int64_t token) {
  if (rows.dtype != DType::kInt8) return {};
  const auto* data =
      static_cast<const std::byte*>(scales.data) + scales.row_offset(batch, kv_head, token);
  return {reinterpret_cast<const float*>(data), static_cast<std::ptrdiff_t>(scales.stride[2])};
}

}  // namespace posenc

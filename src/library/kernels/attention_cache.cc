#include "kernels/attention_cache.h"

#include "kernels/attention_reference.h"
#include "kernels/paged_cache.h"
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
  const auto run = [&](std::int64_t place, std::int64_t tokens, const std::byte* data) {
    const auto* scale = reinterpret_cast<const float*>(data);
    for (std::int64_t j = 0; j < tokens; ++j) numbers[place + j] *= scale[j * scales->stride[2]];
  };
  for_each_run(*table, *scales, batch, kv_head, first, static_cast<std::int64_t>(count), run);
}

RowScales scales_of(const AttentionCall& call, const ConstTensorView& rows,
                    const ConstTensorView& scales, std::int64_t batch, std::int64_t kv_head,
                    std::int64_t token) {
  if (rows.dtype != DType::kInt8) return {};
  return {&call.block_table, &scales, batch, kv_head, token};
}

}  // namespace posenc

#include "posenc/kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/thread_pool.h"
#include "kernels/attention_plan.h"
#include "kernels/guarded.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

using Long = long long;
constexpr double kLargest = 127.0;

Status check_type(const char* op, const char* name, const ConstTensorView& view,
                  DType wanted) noexcept {
  if (view.dtype == wanted) return {};
  return Status::format(StatusCode::kInvalidArgument, "[%s] %s must be %s but got %s", op, name,
                        dtype_name(wanted), dtype_name(view.dtype));
}

Status check_shape(const char* op, const char* name, const ConstTensorView& view,
                   const TensorShape& wanted) noexcept {
  if (view.shape == wanted) return {};
  return Status::format(
      StatusCode::kInvalidArgument,
      "[%s] %s must have the shape [%lld, %lld, %lld, %lld] but got [%lld, %lld, %lld, %lld]", op,
      name, static_cast<Long>(wanted[0]), static_cast<Long>(wanted[1]),
      static_cast<Long>(wanted[2]), static_cast<Long>(wanted[3]), static_cast<Long>(view.shape[0]),
      static_cast<Long>(view.shape[1]), static_cast<Long>(view.shape[2]),
      static_cast<Long>(view.shape[3]));
}

Status check_rows(const char* op, const ConstTensorView& x, const ConstTensorView& quantized,
                  const ConstTensorView& scales) noexcept {
  if (Status s = check_view(op, "x", x); !s.ok()) return s;
  if (Status s = check_cache_view(op, "quantized", quantized); !s.ok()) return s;
  if (Status s = check_view(op, "scales", scales); !s.ok()) return s;
  if (Status s = check_type(op, "quantized", quantized, DType::kInt8); !s.ok()) return s;
  if (Status s = check_type(op, "scales", scales, DType::kFloat32); !s.ok()) return s;
  if (Status s = check_shape(op, "quantized", quantized, x.shape); !s.ok()) return s;
  return check_shape(op, "scales", scales, {x.batch(), x.heads(), x.tokens(), 1});
}

// Types differ, so not even in place.
Status check_apart(const char* op, const char* name, const TensorView& out,
                   const ConstTensorView& in) noexcept {
  if (out.data == in.data) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s must not overlap its input", op,
                          name);
  }
  return check_output(op, name, out, in);
}

// Calls body(b, h, t, memory for a row) for every row.
template <class Body>
void for_each_row(const ConstTensorView& x, const Body& body) {
  const auto channels = static_cast<std::size_t>(x.channels());
  std::vector<std::vector<float>> rows(static_cast<std::size_t>(num_threads()),
                                       std::vector<float>(channels));
  parallel_for(x.batch() * x.heads() * x.tokens(), [&](std::int64_t task, int worker) {
    const std::int64_t head = task / x.tokens();
    body(head / x.heads(), head % x.heads(), task % x.tokens(),
         rows[static_cast<std::size_t>(worker)]);
  });
}

float scale_of_row(const std::vector<float>& row) {
  float largest = 0.0f;
  for (const float x : row) {
    if (!std::isfinite(x)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(x));
  }
  return static_cast<float>(static_cast<double>(largest) / kLargest);
}

std::int8_t quantized_of(float x, float scale) {
  if (!(scale > 0.0f)) return 0;  // zeros, or a NaN
  const double n = std::nearbyint(static_cast<double>(x) / static_cast<double>(scale));
  return static_cast<std::int8_t>(std::clamp(n, -kLargest, kLargest));
}

template <class Element, class View>
auto* row_at(const View& view, std::int64_t b, std::int64_t h, std::int64_t t) {
  using Byte = std::conditional_t<std::is_const_v<Element>, const std::byte, std::byte>;
  return reinterpret_cast<Element*>(static_cast<Byte*>(view.data) + view.row_offset(b, h, t));
}

}  // namespace

Status quantize_rows(const ConstTensorView& x, const TensorView& quantized,
                     const TensorView& scales) noexcept {
  constexpr const char* kOp = "quantize_rows";
  if (Status s = check_rows(kOp, x, quantized, scales); !s.ok()) return s;
  if (x.empty()) return {};
  if (Status s = check_apart(kOp, "quantized", quantized, x); !s.ok()) return s;
  if (Status s = check_apart(kOp, "scales", scales, x); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    for_each_row(x, [&](std::int64_t b, std::int64_t h, std::int64_t t, std::vector<float>& row) {
      read_row(x, b, h, t, row.size(), row.data());
      const float scale = scale_of_row(row);
      *row_at<float>(scales, b, h, t) = scale;
      auto* to = row_at<std::int8_t>(quantized, b, h, t);
      std::transform(row.begin(), row.end(), to, [&](float v) { return quantized_of(v, scale); });
    });
    return {};
  });
}

Status dequantize_rows(const ConstTensorView& quantized, const ConstTensorView& scales,
                       const TensorView& x) noexcept {
  constexpr const char* kOp = "dequantize_rows";
  if (Status s = check_rows(kOp, x, quantized, scales); !s.ok()) return s;
  if (x.empty()) return {};
  if (Status s = check_apart(kOp, "x", x, quantized); !s.ok()) return s;
  if (Status s = check_apart(kOp, "x", x, scales); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    for_each_row(x, [&](std::int64_t b, std::int64_t h, std::int64_t t, std::vector<float>& row) {
      read_row(quantized, b, h, t, row.size(), row.data());
      const float scale = *row_at<const float>(scales, b, h, t);
      for (float& v : row) v *= scale;
      write_row(x, b, h, t, row.data());
    });
    return {};
  });
}

}  // namespace posenc

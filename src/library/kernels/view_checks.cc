#include "kernels/view_checks.h"

#include <algorithm>
#include <cstdlib>

namespace posenc {
namespace {

using Long = long long;

struct Extent {
  std::uintptr_t begin;
  std::uintptr_t end;
};

// The bytes between the first and the last element.
Extent extent_of(const ConstTensorView& view) noexcept {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t d = 0; d < 4; ++d) {
    const std::int64_t reach = (view.shape[d] - 1) * view.stride[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = static_cast<std::int64_t>(dtype_size(view.dtype));
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  return {base + static_cast<std::uintptr_t>(low * size),
          base + static_cast<std::uintptr_t>((high + 1) * size)};
}

// Whether two indices of an output share an element: each stride must step over all smaller ones.
bool overlaps_itself(const TensorView& view) noexcept {
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(view.stride[a]) < std::abs(view.stride[b]);
  });
  std::int64_t covered = 0;
  for (const std::size_t d : order) {
    if (view.shape[d] <= 1) continue;
    if (std::abs(view.stride[d]) <= covered) return true;
    covered += (view.shape[d] - 1) * std::abs(view.stride[d]);
  }
  return false;
}

}  // namespace

Status check_view(const char* op, const char* name, const ConstTensorView& view) noexcept {
  if (view.dtype == DType::kInt8) {
    return Status::format(
        StatusCode::kInvalidArgument,
        "[%s] %s must be float32, bfloat16 or float16 but got int8, which only "
        "the cache of a decode step may be; multiply it by its scales (C++ and C: dequantize_rows)",
        op, name);
  }
  return check_cache_view(op, name, view);
}

Status check_cache_view(const char* op, const char* name, const ConstTensorView& view) noexcept {
  for (const std::int64_t size : view.shape) {
    if (size < 0) {
      return Status::format(StatusCode::kInvalidArgument, "[%s] %s has a negative size (%lld)", op,
                            name, static_cast<Long>(size));
    }
  }
  if (view.empty()) return {};
  if (view.data == nullptr) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s must not be null", op, name);
  }
  if (view.stride[3] != 1 && view.channels() > 1) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must have contiguous channels but got stride %lld", op, name,
                          static_cast<Long>(view.stride[3]));
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % dtype_size(view.dtype) != 0) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s is not aligned to its elements",
                          op, name);
  }
  return {};
}

Status check_same_shape(const char* op, const char* name, const ConstTensorView& view,
                        const char* other_name, const ConstTensorView& other) noexcept {
  if (view.dtype != other.dtype) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s must be %s as %s is but got %s",
                          op, name, dtype_name(other.dtype), other_name, dtype_name(view.dtype));
  }
  if (view.shape == other.shape) return {};
  const auto& a = other.shape;
  const auto& b = view.shape;
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] %s must have the shape of %s [%lld, %lld, %lld, %lld] but got "
                        "[%lld, %lld, %lld, %lld]",
                        op, name, other_name, static_cast<Long>(a[0]), static_cast<Long>(a[1]),
                        static_cast<Long>(a[2]), static_cast<Long>(a[3]), static_cast<Long>(b[0]),
                        static_cast<Long>(b[1]), static_cast<Long>(b[2]), static_cast<Long>(b[3]));
}

Status check_output(const char* op, const char* name, const TensorView& out,
                    const ConstTensorView& in) noexcept {
  if (out.empty()) return {};
  if (overlaps_itself(out)) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s has strides that write one element twice", op, name);
  }
  if (out.data == in.data && out.stride == in.stride) return {};
  const Extent a = extent_of(out);
  const Extent b = extent_of(in);
  if (a.begin < b.end && b.begin < a.end) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must be its input (in place) or must not overlap it", op, name);
  }
  return {};
}

}  // namespace posenc

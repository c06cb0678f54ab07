#include "kernels/cuda/rope_arguments.h"
#include "kernels/view_checks.h"

namespace posenc::cuda {
namespace {

using Long = long long;

}  // namespace

Status check_rope_side(const char* op, const char* name, const ConstTensorView& x,
                       const Rotary& rotary) noexcept {
  if (Status s = check_view(op, name, x); !s.ok()) return s;
  if (x.channels() != rotary.head_dim) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] %s must have head_dim %lld channels but got %lld", op, name,
                          static_cast<Long>(rotary.head_dim), static_cast<Long>(x.channels()));
  }
  if (x.heads() % rotary.groups() == 0) return {};
  return Status::format(
      StatusCode::kInvalidArgument,
      "[%s] %s must have a multiple of %lld heads, one set of frequencies each, but got %lld", op,
      name, static_cast<Long>(rotary.groups()), static_cast<Long>(x.heads()));
}

Status check_rope_sides(const char* op, const ConstTensorView& q, const ConstTensorView& k,
                        const Rotary* rotary, const RotaryTables& tables) noexcept {
  if (rotary == nullptr) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] rotary must not be null", op);
  }
  if (Status s = check_rope_side(op, "q", q, *rotary); !s.ok()) return s;
  if (k.present()) {
    if (Status s = check_rope_side(op, "k", k, *rotary); !s.ok()) return s;
    if (k.batch() != q.batch() || k.tokens() != q.tokens() || k.dtype != q.dtype) {
      return Status::format(StatusCode::kInvalidArgument,
                            "[%s] k must have the batch, tokens and type of q (%lld, %lld, %s) but "
                            "got %lld, %lld, %s",
                            op, static_cast<Long>(q.batch()), static_cast<Long>(q.tokens()),
                            dtype_name(q.dtype), static_cast<Long>(k.batch()),
                            static_cast<Long>(k.tokens()), dtype_name(k.dtype));
    }
  }
  if (tables.rows > 0 && (tables.query == nullptr || tables.key == nullptr)) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] tables must not be null", op);
  }
  if (rotary->axes.axes > 1 && rotary->pairs() > kMostAxisPairs) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] several axes are for at most %d pairs on CUDA but got %lld", op,
                          kMostAxisPairs, static_cast<Long>(rotary->pairs()));
  }
  return {};
}

DevicePositions device_positions(const PositionsView& positions) noexcept {
  DevicePositions device;
  if (positions.ids != nullptr) {
    device.form = positions.ids_are_64_bit ? PositionsForm::kIds64 : PositionsForm::kIds32;
    device.data = positions.ids;
    device.batch_stride = positions.batch_stride;
    device.token_stride = positions.token_stride;
    device.axis_stride = positions.axis_stride;
  } else if (!positions.offsets.empty()) {
    device.form = PositionsForm::kOffsets;
    device.data = positions.offsets.data();
  } else if (!positions.cumulative.empty()) {
    device.form = PositionsForm::kCumulative;
    device.data = positions.cumulative.data();
    device.count = static_cast<std::int64_t>(positions.cumulative.size());
  }
  return device;
}

DeviceAngles device_angles(const Rotary& rotary, const RotaryTables& tables) noexcept {
  DeviceAngles angles;
  angles.query = tables.query;
  angles.key = tables.key;
  angles.first = tables.first;
  angles.rows = tables.rows;
  angles.groups = static_cast<int>(rotary.groups());
  angles.pairs = static_cast<int>(rotary.pairs());
  angles.axes = static_cast<int>(rotary.axes.axes);
  for (int p = 0; angles.axes > 1 && p < angles.pairs; ++p) {
    angles.axis_of_pair[p] =
        static_cast<unsigned char>(rotary.axes.axis_of_pair[static_cast<std::size_t>(p)]);
  }
  return angles;
}

}  // namespace posenc::cuda

// Converts a launcher's arguments to the kernels' parameters.
#pragma once

#include "kernels/cuda/device/rope.cuh"
#include "kernels/cuda/rope.h"

namespace posenc::cuda {

Status check_rope_side(const char* op, const char* name, const ConstTensorView& x,
                       const Rotary& rotary) noexcept;
Status check_rope_sides(const char* op, const ConstTensorView& q, const ConstTensorView& k,
                        const Rotary* rotary, const RotaryTables& tables) noexcept;

DevicePositions device_positions(const PositionsView& positions) noexcept;
DeviceAngles device_angles(const Rotary& rotary, const RotaryTables& tables) noexcept;

}  // namespace posenc::cuda

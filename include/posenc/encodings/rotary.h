// Rotary: a rotation (rope, xpos) resolved for a head dimension and a length. Rotation kernels read
// only this struct and its cos/sin tables; schedules, axes and xPos are already applied.
#pragma once

#include <span>

#include "posenc/encodings/rope.h"
#include "posenc/encodings/xpos.h"

namespace posenc {

// xPos scales queries and keys in opposite directions; RoPE treats them the same.
enum class Role { kQuery, kKey };

struct Rotary {
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  std::int64_t dim_offset = 0;
  PairLayout layout = PairLayout::kHalf;
  bool inverse = false;
  Precision precision = Precision::kExact;

  AxisPlan axes;
  std::vector<std::vector<double>> inv_freq;  // [groups of heads][rotary_dim/2]
  double attention_factor = 1.0;              // multiplies cos and sin
  double softmax_factor = 1.0;                // multiplies the softmax scale

  // xPos only: magnitude zeta[p]^(+-(n - center)/scale_base); empty for RoPE.
  std::vector<double> log_zeta;
  double scale_base = 1.0;
  double center = 0.0;

  [[nodiscard]] std::int64_t pairs() const { return rotary_dim / 2; }
  [[nodiscard]] std::int64_t groups() const { return std::ssize(inv_freq); }
  // The group of frequencies for a head.
  [[nodiscard]] std::int64_t group_of(std::int64_t head, std::int64_t heads) const {
    return head * groups() / heads;
  }
  // Channels of a pair: {dim_offset + p, dim_offset + p + rotary_dim/2}, or adjacent (interleaved).
  [[nodiscard]] std::array<std::size_t, 2> channels(std::int64_t pair) const;
  // Angle in radians, rounded according to `precision`; negative for an inverse rotation.
  [[nodiscard]] double angle(std::int64_t group, std::int64_t pair, std::int64_t position) const;
  // Magnitude at a position: the attention factor times xPos's power of zeta.
  [[nodiscard]] double magnitude(Role role, std::int64_t pair, std::int64_t position) const;
};

// Throws Error if the config does not fit the shape. `alpha` is the parameter of the learnable
// schedule (one per pair); empty means its initial value, zero.
Rotary make_rotary(const Rope& config, const ModelShape& shape, const Lengths& lengths,
                   std::span<const double> alpha = {});
Rotary make_rotary(const Xpos& config, const ModelShape& shape, const Lengths& lengths);

// Cos and sin of one pair at one position, magnitude included.
struct CosSin {
  double cos;
  double sin;
};
CosSin rotary_entry(const Rotary& rotary, Role role, std::int64_t group, std::int64_t pair,
                    std::int64_t position);

// Writes cos and sin (pairs() each, magnitude included) at a position with one coordinate per axis.
void rotary_row(const Rotary& rotary, Role role, std::int64_t group,
                std::span<const std::int64_t> position, std::span<double> cos,
                std::span<double> sin);

// Rotates one head's vector (head_dim channels) in place by a row of cos and sin.
void rotate(const Rotary& rotary, std::span<const double> cos, std::span<const double> sin,
            std::span<double> head);
// The transpose: the gradient of rotate with respect to its vector.
void rotate_transposed(const Rotary& rotary, std::span<const double> cos,
                       std::span<const double> sin, std::span<double> head);

// How rerotate treats the attention factor when the schedule changes.
enum class RerotateMagnitude {
  kUnit,   // keep norms: a pure rotation (the default)
  kTarget  // apply the target's attention factor: equal to rotating the original key with `to`
};

// Moves a rotated key from one position to another by a pure rotation: the key already contains the
// attention factor, which must not be applied twice. Pass another Rotary of the same geometry as
// `to` to change the schedule. One coordinate per axis.
void rerotate(const Rotary& from, std::span<const std::int64_t> from_position, const Rotary& to,
              std::span<const std::int64_t> to_position, std::int64_t group, std::span<double> key,
              RerotateMagnitude magnitude = RerotateMagnitude::kUnit);
// Shifts a rotated key by delta positions along every axis: the context shift of a key cache.
void rerotate(const Rotary& rotary, std::int64_t delta, std::int64_t group, std::span<double> key);

}  // namespace posenc

// SPDX-License-Identifier: MIT

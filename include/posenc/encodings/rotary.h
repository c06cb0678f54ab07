// Rotary: a site-2 encoding made ready for a head and a length. The rotation kernels read only this
// and the tables of cos and sin made from it; they know neither schedules nor axes nor xPos.
#pragma once

#include <span>

#include "posenc/encodings/rope.h"
#include "posenc/encodings/xpos.h"

namespace posenc {

// xPos scales queries and keys in opposite directions; plain RoPE treats them alike.
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
  // Group of frequencies that a head uses.
  [[nodiscard]] std::int64_t group_of(std::int64_t head, std::int64_t heads) const {
    return head * groups() / heads;
  }
  // Channels of a pair: {dim_offset + p, dim_offset + p + rotary_dim/2} or neighbours.
  [[nodiscard]] std::array<std::size_t, 2> channels(std::int64_t pair) const;
  // Angle in radians, rounded as the precision says; negative for an inverse rotation.
  [[nodiscard]] double angle(std::int64_t group, std::int64_t pair, std::int64_t position) const;
  // Magnitude of a row at a position: the attention factor, and xPos's power.
  [[nodiscard]] double magnitude(Role role, std::int64_t pair, std::int64_t position) const;
};

// Throws where the config does not fit the shape. `alpha` is the parameter of the learnable
// schedule (one per pair), empty for its start at zero.
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

// The row of cos and sin (pairs() each, magnitude included) at a position, one coordinate per axis.
void rotary_row(const Rotary& rotary, Role role, std::int64_t group,
                std::span<const std::int64_t> position, std::span<double> cos,
                std::span<double> sin);

// Turns one head's vector (head_dim channels) by a row of cos and sin, in place.
void rotate(const Rotary& rotary, std::span<const double> cos, std::span<const double> sin,
            std::span<double> head);
// The transpose: the gradient of rotate with respect to its vector.
void rotate_transposed(const Rotary& rotary, std::span<const double> cos,
                       std::span<const double> sin, std::span<double> head);

// What becomes of a schedule's magnitude when keys move to another schedule.
enum class RerotateMagnitude {
  kUnit,   // leave lengths as they are: the move is a pure rotation (the default)
  kTarget  // give the keys the target's attention factor: equal to rotating afresh under the target
};

// Moves an already rotated key from one position to another, by rotation alone: the attention
// factor is in the key already and must not be applied twice. From one schedule to another when
// `to` is another Rotary of the same geometry. One coordinate per axis.
void rerotate(const Rotary& from, std::span<const std::int64_t> from_position, const Rotary& to,
              std::span<const std::int64_t> to_position, std::int64_t group, std::span<double> key,
              RerotateMagnitude magnitude = RerotateMagnitude::kUnit);
// The same schedule, delta positions on along every axis: the context shift of a key cache.
void rerotate(const Rotary& rotary, std::int64_t delta, std::int64_t group, std::span<double> key);

}  // namespace posenc

#include <algorithm>

#include "kernels/attention_plan.h"

namespace posenc {

RowTurner::RowTurner(const AttentionSetup& setup) : setup_(setup) {
  std::size_t raw = 0;
  std::size_t pairs = 0;
  for (const RotaryCache* tables : setup.tables) {
    plans_.push_back(rope_plan(tables->rotary(), DType::kFloat32));
    raw = std::max(raw, tables->row_floats());
    pairs = std::max(pairs, plans_.back().pairs);
  }
  raw_.resize(raw);
  for (AlignedFloats* buffer : {&cos_, &sin_, &pair_sums_}) buffer->resize(pairs);
  for (AlignedFloats* buffer : {&expanded_cos_, &expanded_sin_}) buffer->resize(2 * pairs);
  before_.resize(setup.padded_dim);
  window_.resize(4 * pairs);
}

std::int64_t RowTurner::position(Role role, std::int64_t batch, std::int64_t token,
                                 std::int64_t axis) const {
  const bool query = role == Role::kQuery;
  const std::int64_t tokens = query ? setup_.call->q.tokens() : setup_.call->k.tokens();
  const auto& ids = query ? setup_.q_ids : setup_.k_ids;
  return ids[(batch * tokens + token) * setup_.axes + axis];
}

std::int64_t RowTurner::key_of(const Token& token) const {
  if (token.role == Role::kKey) return token.index;
  return setup_.own_keys[token.batch * setup_.call->q.tokens() + token.index];
}

// The table's own row where it has the right form.
cpu::RopeAngles RowTurner::table_angles(std::size_t encoding, const Token& token) {
  const RotaryCache& tables = *setup_.tables[encoding];
  const Rotary& rotary = tables.rotary();
  const std::size_t pairs = plans_[encoding].pairs;
  const std::size_t start =
      static_cast<std::size_t>(rotary.group_of(token.head, token.heads)) * pairs;
  if (rotary.axes.axes == 1) {
    const RotaryCache::Row row =
        tables.row(token.role, position(token.role, token.batch, token.index, 0), raw_);
    return {row.cos + start, row.sin + start};
  }
  for (std::int64_t axis = 0; axis < rotary.axes.axes; ++axis) {
    const RotaryCache::Row row =
        tables.row(token.role, position(token.role, token.batch, token.index, axis), raw_);
    for (std::size_t p = 0; p < pairs; ++p) {
      if (rotary.axes.axis_of_pair[p] != axis) continue;
      cos_[p] = row.cos[start + p];
      sin_[p] = row.sin[start + p];
    }
  }
  return {cos_.data(), sin_.data()};
}

cpu::RopeAngles RowTurner::input_angles(std::size_t encoding, const Token& token) const {
  const AttentionSetup::InputAngles& angles = setup_.input_angles[encoding];
  const std::int64_t key = key_of(token);
  if (key < 0) return {angles.still_cos.data(), angles.still_sin.data()};
  const std::int64_t kv_heads = setup_.state->kv_heads;
  const std::int64_t row =
      (token.batch * kv_heads + token.head * kv_heads / token.heads) * angles.keys + key -
      angles.first;
  const std::size_t at = static_cast<std::size_t>(row) * plans_[encoding].pairs;
  return {angles.cos.data() + at, angles.sin.data() + at};
}

void RowTurner::load(std::size_t encoding, const Token& token) {
  const bool of_input =
      !setup_.input_angles.empty() && !setup_.input_angles[encoding].still_cos.empty();
  const cpu::RopeAngles raw =
      of_input ? input_angles(encoding, token) : table_angles(encoding, token);
  angles_ = raw;
  if (!plans_[encoding].interleaved) return;
  cpu::expand_angles(plans_[encoding], raw.cos, raw.sin, expanded_cos_.data(),
                     expanded_sin_.data());
  angles_ = {expanded_cos_.data(), expanded_sin_.data()};
}

void RowTurner::turn(std::size_t encoding, bool back, float* row) {
  auto* bytes = reinterpret_cast<std::byte*>(row);
  cpu::RopeRowPlan plan = plans_[encoding];
  plan.back = back;
  cpu::turn_rows(plan, bytes, 0, bytes, 0, 1, angles_, 0);
}

void RowTurner::forward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                        std::int64_t token, float* row) {
  for (std::size_t e = 0; e < plans_.size(); ++e) {
    load(e, {role, head, heads, batch, token});
    turn(e, false, row);
  }
}

// y1 dy2 - y2 dy1 of every pair, where y is `before` rotated by the angles and dy is `row`. Back, the angles count
// negative.
void RowTurner::add_angle_gradient(std::size_t encoding, const Token& token, bool back,
                                   const float* before, const float* row, double* gradient,
                                   std::int64_t first_key) {
  const Rotary& rotary = setup_.tables[encoding]->rotary();
  const std::size_t pairs = plans_[encoding].pairs;
  std::fill(pair_sums_.begin(), pair_sums_.end(), 0.0f);
  cpu::add_frequency_gradient(plans_[encoding], reinterpret_cast<const std::byte*>(before),
                              reinterpret_cast<const std::byte*>(row), angles_, window_.data(),
                              1.0f, pair_sums_.data());
  const double sign = rotary.inverse != back ? -1.0 : 1.0;
  if (rope_of_input(*setup_.state, encoding) != nullptr) {
    const std::int64_t key = key_of(token);
    if (key < 0) return;
    double* to = gradient + static_cast<std::size_t>(key - first_key) * pairs;
    for (std::size_t p = 0; p < pairs; ++p) to[p] += sign * static_cast<double>(pair_sums_[p]);
    return;
  }
  double* to =
      gradient + static_cast<std::size_t>(rotary.group_of(token.head, token.heads)) * pairs;
  for (std::size_t p = 0; p < pairs; ++p) {
    const auto n = static_cast<double>(
        position(token.role, token.batch, token.index, rotary.axes.axis_of_pair[p]));
    to[p] += sign * n * static_cast<double>(pair_sums_[p]);
  }
}

void RowTurner::backward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                         std::int64_t token, const float* plain, float* row,
                         const std::vector<double*>& dfrequencies, std::int64_t first_key) {
  const Token at{role, head, heads, batch, token};
  for (std::size_t e = plans_.size(); e-- > 0;) {
    if (dfrequencies[e] != nullptr) {
      std::copy_n(plain, setup_.padded_dim, before_.data());
      for (std::size_t earlier = 0; earlier < e; ++earlier) {
        load(earlier, at);
        turn(earlier, false, before_.data());
      }
      load(e, at);
      add_angle_gradient(e, at, false, before_.data(), row, dfrequencies[e], first_key);
    }
    load(e, at);
    turn(e, true, row);
  }
}

// In the order in which they are applied.
std::vector<std::size_t> RowTurner::value_stages(Role role) const {
  std::vector<std::size_t> stages;
  for (std::size_t e = 0; e < plans_.size(); ++e) {
    const auto* rope = setup_.state->config<Rope>(setup_.state->rotary[e]);
    if (rope != nullptr && rope->values) stages.push_back(e);
  }
  if (role == Role::kQuery) std::reverse(stages.begin(), stages.end());
  return stages;
}

void RowTurner::turn_value(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                           std::int64_t token, float* row) {
  for (const std::size_t e : value_stages(role)) {
    load(e, {role, head, heads, batch, token});
    turn(e, role == Role::kQuery, row);
  }
}

void RowTurner::value_backward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                               std::int64_t token, const float* plain, float* row,
                               const std::vector<double*>& dfrequencies, std::int64_t first_key) {
  const Token at{role, head, heads, batch, token};
  const bool back = role == Role::kQuery;
  const std::vector<std::size_t> stages = value_stages(role);
  for (std::size_t s = stages.size(); s-- > 0;) {
    const std::size_t e = stages[s];
    if (dfrequencies[e] == nullptr) {
      load(e, at);
      turn(e, !back, row);
      continue;
    }
    std::copy_n(plain, setup_.padded_dim, before_.data());
    for (std::size_t earlier = 0; earlier < s; ++earlier) {
      load(stages[earlier], at);
      turn(stages[earlier], back, before_.data());
    }
    load(e, at);
    if (back) {
      // y1 dy2 - y2 dy1 does not change when both are rotated: that of the output, rotated forwards.
      turn(e, true, before_.data());
      turn(e, false, row);
      add_angle_gradient(e, at, true, before_.data(), row, dfrequencies[e], first_key);
    } else {
      add_angle_gradient(e, at, false, before_.data(), row, dfrequencies[e], first_key);
      turn(e, true, row);
    }
  }
}

}  // namespace posenc

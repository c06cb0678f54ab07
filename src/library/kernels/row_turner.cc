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

// The angles of a token for one group of heads: the table's own row where it has the right form.
void RowTurner::load(std::size_t encoding, Role role, std::int64_t group, std::int64_t batch,
                     std::int64_t token) {
  const RotaryCache& tables = *setup_.tables[encoding];
  const Rotary& rotary = tables.rotary();
  const std::size_t pairs = plans_[encoding].pairs;
  const std::size_t start = static_cast<std::size_t>(group) * pairs;
  cpu::RopeAngles raw{};
  if (rotary.axes.axes == 1) {
    const RotaryCache::Row row = tables.row(role, position(role, batch, token, 0), raw_);
    raw = {row.cos + start, row.sin + start};
  } else {
    for (std::int64_t axis = 0; axis < rotary.axes.axes; ++axis) {
      const RotaryCache::Row row = tables.row(role, position(role, batch, token, axis), raw_);
      for (std::size_t p = 0; p < pairs; ++p) {
        if (rotary.axes.axis_of_pair[p] != axis) continue;
        cos_[p] = row.cos[start + p];
        sin_[p] = row.sin[start + p];
      }
    }
    raw = {cos_.data(), sin_.data()};
  }
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
    load(e, role, setup_.tables[e]->rotary().group_of(head, heads), batch, token);
    turn(e, false, row);
  }
}

void RowTurner::backward(Role role, std::int64_t head, std::int64_t heads, std::int64_t batch,
                         std::int64_t token, const float* plain, float* row,
                         const std::vector<double*>& dfrequencies) {
  for (std::size_t e = plans_.size(); e-- > 0;) {
    const Rotary& rotary = setup_.tables[e]->rotary();
    const std::int64_t group = rotary.group_of(head, heads);
    if (dfrequencies[e] != nullptr) {
      std::copy_n(plain, setup_.padded_dim, before_.data());
      for (std::size_t earlier = 0; earlier < e; ++earlier) {
        load(earlier, role, setup_.tables[earlier]->rotary().group_of(head, heads), batch, token);
        turn(earlier, false, before_.data());
      }
      load(e, role, group, batch, token);
      std::fill(pair_sums_.begin(), pair_sums_.end(), 0.0f);
      cpu::add_frequency_gradient(plans_[e], reinterpret_cast<const std::byte*>(before_.data()),
                                  reinterpret_cast<const std::byte*>(row), angles_, window_.data(),
                                  1.0f, pair_sums_.data());
      const double sign = rotary.inverse ? -1.0 : 1.0;
      for (std::size_t p = 0; p < plans_[e].pairs; ++p) {
        const auto n =
            static_cast<double>(position(role, batch, token, rotary.axes.axis_of_pair[p]));
        dfrequencies[e][static_cast<std::size_t>(group) * plans_[e].pairs + p] +=
            sign * n * static_cast<double>(pair_sums_[p]);
      }
    }
    load(e, role, group, batch, token);
    turn(e, true, row);
  }
}

}  // namespace posenc

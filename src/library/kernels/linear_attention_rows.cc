#include "kernels/linear_attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace posenc {
namespace {

// A vector shorter than this has no direction, as in the reference.
constexpr float kShortest = 1e-12f;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool is_zero(const float* row, std::size_t size) {
  return std::all_of(row, row + size, [](float x) { return x == 0.0f; });
}

// Views of one token, so that a RowTurner can be used without a list of all positions.
AttentionSetup setup_of_one_token(const LinearSetup& setup, AttentionCall& call) {
  call.q.shape = {1, setup.heads(), 1, static_cast<std::int64_t>(setup.dim)};
  call.k.shape = call.q.shape;
  AttentionSetup one;
  one.call = &call;
  one.state = setup.state;
  one.dim = setup.dim;
  one.padded_dim = cpu::row_floats(setup.dim);
  one.tables = setup.tables;
  one.axes = setup.axes;
  one.q_ids.assign(setup.axes, 0);
  one.k_ids = one.q_ids;
  return one;
}

}  // namespace

FeatureRows::FeatureRows(const LinearSetup& setup, std::size_t capacity)
    : features(setup.features()),
      dim(setup.dim),
      stride(cpu::row_floats(features)),
      plain_stride(cpu::row_floats(dim)),
      rotated(capacity * stride),
      plain(setup.cosine() ? 0 : capacity * plain_stride),
      lengths(setup.cosine() ? capacity : 0) {}

TokenReader::TokenReader(const LinearSetup& setup)
    : setup_(setup),
      phi_{setup.call->options.feature_map == LinearAttentionOptions::FeatureMap::kRelu,
           static_cast<float>(setup.call->options.epsilon)},
      turner_setup_(setup_of_one_token(setup, one_token_)),
      turner_(turner_setup_),
      x_(cpu::row_floats(setup.dim)) {}

std::int64_t TokenReader::query_at(const Segment& s, const PlaceChunk& chunk, std::size_t r) const {
  const std::int64_t query = chunk.first + static_cast<std::int64_t>(r) - s.place_offset();
  return query >= 0 && query < s.queries ? query : -1;
}

std::int64_t TokenReader::key_at(const Segment& s, const PlaceChunk& chunk, std::size_t r) const {
  const std::int64_t key = chunk.first + static_cast<std::int64_t>(r);
  if (key < 0 || key >= s.keys) return -1;
  const std::uint8_t* mask = setup_.call->mask.key_mask;
  if (mask == nullptr) return key;
  return mask[s.batch * setup_.call->k.tokens() + s.first_key + key] != 0 ? key : -1;
}

void TokenReader::load_position(Role role, const Segment& s, std::int64_t token) {
  auto& ids = role == Role::kQuery ? turner_setup_.q_ids : turner_setup_.k_ids;
  for (std::int64_t a = 0; a < setup_.axes; ++a) {
    ids[a] = position_of(setup_, s, role, token, a);
  }
}

void TokenReader::load_token(Role role, const Segment& s, std::int64_t head, std::int64_t token,
                             float* x) {
  const bool query = role == Role::kQuery;
  read_row(query ? setup_.call->q : setup_.call->k, s.batch, query ? head : head / setup_.group(),
           (query ? s.first_query : s.first_key) + token, cpu::row_floats(setup_.dim), x);
}

void TokenReader::normalize(FeatureRows& rows, std::size_t r) {
  float* row = rows.rotated_row(r);
  const float length = std::sqrt(cpu::dot_rows(row, row, setup_.dim));
  const bool is_short = length < kShortest;
  if (std::isinf(length)) std::fill_n(row, setup_.dim, kNaN);  // not 0, which x / |x| would be
  rows.lengths[r] = is_short ? 0.0f : length;
  cpu::scale_row(is_short ? 0.0f : 1.0f / length, row, setup_.dim, row);
  row[setup_.dim] = 1.0f;
}

void TokenReader::feature(Role role, const Segment& s, std::int64_t head, std::int64_t token,
                          FeatureRows& rows, std::size_t r) {
  load_token(role, s, head, token, x_.data());
  float* row = rows.rotated_row(r);
  if (setup_.cosine()) {
    std::copy_n(x_.data(), setup_.dim, row);
  } else {
    cpu::phi_row(phi_, x_.data(), setup_.dim, row);
    std::copy_n(row, setup_.dim, rows.plain.data() + r * rows.plain_stride);
  }
  load_position(role, s, token);
  turner_.forward(role, head, setup_.heads(), 0, 0, row);
  if (setup_.cosine()) normalize(rows, r);
}

void TokenReader::queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                          FeatureRows& rows) {
  std::fill(rows.rotated.begin(), rows.rotated.end(), 0.0f);
  std::fill(rows.plain.begin(), rows.plain.end(), 0.0f);
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t query = query_at(s, chunk, r);
    if (query >= 0) feature(Role::kQuery, s, head, query, rows, r);
  }
}

void TokenReader::keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                       FeatureRows& rows) {
  std::fill(rows.rotated.begin(), rows.rotated.end(), 0.0f);
  std::fill(rows.plain.begin(), rows.plain.end(), 0.0f);
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t key = key_at(s, chunk, r);
    if (key >= 0) feature(Role::kKey, s, head, key, rows, r);
  }
}

void TokenReader::values(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                         float* rows) {
  const std::size_t stride = cpu::row_floats(setup_.dim);
  for (std::size_t r = 0; r < chunk.count; ++r, rows += stride) {
    const std::int64_t key = key_at(s, chunk, r);
    if (key < 0) {
      std::fill_n(rows, stride, 0.0f);
    } else {
      read_row(setup_.call->v, s.batch, head / setup_.group(), s.first_key + key, stride, rows);
    }
  }
}

// (d - u <u, d>) / |x|, with d all that arrives at u.
void TokenReader::normalize_backward(const FeatureRows& rows, std::size_t r,
                                     const RowGradient& gradient) {
  const float length = rows.lengths[r];
  const float* u = rows.rotated.data() + r * rows.stride;
  float* d = gradient.drotated;
  cpu::add_scaled_row(1.0f, gradient.dsums, setup_.dim, d);
  cpu::add_scaled_row(-cpu::dot_rows(u, d, setup_.dim), u, setup_.dim, d);
  cpu::scale_row(length == 0.0f ? 0.0f : 1.0f / length, d, setup_.dim, d);
}

void TokenReader::backward(Role role, const Segment& s, std::int64_t head, std::int64_t token,
                           const FeatureRows& rows, std::size_t r, const RowGradient& gradient) {
  const bool unseen =
      is_zero(gradient.drotated, rows.features) && is_zero(gradient.dsums, rows.features);
  if (unseen) return;  // the token may be NaN
  load_token(role, s, head, token, x_.data());
  load_position(role, s, token);
  if (setup_.cosine()) normalize_backward(rows, r, gradient);
  const float* plain = setup_.cosine() ? x_.data() : rows.plain.data() + r * rows.plain_stride;
  float* d = gradient.drotated;
  turner_.backward(role, head, setup_.heads(), 0, 0, plain, d, *gradient.dfrequencies);
  if (setup_.cosine()) return;
  cpu::add_scaled_row(1.0f, gradient.dsums, setup_.dim, d);
  cpu::phi_slope_row(phi_, x_.data(), setup_.dim, d);
}

}  // namespace posenc

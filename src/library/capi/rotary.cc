// What a site-2 encoding is made of: its geometry, its frequencies, rows of cos and sin.
#include "capi/rotary_access.h"
#include "kernels/attention_call.h"

namespace posenc::capi {

std::size_t check_rotary(const char* op, const posenc_plan& plan, std::int64_t rotary) {
  const std::size_t count = plan.plan->terms().rotary.size();
  if (rotary >= 0 && static_cast<std::size_t>(rotary) < count) {
    return static_cast<std::size_t>(rotary);
  }
  fail(StatusCode::kOutOfRange,
       "[%s] rotary must be below the number of the spec's site-2 encodings (%zu) but got %lld", op,
       count, static_cast<long long>(rotary));
}

RotaryTables::RotaryTables(const char* op, const posenc_plan& plan,
                           const posenc_parameters* parameters, std::int64_t rotary) {
  const std::size_t r = check_rotary(op, plan, rotary);
  const Terms& terms = plan.plan->terms();
  if (!rotates_by_position(terms.spec.encodings[terms.rotary[r]])) {
    fail(StatusCode::kUnsupported,
         "[%s] rotary %lld has angles from an input or rotates values, which attention alone does; "
         "choose one with angles from positions",
         op, static_cast<long long>(rotary));
  }
  const bool trained = is_learnable(terms.spec.encodings[terms.rotary[r]]);
  tables_ =
      rotary_tables(*plan.plan, r, trained ? values_of(op, plan, parameters).get() : nullptr, own_);
}

namespace {

posenc_rotary_info describe(const Rotary& rotary) {
  posenc_rotary_info info{};
  info.head_dim = rotary.head_dim;
  info.rotary_dim = rotary.rotary_dim;
  info.dim_offset = rotary.dim_offset;
  info.pairs = rotary.pairs();
  info.groups = rotary.groups();
  info.axes = rotary.axes.axes;
  info.layout = rotary.layout == PairLayout::kInterleaved ? POSENC_INTERLEAVED : POSENC_HALF;
  info.inverse = rotary.inverse ? 1 : 0;
  info.attention_factor = rotary.attention_factor;
  info.softmax_factor = rotary.softmax_factor;
  return info;
}

std::size_t row_entries(const Rotary& rotary) {
  return static_cast<std::size_t>(rotary.groups() * rotary.pairs());
}

void check_rows(const char* op, std::int64_t first, std::int64_t rows) {
  if (rows >= 0 && rows <= kLargestPosition && first >= -kLargestPosition &&
      first <= kLargestPosition - rows) {
    return;
  }
  fail(StatusCode::kOutOfRange,
       "[%s] first and rows must stay in [-2^53, 2^53] with rows >= 0 but got %lld and %lld", op,
       static_cast<long long>(first), static_cast<long long>(rows));
}

}  // namespace
}  // namespace posenc::capi

using posenc::Role;
using posenc::Rotary;
using posenc::capi::guarded;
using posenc::capi::required;
using posenc::capi::RotaryTables;

extern "C" {

posenc_status posenc_rotary_describe(const posenc_plan* plan, int64_t rotary,
                                     posenc_rotary_info* info) noexcept {
  return guarded([&] {
    const char* op = "rotary_describe";
    required(op, "plan", plan);
    const size_t size = required(op, "info", info).struct_size;
    posenc::capi::check_struct_size(op, "info", size, offsetof(posenc_rotary_info, rotary_dim));
    const std::size_t r = posenc::capi::check_rotary(op, *plan, rotary);
    const auto& terms = plan->plan->terms();
    posenc_rotary_info known = posenc::capi::describe(terms.rotations[r]);
    known.follows_length = follows_length(terms.spec.encodings[terms.rotary[r]], terms.lengths);
    known.struct_size = size;
    std::memset(info, 0, size);  // fields that a newer caller has and we do not know
    std::memcpy(info, &known, std::min(size, sizeof known));
  });
}

posenc_status posenc_rotary_frequencies(const posenc_plan* plan,
                                        const posenc_parameters* parameters, int64_t rotary,
                                        double* inv_freq, size_t count) noexcept {
  return guarded([&] {
    const char* op = "rotary_frequencies";
    const RotaryTables tables(op, required(op, "plan", plan), parameters, rotary);
    posenc::capi::check_pointer(op, "inv_freq", inv_freq);
    posenc::capi::check_count(op, "inv_freq", posenc::capi::row_entries(tables.rotary()), count);
    for (const std::vector<double>& group : tables.rotary().inv_freq) {
      inv_freq = std::copy(group.begin(), group.end(), inv_freq);
    }
  });
}

posenc_status posenc_rotary_table(const posenc_plan* plan, const posenc_parameters* parameters,
                                  int64_t rotary, int32_t role, int64_t first, int64_t rows,
                                  float* cos, float* sin, size_t count) noexcept {
  return guarded([&] {
    const char* op = "rotary_table";
    const RotaryTables tables(op, required(op, "plan", plan), parameters, rotary);
    posenc::capi::check_choice(op, "role", role, 2);
    posenc::capi::check_rows(op, first, rows);
    const Rotary& turn = tables.rotary();
    const std::size_t entries = posenc::capi::row_entries(turn);
    std::size_t wanted = 0;
    if (__builtin_mul_overflow(entries, static_cast<std::size_t>(rows), &wanted)) wanted = SIZE_MAX;
    posenc::capi::check_count(op, "cos and sin", wanted, count);
    if (count == 0) return;
    posenc::capi::check_pointer(op, "cos", cos);
    posenc::capi::check_pointer(op, "sin", sin);
    for (int64_t n = first; n < first + rows; ++n) {
      for (std::size_t at = 0; at < entries; ++at) {
        const auto group = static_cast<int64_t>(at) / turn.pairs();
        const auto pair = static_cast<int64_t>(at) % turn.pairs();
        const auto entry =
            rotary_entry(turn, role == POSENC_QUERY ? Role::kQuery : Role::kKey, group, pair, n);
        *cos++ = static_cast<float>(entry.cos);
        *sin++ = static_cast<float>(entry.sin);
      }
    }
  });
}

}  // extern "C"

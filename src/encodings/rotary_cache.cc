#include "posenc/encodings/rotary_cache.h"

#include <fmt/format.h>

#include "core/bind.h"
#include "posenc/core/error.h"

namespace posenc {

void validate(const CachePolicy& policy) {
  // Reading back what would be written applies the ranges of the field list.
  bind_config<CachePolicy>(Value(Value::Data(all_fields(policy))), "cache");
}

RotaryCache::RotaryCache(Rotary rotary, CachePolicy policy)
    : rotary_(std::move(rotary)), policy_(policy) {
  validate(policy_);
  if (policy_.mode == CachePolicy::Mode::kOnDemand || policy_.length == 0) return;
  const std::size_t tables = table_of(Role::kKey) + 1;
  for (std::size_t table = 0; table < tables; ++table) {
    precomputed_[table] = kept_block(static_cast<Role>(table), 0, policy_.length);
  }
}

std::size_t RotaryCache::table_of(Role role) const {
  return rotary_.log_zeta.empty() ? 0 : static_cast<std::size_t>(role);
}

std::size_t RotaryCache::row_floats() const {
  return 2 * static_cast<std::size_t>(rotary_.groups() * rotary_.pairs());
}

std::int64_t RotaryCache::bytes() const {
  const std::shared_lock lock(mutex_);
  return bytes_;
}

RotaryCache::Row RotaryCache::at(const float* row) const { return {row, row + row_floats() / 2}; }

void RotaryCache::fill(Role role, std::int64_t position, float* out) const {
  const auto pairs = static_cast<std::size_t>(rotary_.pairs());
  const std::vector<std::int64_t> coordinates(static_cast<std::size_t>(rotary_.axes.axes),
                                              position);
  std::vector<double> cos(pairs);
  std::vector<double> sin(pairs);
  for (std::int64_t group = 0; group < rotary_.groups(); ++group) {
    rotary_row(rotary_, role, group, coordinates, cos, sin);
    float* cos_out = out + static_cast<std::size_t>(group) * pairs;
    for (std::size_t p = 0; p < pairs; ++p) {
      cos_out[p] = static_cast<float>(cos[p]);
      cos_out[row_floats() / 2 + p] = static_cast<float>(sin[p]);
    }
  }
}

RotaryCache::Block RotaryCache::kept_block(Role role, std::int64_t first, std::int64_t rows) const {
  // Compared in rows, so that no product can overflow.
  const auto row_bytes = static_cast<std::int64_t>(row_floats() * sizeof(float));
  if (rows > (policy_.max_bytes - bytes_) / row_bytes) {
    throw Error(
        ErrorKind::kResource,
        {.scope = "cache",
         .key = "max_bytes",
         .rule = fmt::format("({}) has no room for {} more rows of {} bytes beside the {} kept",
                             policy_.max_bytes, rows, row_bytes, bytes_),
         .value = "",
         .hint = "raise max_bytes, or use mode=on_demand"});
  }
  auto block = std::make_unique<float[]>(static_cast<std::size_t>(rows) * row_floats());
  for (std::int64_t r = 0; r < rows; ++r) {
    fill(role, first + r, block.get() + static_cast<std::size_t>(r) * row_floats());
  }
  bytes_ += rows * row_bytes;
  return block;
}

RotaryCache::Row RotaryCache::row(Role role, std::int64_t position,
                                  std::span<float> scratch) const {
  if (policy_.mode == CachePolicy::Mode::kOnDemand) {
    fill(role, position, scratch.data());
    return at(scratch.data());
  }
  if (position >= 0 && position < policy_.length) {
    const float* table = precomputed_[table_of(role)].get();
    return at(table + static_cast<std::size_t>(position) * row_floats());
  }
  if (policy_.mode == CachePolicy::Mode::kPrecomputed || position < 0) {
    const bool precomputed = policy_.mode == CachePolicy::Mode::kPrecomputed;
    throw Error(ErrorKind::kOutOfRange,
                {.scope = "cache",
                 .key = "position",
                 .rule = precomputed ? fmt::format("must be in [0, {}]", policy_.length - 1)
                                     : std::string("must be >= 0"),
                 .value = std::to_string(position),
                 .hint = precomputed ? "raise length, or use mode=hybrid" : "use mode=on_demand"});
  }
  return at(grown_row(role, position));
}

const float* RotaryCache::grown_row(Role role, std::int64_t position) const {
  const std::int64_t index = (position - policy_.length) / policy_.block;
  const std::int64_t first = policy_.length + index * policy_.block;
  const std::size_t offset = static_cast<std::size_t>(position - first) * row_floats();
  auto& table = blocks_[table_of(role)];
  {
    const std::shared_lock lock(mutex_);
    const auto found = table.find(index);
    if (found != table.end()) return found->second.get() + offset;
  }
  const std::unique_lock lock(mutex_);
  auto found = table.find(index);  // another thread may have been quicker
  if (found == table.end())
    found = table.emplace(index, kept_block(role, first, policy_.block)).first;
  return found->second.get() + offset;
}

}  // namespace posenc

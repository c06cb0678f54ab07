#include "posenc/encodings/rotary_cache.h"

#include <fmt/format.h>

#include <new>

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
  float* sin_out = out + row_floats() / 2;
  std::size_t at = 0;
  for (std::int64_t group = 0; group < rotary_.groups(); ++group) {
    for (std::int64_t pair = 0; pair < rotary_.pairs(); ++pair, ++at) {
      const CosSin entry = rotary_entry(rotary_, role, group, pair, position);
      out[at] = static_cast<float>(entry.cos);
      sin_out[at] = static_cast<float>(entry.sin);
    }
  }
}

RotaryCache::Block RotaryCache::kept_block(Role role, std::int64_t first, std::int64_t rows) const {
  // Compared in rows, so that no product can overflow.
  const auto row_bytes = static_cast<std::int64_t>(row_floats() * sizeof(float));
  if (rows > (policy_.max_bytes - bytes_) / row_bytes) {
    throw Error(ErrorKind::kResource,
                {.scope = "cache",
                 .key = "max_bytes",
                 .rule = fmt::format("({}) has no room for {} more rows of {} bytes with {} kept",
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
  require_exact_position("cache", "position", position);
  if (policy_.mode == CachePolicy::Mode::kOnDemand) {
    fill(role, position, scratch.data());
    return at(scratch.data());
  }
  if (position >= 0 && position < policy_.length) {
    const float* table = precomputed_[table_of(role)].get();
    return at(table + static_cast<std::size_t>(position) * row_floats());
  }
  if (policy_.mode == CachePolicy::Mode::kPrecomputed) {
    throw Error(ErrorKind::kOutOfRange,
                {.scope = "cache",
                 .key = "position",
                 .rule = fmt::format("must be in [0, {}]", policy_.length - 1),
                 .value = std::to_string(position),
                 .hint = "raise length, or use mode=hybrid"});
  }
  return at(grown_row(role, position));
}

Status RotaryCache::find_row(Role role, std::int64_t position, Row* row) const noexcept {
  try {
    *row = this->row(role, position, {});
    return {};
  } catch (const Error& error) {
    const bool full = error.kind() == ErrorKind::kResource;
    return {full ? StatusCode::kResourceExhausted : StatusCode::kOutOfRange, error.what()};
  } catch (const std::bad_alloc&) {
    return {StatusCode::kResourceExhausted, "[cache] out of memory for a block of rows"};
  }
}

const float* RotaryCache::grown_row(Role role, std::int64_t position) const {
  // Blocks count up from the precomputed rows, and down from -1 for positions before the start.
  const bool before = position < 0;
  const std::int64_t index =
      before ? -1 - (-1 - position) / policy_.block : (position - policy_.length) / policy_.block;
  const std::int64_t first = (before ? 0 : policy_.length) + index * policy_.block;
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

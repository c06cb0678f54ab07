// Tables of cos and sin: float32, computed in float64, cached according to a policy.
//
//   precomputed  rows 0 .. length-1 are built up front; later positions are an error
//   on_demand    nothing is cached; each row is computed into the caller's scratch buffer
//   hybrid       rows 0 .. length-1 up front, then blocks of `block` rows on first use
//
// Memory is limited: exceeding max_bytes is an error, never a silent fallback. Rows may be requested
// from several threads concurrently. Pointers to cached rows stay valid for the lifetime of the
// cache.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>

#include "posenc/core/status.h"
#include "posenc/encodings/rotary.h"

namespace posenc {

struct CachePolicy {
  enum class Mode { kPrecomputed, kOnDemand, kHybrid };

  Mode mode = Mode::kHybrid;
  std::int64_t length = 2048;
  std::int64_t block = 1024;
  std::int64_t max_bytes = std::int64_t{1} << 30;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("mode", self.mode, FieldRule{.doc = "what is kept"});
    visit("length", self.length, FieldRule{.doc = "rows built at once", .min = 0, .max = 1e15});
    visit("block", self.block,
          FieldRule{.doc = "rows added at a time (hybrid)", .min = 1, .max = 1 << 24});
    visit("max_bytes", self.max_bytes,
          FieldRule{.doc = "cap on the memory kept", .min = 0, .max = 1e18});
  }
  bool operator==(const CachePolicy&) const = default;
};
constexpr std::array<std::string_view, 3> enum_names(CachePolicy::Mode /*tag*/) {
  return {"precomputed", "on_demand", "hybrid"};
}

// Checks each field against its range; throws the same errors as parsing.
void validate(const CachePolicy& policy);

class RotaryCache {
 public:
  // One position: cos and sin of groups() x pairs() entries each, magnitude included.
  struct Row {
    const float* cos;
    const float* sin;
  };

  RotaryCache(Rotary rotary, CachePolicy policy);

  // A row along one axis. With several axes, a kernel reads pair p from the row of its coordinate.
  // `scratch` has row_floats() entries. It is written only in on_demand mode, and must then outlive
  // the row.
  [[nodiscard]] Row row(Role role, std::int64_t position, std::span<float> scratch) const;

  // The same without exceptions, for kernels. Not available in on_demand mode.
  Status find_row(Role role, std::int64_t position, Row* row) const noexcept;

  [[nodiscard]] std::size_t row_floats() const;
  [[nodiscard]] std::int64_t bytes() const;  // currently allocated
  [[nodiscard]] const Rotary& rotary() const { return rotary_; }
  [[nodiscard]] const CachePolicy& policy() const { return policy_; }

 private:
  using Block = std::unique_ptr<float[]>;

  // Queries and keys share tables, except with xPos.
  [[nodiscard]] std::size_t table_of(Role role) const;
  [[nodiscard]] Row at(const float* row) const;
  void fill(Role role, std::int64_t position, float* out) const;
  // Builds rows and counts their bytes; throws before it allocates if the limit would be exceeded.
  Block kept_block(Role role, std::int64_t first, std::int64_t rows) const;
  const float* grown_row(Role role, std::int64_t position) const;

  Rotary rotary_;
  CachePolicy policy_;
  std::array<Block, 2> precomputed_;
  mutable std::shared_mutex mutex_;
  mutable std::array<std::unordered_map<std::int64_t, Block>, 2> blocks_;
  mutable std::int64_t bytes_ = 0;
};

}  // namespace posenc

// SPDX-License-Identifier: MIT

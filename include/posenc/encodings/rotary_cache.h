// Tables of cos and sin, float32, built in float64, kept as a policy says.
//
//   precomputed  rows 0 .. length-1 are built at once; a later position is an error
//   on_demand    nothing is kept; each row is computed into the caller's scratch
//   hybrid       rows 0 .. length-1 at once, then blocks of `block` rows where they are asked for
//
// Memory is counted and capped: reaching max_bytes is an error that says so, never a silent
// fallback. Any number of threads may ask for rows at once; a row stays where it is for the life of
// the cache.
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

// Checks each field against its range; throws as parsing does.
void validate(const CachePolicy& policy);

class RotaryCache {
 public:
  // One position: cos and sin of groups() x pairs() entries each, magnitude included.
  struct Row {
    const float* cos;
    const float* sin;
  };

  RotaryCache(Rotary rotary, CachePolicy policy);

  // Along one axis; a kernel for several axes takes pair p from the row of its own coordinate.
  // `scratch` holds row_floats() entries, is written only in on_demand mode, and must then outlive
  // the use of the row.
  [[nodiscard]] Row row(Role role, std::int64_t position, std::span<float> scratch) const;

  // The same for kernels, which do not throw; not for on_demand, whose rows nobody keeps.
  Status find_row(Role role, std::int64_t position, Row* row) const noexcept;

  [[nodiscard]] std::size_t row_floats() const;
  [[nodiscard]] std::int64_t bytes() const;  // kept at this moment
  [[nodiscard]] const Rotary& rotary() const { return rotary_; }
  [[nodiscard]] const CachePolicy& policy() const { return policy_; }

 private:
  using Block = std::unique_ptr<float[]>;

  // Queries and keys share their tables unless xPos tells them apart.
  [[nodiscard]] std::size_t table_of(Role role) const;
  [[nodiscard]] Row at(const float* row) const;
  void fill(Role role, std::int64_t position, float* out) const;
  // Builds rows and counts their bytes; throws before anything is kept when the cap would be
  // passed.
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

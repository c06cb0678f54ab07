// The sum of all Toeplitz biases of a spec as one float32 table per head, computed with the encodings'
// formulas. The plan caches the last table, because decoding needs the same one at every step.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/aligned.h"
#include "posenc/encodings/spec.h"

namespace posenc {

// Distances n - m from -before to places - 1, with `slack` more entries that may be read. Those below
// `lowest_seen` are masked everywhere and need no value. Queries are at lowest_place to places - 1.
struct DistanceRange {
  std::int64_t before = 0;
  std::int64_t places = 0;
  std::int64_t lowest_place = 0;
  std::int64_t lowest_seen = 0;
  std::int64_t slack = 0;
  // Of a slice, whose `before` may be negative: one past the place of its last query, and the place of its key 0.
  std::optional<std::int64_t> end_place;
  std::int64_t key_place = 0;
  [[nodiscard]] std::int64_t span() const { return before + places + slack; }
};

class ToeplitzTables {
 public:
  // `biases` are the indices of the encodings to sum; `parameters` are of the whole spec.
  ToeplitzTables(const Spec& spec, const std::vector<std::size_t>& biases, std::int64_t heads,
                 const std::vector<Parameters>& parameters, const DistanceRange& range);

  // Where distance 0 is; distances of the range may be read from there.
  [[nodiscard]] const float* at(std::int64_t head) const {
    return values_.data() + head * range_.span() + range_.before;
  }
  [[nodiscard]] bool has(const std::vector<Parameters>& parameters) const;
  [[nodiscard]] bool covers(const DistanceRange& range) const;
  // Twice the distances of `range`, and no fewer than there are here.
  [[nodiscard]] DistanceRange grown_to(const DistanceRange& range) const;

 private:
  std::vector<std::size_t> biases_;
  std::vector<Parameters> parameters_;  // of the biases
  DistanceRange range_;
  AlignedFloats values_;  // [heads][span]
};

// Hands out the last tables again while parameters stay as they are. A sequence that grows beyond them
// gets tables of twice the length, so that steps cost nothing on average; calls of several kinds that
// take turns share one.
class ToeplitzCache {
 public:
  std::shared_ptr<const ToeplitzTables> get(const Spec& spec,
                                            const std::vector<std::size_t>& biases,
                                            std::int64_t heads,
                                            const std::vector<Parameters>& parameters,
                                            const DistanceRange& range) const;

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const ToeplitzTables> last_;
};

}  // namespace posenc

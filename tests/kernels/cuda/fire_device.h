// FIRE's tables of a case on the GPU, and its gradients from the sums that come back.
#pragma once

#include <algorithm>
#include <cmath>

#include "cases/attention_data.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/fire_tables.h"

namespace posenc::cuda::testing {

class FireDevice {
 public:
  FireDevice(const cases::AttentionData& data, std::size_t index, AttentionBackwardParams& params)
      : d_(data),
        index_(index),
        config_(std::get<Fire>(data.spec.encodings[index])),
        range_(range_of(data.c)),
        tables_(config_, data.parameters[index], data.c.heads, range_) {
    FireTable& fire = params.forward.fire;
    const cpu::FireProblem first = tables_.problem(0);
    fire.segments = static_cast<int>(first.segments);
    fire.bounds = keep(first.bounds, first.segments + 1);
    const auto heads = static_cast<std::size_t>(data.c.heads);
    fire.slopes = keep(first.slopes, heads * first.segments);
    fire.intercepts = keep(first.intercepts, heads * first.segments);
    const auto span = static_cast<std::size_t>(range_.span());
    fire.psi = keep(first.psi - range_.before, span);
    fire.dpsi = keep(first.dpsi - range_.before, span);
    fire.zero = range_.before;
    fire.span = range_.span();
    fire.row_scale = keep(first.row_scale + range_.lowest_place,
                          static_cast<std::size_t>(range_.places - range_.lowest_place));
    fire.lowest_place = range_.lowest_place;
    segments_ = Bytes(std::vector<float>(heads * first.segments * 2, NAN));
    rows_ = Bytes(std::vector<float>(
        static_cast<std::size_t>(data.c.batch * data.c.heads * data.c.queries) * 2, NAN));
    params.dfire_segments = segments_.as<float>();
    params.dfire_rows = rows_.as<float>();
  }

  [[nodiscard]] std::size_t index() const { return index_; }

  // Adds to gradients that are zero.
  void bring_back(Parameters& gradient) const {
    const std::vector<float> segments = segments_.values<float>();
    const std::size_t count = tables_.segments();
    for (std::int64_t h = 0; h < d_.c.heads; ++h) {
      std::vector<double> slopes;
      std::vector<double> intercepts;
      for (std::size_t s = 0; s < count; ++s) {
        const std::size_t at = 2 * (static_cast<std::size_t>(h) * count + s);
        slopes.push_back(static_cast<double>(segments[at]));
        intercepts.push_back(static_cast<double>(segments[at + 1]));
      }
      tables_.add_network_gradient(d_.parameters[index_], h, slopes.data(), intercepts.data(),
                                   gradient);
    }
    const std::vector<float> rows = rows_.values<float>();
    for (std::size_t row = 0; row < rows.size() / 2; ++row) {
      const auto query = static_cast<std::int64_t>(row) % d_.c.queries;
      tables_.add_row_gradient(config_, d_.parameters[index_], place_of(d_.c, query),
                               static_cast<double>(rows[2 * row]),
                               static_cast<double>(rows[2 * row + 1]), gradient);
    }
  }

 private:
  struct Ends {
    std::int64_t first_query, queries, keys;
  };
  static Ends sequence_of(const cases::Case& c, std::int64_t query) {
    if (c.cumulative.empty()) return {0, c.queries, c.keys};
    const auto& keys = c.cumulative_keys.empty() ? c.cumulative : c.cumulative_keys;
    std::size_t s = 0;
    while (c.cumulative[s + 1] <= query) ++s;
    return {c.cumulative[s], c.cumulative[s + 1] - c.cumulative[s], keys[s + 1] - keys[s]};
  }
  static std::int64_t place_of(const cases::Case& c, std::int64_t query) {
    const Ends ends = sequence_of(c, query);
    return query - ends.first_query + ends.keys - ends.queries;
  }
  static DistanceRange range_of(const cases::Case& c) {
    DistanceRange range;
    range.before = c.queries + c.keys;
    range.places = std::max(c.queries, c.keys);
    range.lowest_place = std::min<std::int64_t>(c.keys - c.queries, 0);
    for (std::int64_t n = 0; n < c.queries; ++n) {
      range.lowest_place = std::min(range.lowest_place, place_of(c, n));
    }
    return range;
  }
  const float* keep(const float* from, std::size_t count) {
    kept_.emplace_back(std::vector<float>(from, from + count));
    return kept_.back().as<float>();
  }

  const cases::AttentionData& d_;
  std::size_t index_;
  Fire config_;
  DistanceRange range_;
  FireTables tables_;
  std::vector<Bytes> kept_;
  Bytes segments_;
  Bytes rows_;
};

}  // namespace posenc::cuda::testing

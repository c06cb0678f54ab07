// T5's relative position bias (site 3): a learned scalar per head and bucket of distances. Buckets are
// exact for small distances and logarithmic for large ones.
//
//   B(h, i, j) = weight[bucket(j - i), h]                            weight is [num_buckets, heads]
//
// With n = num_buckets (halved for each direction when bidirectional, keys after the query in the
// upper half), r = |j - i| (max(i - j, 0) when causal) and m = n/2:
//   bucket = r                                                              r < m
//   bucket = min(m + int(ln(r/m) / ln(max_distance/m) * (n - m)), n - 1)    else
//
// The logarithm is computed in float32 and in this order, because trained weights depend on the bucket
// boundaries: where r/m is an exact power, float64 and float32 can round to different buckets.
//
// Raffel et al. 2020, arXiv 1910.10683, section 2.1.
#pragma once

#include "posenc/encodings/distance_bias.h"

namespace posenc {

struct T5 {
  std::int64_t num_buckets = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = false;
  double init_std = 0.02;

  static constexpr Traits kTraits{
      .name = "t5",
      .site = Site::kBias,
      .title = "T5 relative position buckets",
      .formula = "B = weight[bucket(j - i), h]",
      .tex = R"(B(h, i, j) = W_{\mathrm{bucket}(r),\,h},\qquad )"
             R"(\mathrm{bucket}(r) = r \;\;(r < m),\quad )"
             R"(\min\!\Big(m + \Big\lfloor \tfrac{\ln(r/m)}{\ln(D/m)}\,(n - m)\Big\rfloor,\; )"
             R"(n - 1\Big) \;\;(r \ge m))",
      .where =
          "r is the distance, n the number of buckets, m = n/2, D is max_distance: one bucket per "
          "small distance, logarithmic buckets for large ones.",
      .paper = "Raffel et al. 2020, arXiv 1910.10683",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("num_buckets", self.num_buckets,
          FieldRule{.doc = "entries of the table, both directions together",
                    .min = 2,
                    .max = 1 << 20,
                    .even = true,
                    .usual = log_range(4, 128)});
    visit("max_distance", self.max_distance,
          rule_between("larger distances share the last bucket", 2, 1e15, log_range(4, 2048)));
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "half the buckets for keys after the query"});
    visit("init_std", self.init_std, kInitStdRule);
  }

  static constexpr int kReads = 1;
  static constexpr bool kHeadsLast = true;
  [[nodiscard]] std::int64_t entries() const { return num_buckets; }
  [[nodiscard]] std::int64_t reach() const { return max_distance; }
  [[nodiscard]] std::int64_t entry(std::int64_t d) const;
  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& x, const Distance& /*d*/) const {
    return x[0];
  }

  bool operator==(const T5&) const = default;
};

void validate(const T5& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const T5& config, const ModelShape& shape);

// Bucket of a key at `relative` = key position - query position.
std::int64_t t5_bucket(const T5& config, std::int64_t relative);

}  // namespace posenc

// SPDX-License-Identifier: MIT

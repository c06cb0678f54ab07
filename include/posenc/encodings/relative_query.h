// Content times distance (site 4): every distance has a trained vector. Its product with the query, with the key, or
// with a small vector that the model computes for the query's token is added to the score.
//
//   s_ij = r_ij + f <u_i, P[:, b(i - j)]>
//
//   source=query:  u_i = q_i, before site 2        P [head_dim, entries]     Shaw et al.
//   source=input:  u_i is an input of `rank` numbers per head                P [rank, entries]     Inkling
//   side=key:      k_j, before site 2, instead of u_i                        P [head_dim, entries]
//   vectors=true:  two vectors per head: u_i = q_i + position, and r_ij uses q_i + content           Transformer-XL
//
// DeBERTa is relative_query(...) + relative_query(side=key, ...), with buckets=log and a scale of 1 / sqrt(3 D).
//
// b is the distance itself, or with buckets=log, as in DeBERTa, with m = extent / 2:
//
//   b(d) = d for |d| <= m, else sign(d) (m + ceil((m - 1) ln(|d| / m) / ln((max_distance - 1) / m)))
//
// The entries are the distances 0 .. extent - 1, or -(extent - 1) .. extent - 1 with bidirectional=true. Beyond them the
// term is 0 (beyond=zero) or uses the last entry (beyond=clip). f is 1 or the scale of the scores: scaling=auto uses the
// scale with source=query and 1 with source=input. All heads share P unless per_head=true. A query reads the row of the
// input at its own token.
//
// Shaw et al. 2018, "Self-Attention with Relative Position Representations", arXiv 1803.02155, equation 4 (keys).
// Dai et al. 2019, "Transformer-XL", arXiv 1901.02860, section 3.3. He et al. 2021, "DeBERTa", arXiv 2006.03654,
// equation 4. In Transformer-XL, P is W_R times sinusoids: the model passes that product as the table.
// Parameters: table [rank, entries], or [heads, rank, entries]; with vectors=true also content and position
// [heads, head_dim]. Input with source=input: u [B, H, Tk, rank].
#pragma once

#include <algorithm>
#include <cmath>

#include "posenc/encodings/common.h"

namespace posenc {

struct RelativeQuery {
  enum class Source { kQuery, kInput };
  enum class Beyond { kZero, kClip };
  enum class Scaling { kAuto, kScores, kNone };
  enum class Side { kQuery, kKey };
  enum class Buckets { kNone, kLog };
  friend constexpr std::array<std::string_view, 2> enum_names(Source /*tag*/) {
    return {"query", "input"};
  }
  friend constexpr std::array<std::string_view, 2> enum_names(Beyond /*tag*/) {
    return {"zero", "clip"};
  }
  friend constexpr std::array<std::string_view, 3> enum_names(Scaling /*tag*/) {
    return {"auto", "scores", "none"};
  }
  friend constexpr std::array<std::string_view, 2> enum_names(Side /*tag*/) {
    return {"query", "key"};
  }
  friend constexpr std::array<std::string_view, 2> enum_names(Buckets /*tag*/) {
    return {"none", "log"};
  }

  std::int64_t extent = 128;
  Beyond beyond = Beyond::kZero;
  Source source = Source::kQuery;
  std::int64_t rank = 16;
  bool bidirectional = false;
  bool per_head = false;
  Scaling scaling = Scaling::kAuto;
  double init_std = 0.02;
  Side side = Side::kQuery;
  Buckets buckets = Buckets::kNone;
  std::int64_t max_distance = 512;
  bool vectors = false;

  static constexpr Traits kTraits{
      .name = "relative_query",
      .site = Site::kContent,
      .title = "a vector per distance, times the query or the key",
      .formula = "s_ij = r_ij + <u_i, P[:, i - j]>",
      .tex = R"(s_{ij} = r_{ij} + f\,\langle u_i,\, P_{:,\,i - j} \rangle)",
      .where =
          "P has a trained vector for each of extent distances; u is the query, a small "
          "vector that the model computes for its token, or the key.",
      .paper = "Shaw et al. 2018, arXiv 1803.02155",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("extent", self.extent,
          rule_between("distances with an entry", 1, 1 << 20, log_range(4, 1024)));
    visit("beyond", self.beyond, FieldRule{.doc = "what farther keys get: nothing, or the last"});
    visit("source", self.source, FieldRule{.doc = "what is multiplied with the entries"});
    visit("rank", self.rank,
          rule_between("numbers per token and head; source=input", 1, 1 << 16, log_range(1, 64)));
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "entries for keys after the query"});
    visit("per_head", self.per_head, FieldRule{.doc = "a table for each head"});
    visit("scaling", self.scaling,
          FieldRule{.doc = "factor of the term: that of the scores, or 1; auto: by source",
                    .advanced = true});
    visit("init_std", self.init_std, kInitStdRule);
    visit("side", self.side, FieldRule{.doc = "whose vector is multiplied with the entries"});
    visit("buckets", self.buckets,
          FieldRule{.doc = "an entry per distance, or far distances in logarithmic buckets"});
    visit("max_distance", self.max_distance,
          rule_between("distance of the last bucket, plus 1; buckets=log", 2, 1 << 24,
                       log_range(64, 4096)));
    visit("vectors", self.vectors,
          FieldRule{.doc = "two vectors per head, added to the query: Transformer-XL"});
  }

  [[nodiscard]] std::int64_t lowest() const { return bidirectional ? 1 - extent : 0; }
  [[nodiscard]] std::int64_t entries() const { return extent - lowest(); }
  // b(i - j).
  [[nodiscard]] std::int64_t bucket(std::int64_t distance) const {
    const std::int64_t middle = extent / 2;
    const std::int64_t size = std::abs(distance);
    if (buckets == Buckets::kNone || size <= middle) return distance;
    const auto m = static_cast<double>(middle);
    const double far = std::log(static_cast<double>(size) / m) /
                       std::log(static_cast<double>(max_distance - 1) / m) * (m - 1.0);
    const std::int64_t past = middle + static_cast<std::int64_t>(std::ceil(far));
    return distance < 0 ? -past : past;
  }
  // The entry for a distance i - j; -1 if the term is 0.
  [[nodiscard]] std::int64_t entry(std::int64_t distance) const {
    const std::int64_t at = bucket(distance);
    const std::int64_t near = std::clamp(at, lowest(), extent - 1);
    return near == at || beyond == Beyond::kClip ? near - lowest() : -1;
  }
  // All distances beyond +-reach() have the same entry, or none.
  [[nodiscard]] std::int64_t reach() const {
    return buckets == Buckets::kNone ? extent - 1 : max_distance - 1;
  }
  [[nodiscard]] bool reads_input() const { return source == Source::kInput; }
  [[nodiscard]] bool of_keys() const { return side == Side::kKey; }
  // Whether u differs from the plain query.
  [[nodiscard]] bool has_own_rows() const { return reads_input() || vectors; }
  [[nodiscard]] std::int64_t channels(std::int64_t head_dim) const {
    return reads_input() ? rank : head_dim;
  }
  // f for this scale of the scores.
  [[nodiscard]] double factor(double scale) const {
    const bool scales = scaling == Scaling::kAuto ? !reads_input() : scaling == Scaling::kScores;
    return scales ? scale : 1.0;
  }
  // Offset of a head's table in the parameter.
  [[nodiscard]] std::int64_t table_of(std::int64_t head, std::int64_t head_dim) const {
    return per_head ? head * channels(head_dim) * entries() : 0;
  }

  bool operator==(const RelativeQuery&) const = default;
};

void validate(const RelativeQuery& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const RelativeQuery& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const RelativeQuery& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT

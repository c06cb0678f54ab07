// Relative2d for a block of queries: a table read by two distances.
#include "kernels/pair_terms.h"

namespace posenc {
namespace {

using Point = Relative2d::Point;

// Points of all tokens of a side, [B, T]. Where no positions are given, places are.
std::vector<Point> points_of(const AttentionSetup& setup, const Relative2d& config,
                             bool of_queries) {
  const AttentionCall& call = *setup.call;
  const PositionsView& given = of_queries ? call.q_positions : call.k_positions;
  const std::int64_t tokens = of_queries ? call.q.tokens() : call.k.tokens();
  const bool planar = given.ids != nullptr && given.axis_stride != 0;
  std::vector<Point> points(static_cast<std::size_t>(call.q.batch() * tokens));
  for (const Segment& s : setup.segments) {
    const std::int64_t first = of_queries ? s.first_query : s.first_key;
    const std::int64_t count = of_queries ? s.queries : s.keys;
    for (std::int64_t t = 0; t < count; ++t) {
      std::int64_t position[2] = {of_queries ? t + s.place_offset() : t, 0};
      if (given.given()) position[0] = given.at(s.batch, first + t, 0);
      if (planar) position[1] = given.at(s.batch, first + t, 1);
      points[static_cast<std::size_t>(s.batch * tokens + first + t)] =
          config.point({position, planar ? std::size_t{2} : std::size_t{1}});
    }
  }
  return points;
}

class PlaneTerm : public PairTerm {
 public:
  PlaneTerm(const AttentionSetup& setup, std::size_t encoding)
      : PairTerm(setup, encoding),
        queries_(points_of(setup, plane(), true)),
        keys_(points_of(setup, plane(), false)) {}

  void add(const PairBlock& block, float* values) const override {
    for_pairs(block, [&](std::size_t at, const Relative2d::Entries& entries) {
      double sum = parameters()[0][entries.first];
      if (plane().separable) sum += parameters()[1][entries.second];
      values[at] += static_cast<float>(sum);
    });
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& /*segment*/) const override {
    return {
        .numbers = std::vector<double>(first_size() + second_size(), 0.0), .table = {}, .rows = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* /*dkeys*/) const override {
    for_pairs(block, [&](std::size_t at, const Relative2d::Entries& entries) {
      const auto gradient = static_cast<double>(dvalues[at]);
      to.numbers[entries.first] += gradient;
      if (plane().separable) to.numbers[first_size() + entries.second] += gradient;
    });
  }

  void add_to_parameters(const PairGradients& from, std::int64_t /*kv_head*/,
                         Parameters& to) const override {
    std::size_t at = 0;
    for (std::vector<double>& parameter : to) {
      for (double& x : parameter) x += from.numbers[at++];
    }
  }

 private:
  [[nodiscard]] const Relative2d& plane() const { return config<Relative2d>(); }
  [[nodiscard]] std::size_t first_size() const { return parameters()[0].size(); }
  [[nodiscard]] std::size_t second_size() const {
    return plane().separable ? parameters()[1].size() : 0;
  }

  // Calls body with the place of a pair among the values of a block, and the entries it reads.
  template <class Body>
  void for_pairs(const PairBlock& block, const Body& body) const {
    const AttentionCall& call = *setup().call;
    const Segment& s = block.segment;
    const Point* queries =
        queries_.data() + s.batch * call.q.tokens() + s.first_query + block.queries.first;
    const Point* keys = keys_.data() + s.batch * call.k.tokens() + s.first_key;
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      for (std::size_t r = 0; r < block.queries.count; ++r) {
        body(static_cast<std::size_t>(j) * cpu::kQueryBlock + r,
             plane().entries(block.head, queries[r], keys[j]));
      }
    }
  }

  std::vector<Point> queries_;  // [B, Tq]
  std::vector<Point> keys_;     // [B, Tk]
};

}  // namespace

std::unique_ptr<PairTerm> make_plane_term(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<PlaneTerm>(setup, encoding);
}

}  // namespace posenc

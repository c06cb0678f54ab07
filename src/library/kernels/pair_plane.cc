// Relative2d for a block of queries: a table read by two distances.
#include <algorithm>
#include <cstdlib>

#include "kernels/cpu/pair_simd.h"
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
        keys_(points_of(setup, plane(), false)) {
    for (const std::vector<double>& parameter : parameters()) {
      tables_.emplace_back(parameter.begin(), parameter.end());
    }
  }

  void add(const PairBlock& block, float* values) const override {
    const float* first = tables_[0].data() + first_of(block.head);
    const float* second = plane().separable ? tables_[1].data() + second_of(block.head) : nullptr;
    for_keys(block,
             [&](std::size_t key, const cpu::PlaneEntries& at, const cpu::PlaneEntries& columns) {
               float* to = values + key * cpu::kQueryBlock;
               cpu::add_entries(first, at, to);
               if (second != nullptr) cpu::add_entries(second, columns, to);
             });
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& /*segment*/) const override {
    return {
        .numbers = std::vector<double>(first_size() + second_size(), 0.0), .table = {}, .rows = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* /*dkeys*/) const override {
    double* first = to.numbers.data() + first_of(block.head);
    double* second =
        plane().separable ? to.numbers.data() + first_size() + second_of(block.head) : nullptr;
    for_keys(block,
             [&](std::size_t key, const cpu::PlaneEntries& at, const cpu::PlaneEntries& columns) {
               const float* from = dvalues + key * cpu::kQueryBlock;
               for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) {
                 first[at[r]] += static_cast<double>(from[r]);
               }
               for (std::size_t r = 0; second != nullptr && r < cpu::kQueryBlock; ++r) {
                 second[columns[r]] += static_cast<double>(from[r]);
               }
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

  // Of a head, in the parameters.
  [[nodiscard]] std::size_t first_of(std::int64_t head) const {
    const auto h = static_cast<std::size_t>(head);
    return h * first_size() / static_cast<std::size_t>(setup().state->shape.heads);
  }
  [[nodiscard]] std::size_t second_of(std::int64_t head) const {
    return static_cast<std::size_t>(head * plane().column_entries());
  }

  // A coordinate less that of the block's first query. Keys farther than this from all queries are past every table.
  static constexpr std::int64_t kFar = 1 << 30;
  static std::int32_t relative_to(std::int64_t base, std::int64_t coordinate) {
    return static_cast<std::int32_t>(std::clamp(coordinate - base, -kFar, kFar));
  }
  // Whether the coordinates of a block's queries fit.
  [[nodiscard]] static bool are_near(const Point* queries, std::size_t count) {
    return std::all_of(queries, queries + count, [&](const Point& p) {
      return std::abs(p.y - queries[0].y) < kFar / 2 && std::abs(p.x - queries[0].x) < kFar / 2;
    });
  }

  // Calls body with each key of a block and the entries that its queries read.
  template <class Body>
  void for_keys(const PairBlock& block, const Body& body) const {
    const AttentionCall& call = *setup().call;
    const Segment& s = block.segment;
    const Point* queries =
        queries_.data() + s.batch * call.q.tokens() + s.first_query + block.queries.first;
    const Point* keys = keys_.data() + s.batch * call.k.tokens() + s.first_key;
    const Point base = queries[0];
    cpu::PlaneEntries y{}, x{}, first{}, second{};
    for (std::size_t r = 0; r < block.queries.count; ++r) {
      y[r] = relative_to(base.y, queries[r].y);
      x[r] = relative_to(base.x, queries[r].x);
    }
    const cpu::PlaneProblem problem{y.data(), x.data(), static_cast<std::int32_t>(plane().height),
                                    static_cast<std::int32_t>(plane().width), plane().separable};
    const bool near = are_near(queries, block.queries.count);
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      if (near) {
        cpu::plane_entries(problem, relative_to(base.y, keys[j].y), relative_to(base.x, keys[j].x),
                           first, second);
      }
      for (std::size_t r = 0; !near && r < block.queries.count; ++r) {
        const Relative2d::Entries entries = plane().entries(0, queries[r], keys[j]);
        first[r] = static_cast<std::int32_t>(entries.first);
        second[r] = static_cast<std::int32_t>(entries.second);
      }
      body(static_cast<std::size_t>(j), first, second);
    }
  }

  std::vector<Point> queries_;  // [B, Tq]
  std::vector<Point> keys_;     // [B, Tk]
  std::vector<std::vector<float>> tables_;
};

}  // namespace

std::unique_ptr<PairTerm> make_plane_term(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<PlaneTerm>(setup, encoding);
}

}  // namespace posenc

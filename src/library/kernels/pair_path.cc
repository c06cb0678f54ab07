// GrapeAp for a block of queries: a sum of steps per query, from its own token back over the keys.
#include <cmath>

#include "core/thread_pool.h"
#include "kernels/cpu/pair_simd.h"
#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"

namespace posenc {
namespace {

class PathSums : public PairTerm {
 public:
  PathSums(const AttentionSetup& setup, std::size_t encoding)
      : PairTerm(setup, encoding), rank_(static_cast<std::size_t>(config<GrapeAp>().rank)) {
    const std::size_t lanes = cpu::vector_lanes();
    stride_ = (rank_ + lanes - 1) / lanes * lanes;
    const std::size_t first = first_input(setup.state->inputs, encoding);
    for (std::size_t i = 0; i < inputs(); ++i) fill(setup.call->inputs[first + i], rows_[i]);
  }

  void add(const PairBlock& block, float* values) const override {
    cpu::add_path_sums(problem(block), range_of(block), values);
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& segment) const override {
    const auto keys = static_cast<std::size_t>(segment.keys);
    return {
        .numbers = std::vector<double>(static_cast<std::size_t>(group()), 0.0),
        .table = {},
        .rows = std::vector<float>(inputs() * static_cast<std::size_t>(group()) * keys * stride_),
        .sums = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* /*dkeys*/) const override {
    const std::int64_t in_group = block.head % group();
    float* dp = to.rows.data() + row_of(block.segment, 0, in_group);
    float* de = to.rows.data() + row_of(block.segment, inputs() - 1, in_group);
    to.numbers[static_cast<std::size_t>(in_group)] +=
        cpu::path_gradients(problem(block), range_of(block), dvalues, dp, de);
  }

  void add_to_parameters(const PairGradients& from, std::int64_t kv_head,
                         Parameters& to) const override {
    for (std::int64_t h = 0; h < group(); ++h) to[0][kv_head * group() + h] += from.numbers[h];
  }

  void write_inputs(const PairGradients& from, const Segment& segment, std::int64_t kv_head,
                    std::span<const TensorView> to) const override {
    const std::size_t first = first_input(setup().state->inputs, encoding());
    for (std::size_t i = 0; i < inputs(); ++i) {
      for (std::int64_t h = 0; h < group(); ++h) {
        const float* rows = from.rows.data() + row_of(segment, i, h);
        for (std::int64_t j = 0; j < segment.keys; ++j, rows += stride_) {
          write_row(to[first + i], segment.batch, kv_head * group() + h, segment.first_key + j,
                    rows);
        }
      }
    }
  }

 private:
  // An input as float32. A number that is not finite shows in every row that sees it, also where no step reads it.
  struct Rows {
    AlignedFloats values;     // [B, H, Tk][stride]
    std::vector<float> lost;  // [B, H, Tk]: 0, or NaN
  };

  [[nodiscard]] std::size_t inputs() const { return config<GrapeAp>().separate ? 2 : 1; }
  // The first row of a head's gradients.
  [[nodiscard]] std::size_t row_of(const Segment& segment, std::size_t input,
                                   std::int64_t in_group) const {
    const std::size_t matrix =
        input * static_cast<std::size_t>(group()) + static_cast<std::size_t>(in_group);
    return matrix * static_cast<std::size_t>(segment.keys) * stride_;
  }

  void fill(const ConstTensorView& input, Rows& to) {
    const auto tokens = static_cast<std::size_t>(input.batch() * input.heads() * input.tokens());
    to.values.resize(tokens * stride_);
    to.lost.resize(tokens);
    parallel_for(input.batch() * input.heads(), [&](std::int64_t matrix, int) {
      const std::int64_t batch = matrix / input.heads();
      for (std::int64_t t = 0; t < key_count(*setup().call, batch); ++t) {
        const auto at = static_cast<std::size_t>(matrix * input.tokens() + t);
        float* row = to.values.data() + at * stride_;
        read_key_row(setup().call->block_table, input, batch, matrix % input.heads(), t, stride_,
                     row);
        for (std::size_t c = 0; c < rank_; ++c) to.lost[at] += 0.0f * row[c];
      }
    });
  }

  [[nodiscard]] cpu::PathProblem problem(const PairBlock& block) const {
    const Segment& s = block.segment;
    const std::int64_t heads = setup().state->shape.heads;
    const auto first = static_cast<std::size_t>(
        (s.batch * heads + block.head) * setup().call->k.tokens() + s.first_key);
    const Rows& p = rows_[0];
    const Rows& e = rows_[inputs() - 1];
    cpu::PathProblem problem;
    problem.rank = rank_;
    problem.p = {p.values.data() + first * stride_, stride_};
    problem.e = {e.values.data() + first * stride_, stride_};
    problem.lost_p = p.lost.data() + first;
    problem.lost_e = e.lost.data() + first;
    const cpu::HeadProblem head = setup().problem(s, block.head);
    problem.key_mask = head.key_mask;
    problem.own = setup().state->breaks_sticks ? 1 : 0;
    problem.window_left = head.window_left;
    problem.factor = static_cast<float>(config<GrapeAp>().factor());
    problem.slope = static_cast<float>(parameters()[0][block.head]);
    return problem;
  }

  std::size_t rank_;
  std::size_t stride_ = 0;
  std::array<Rows, 2> rows_;  // of each input
};

}  // namespace

std::unique_ptr<PairTerm> make_path_term(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<PathSums>(setup, encoding);
}

}  // namespace posenc

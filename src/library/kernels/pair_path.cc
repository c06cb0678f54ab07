// GrapeAp for a block of queries: a sum of steps per query, from its own token back over the keys.
#include <array>
#include <cmath>

#include "kernels/pair_terms.h"

namespace posenc {
namespace {

float step_sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

class PathSums : public PairTerm {
 public:
  PathSums(const AttentionSetup& setup, std::size_t encoding)
      : PairTerm(setup, encoding),
        rank_(static_cast<std::size_t>(config<GrapeAp>().rank)),
        factor_(static_cast<float>(config<GrapeAp>().factor())) {}

  void add(const PairBlock& block, float* values) const override {
    const Rows rows = read(block);
    const auto slope = static_cast<float>(parameters()[0][block.head]);
    std::array<double, cpu::kQueryBlock> sums{};
    std::array<float, cpu::kQueryBlock> steps{};
    for (std::int64_t j = block.end_key; j-- > block.first_key;) {
      float* to = values + static_cast<std::size_t>(j) * cpu::kQueryBlock;
      const float lost = rows.lost_step(j);
      for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) {
        to[r] += slope * static_cast<float>(sums[r]) + (lost + rows.lost[r]);
      }
      step_products(rows, block, j, steps);
      for (std::size_t r = 0; r < block.queries.count; ++r) {
        if (passes(block, j, r)) sums[r] -= static_cast<double>(softplus(-steps[r]));
      }
    }
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& segment) const override {
    const auto keys = static_cast<std::size_t>(segment.keys);
    return {.numbers = std::vector<double>(static_cast<std::size_t>(group()), 0.0),
            .table = {},
            .rows = std::vector<float>(inputs() * static_cast<std::size_t>(group()) * keys * rank_),
            .sums = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* /*dkeys*/) const override {
    const Rows rows = read(block);
    const double slope = parameters()[0][block.head];
    double& dslope = to.numbers[static_cast<std::size_t>(block.head % group())];
    std::array<double, cpu::kQueryBlock>
        before{};  // SUM of the gradients of keys that a step fades
    std::array<float, cpu::kQueryBlock> steps{};
    std::array<float, cpu::kQueryBlock> dsteps{};
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      step_products(rows, block, j, steps);
      const float* from = dvalues + static_cast<std::size_t>(j) * cpu::kQueryBlock;
      for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) {
        dsteps[r] = 0.0f;
        if (r < block.queries.count && passes(block, j, r) && before[r] != 0.0) {
          dsteps[r] = factor_ * static_cast<float>(slope * before[r]) * step_sigmoid(-steps[r]);
          dslope -= before[r] * static_cast<double>(softplus(-steps[r]));
        }
        before[r] += static_cast<double>(from[r]);
        dslope += 0.0 * static_cast<double>(from[r]);  // NaN also where no step is passed
      }
      add_step(rows, block, j, dsteps, to);
    }
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
        const float* rows = from.rows.data() + row_of(segment, i, h, 0);
        for (std::int64_t j = 0; j < segment.keys; ++j, rows += rank_) {
          write_row(to[first + i], segment.batch, kv_head * group() + h, segment.first_key + j,
                    rows);
        }
      }
    }
  }

 private:
  // Of a head of a block: p of its queries, transposed, and what is read of every key.
  struct Rows {
    std::vector<float> p;  // [rank][kQueryBlock], 0 where a query has no token among the keys
    std::vector<float> e;  // [keys][rank]
    std::array<float, cpu::kQueryBlock> lost{};  // NaN where p of a query is not finite, else 0

    // A number that is not finite shows in every row that sees it, also where no step reads it.
    [[nodiscard]] float lost_step(std::int64_t key) const {
      const std::size_t rank = p.size() / cpu::kQueryBlock;
      return sum_of(e.data() + static_cast<std::size_t>(key) * rank, rank);
    }
    static float sum_of(const float* row, std::size_t size) {
      float sum = 0.0f;
      for (std::size_t c = 0; c < size; ++c) sum += 0.0f * row[c];
      return sum;
    }
  };

  [[nodiscard]] std::size_t inputs() const { return config<GrapeAp>().separate ? 2 : 1; }
  [[nodiscard]] std::size_t row_of(const Segment& segment, std::size_t input, std::int64_t in_group,
                                   std::int64_t key) const {
    const auto keys = static_cast<std::size_t>(segment.keys);
    const std::size_t matrix =
        input * static_cast<std::size_t>(group()) + static_cast<std::size_t>(in_group);
    return (matrix * keys + static_cast<std::size_t>(key)) * rank_;
  }
  // Whether the step at a key is on the paths of a query.
  [[nodiscard]] bool passes(const PairBlock& block, std::int64_t key, std::size_t r) const {
    const std::int64_t place = block.place(r);
    const AttentionMask& mask = setup().call->mask;
    if (key > place || (mask.window_left >= 0 && place - key > mask.window_left)) return false;
    if (setup().state->breaks_sticks && key == place) return false;
    if (mask.key_mask == nullptr) return true;
    return mask.key_mask[block.segment.batch * setup().call->k.tokens() + block.segment.first_key +
                         key] != 0;
  }

  [[nodiscard]] Rows read(const PairBlock& block) const {
    const Segment& s = block.segment;
    const std::size_t first = first_input(setup().state->inputs, encoding());
    const ConstTensorView& of_queries = setup().call->inputs[first];
    const ConstTensorView& of_steps = setup().call->inputs[first + inputs() - 1];
    Rows rows{std::vector<float>(rank_ * cpu::kQueryBlock),
              std::vector<float>(static_cast<std::size_t>(s.keys) * rank_),
              {}};
    std::vector<float> row(rank_);
    for (std::size_t r = 0; r < block.queries.count; ++r) {
      if (block.place(r) < 0) continue;
      read_row(of_queries, s.batch, block.head, s.first_key + block.place(r), rank_, row.data());
      for (std::size_t c = 0; c < rank_; ++c) rows.p[c * cpu::kQueryBlock + r] = row[c];
      rows.lost[r] = Rows::sum_of(row.data(), rank_);
    }
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      read_row(of_steps, s.batch, block.head, s.first_key + j, rank_,
               rows.e.data() + static_cast<std::size_t>(j) * rank_);
    }
    return rows;
  }

  void step_products(const Rows& rows, const PairBlock& /*block*/, std::int64_t key,
                     std::array<float, cpu::kQueryBlock>& steps) const {
    const float* e = rows.e.data() + static_cast<std::size_t>(key) * rank_;
    steps.fill(0.0f);
    for (std::size_t c = 0; c < rank_; ++c) {
      const float* p = rows.p.data() + c * cpu::kQueryBlock;
      for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) steps[r] += factor_ * e[c] * p[r];
    }
  }

  // The gradients of p of the block's queries and of e at a key.
  void add_step(const Rows& rows, const PairBlock& block, std::int64_t key,
                const std::array<float, cpu::kQueryBlock>& dsteps, PairGradients& to) const {
    const std::int64_t in_group = block.head % group();
    const float* e = rows.e.data() + static_cast<std::size_t>(key) * rank_;
    float* de = to.rows.data() + row_of(block.segment, inputs() - 1, in_group, key);
    for (std::size_t r = 0; r < block.queries.count; ++r) {
      if (dsteps[r] == 0.0f) continue;
      float* dp = to.rows.data() + row_of(block.segment, 0, in_group, block.place(r));
      for (std::size_t c = 0; c < rank_; ++c) {
        dp[c] += dsteps[r] * e[c];
        de[c] += dsteps[r] * rows.p[c * cpu::kQueryBlock + r];
      }
    }
  }

  std::size_t rank_;
  float factor_;
};

}  // namespace

std::unique_ptr<PairTerm> make_path_term(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<PathSums>(setup, encoding);
}

}  // namespace posenc

// RelativeQuery with side=key for a block of queries: keys times the vectors of the distances at which the block's
// queries are. The queries of a block are neighbours, so those are neighbouring columns of a table.
#include <algorithm>
#include <cmath>

#include "core/thread_pool.h"
#include "kernels/cpu/pair_simd.h"
#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"

namespace posenc {
namespace {

using cpu::KeyProblem;

class KeyProducts : public PairTerm {
 public:
  KeyProducts(const AttentionSetup& setup, std::size_t encoding) : PairTerm(setup, encoding) {
    find_distances();
    fill_tables();
    fill_keys();
    if (relative().beyond == RelativeQuery::Beyond::kClip) fill_ends();
  }

  [[nodiscard]] bool reads_keys() const override { return true; }

  void add(const PairBlock& block, float* values) const override {
    cpu::add_key_products(problem(block), range_of(block), values);
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& /*segment*/) const override {
    return {.numbers = {},
            .table = std::vector<float>(group_tables() * columns_ * width()),
            .rows = {},
            .sums = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* dkeys) const override {
    const std::int64_t in_group = relative().per_head ? block.head % group() : 0;
    float* dtable = to.table.data() + static_cast<std::size_t>(in_group) * columns_ * width();
    cpu::key_gradients(problem(block), range_of(block), dvalues, dkeys, dtable);
  }

  void add_to_parameters(const PairGradients& from, std::int64_t kv_head,
                         Parameters& to) const override {
    const double factor = relative().factor(static_cast<double>(setup().scale));
    const auto entries = static_cast<std::size_t>(relative().entries());
    const std::size_t first =
        relative().per_head ? static_cast<std::size_t>(kv_head * group()) * dim() : 0;
    for (std::size_t table = 0; table < group_tables(); ++table) {
      for (std::size_t n = 0; n < columns_; ++n) {
        const std::int64_t entry = entry_of(n);
        if (entry < 0) continue;
        const float* row = from.table.data() + (table * columns_ + n) * width();
        for (std::size_t c = 0; c < dim(); ++c) {
          to[0][(first + table * dim() + c) * entries + static_cast<std::size_t>(entry)] +=
              factor * static_cast<double>(row[c]);
        }
      }
    }
  }

 private:
  [[nodiscard]] const RelativeQuery& relative() const { return config<RelativeQuery>(); }
  [[nodiscard]] std::size_t dim() const { return setup().dim; }
  [[nodiscard]] std::size_t width() const { return setup().padded_dim; }
  [[nodiscard]] std::size_t group_tables() const {
    return relative().per_head ? static_cast<std::size_t>(group()) : 1;
  }
  [[nodiscard]] std::size_t tables() const {
    return relative().per_head ? static_cast<std::size_t>(setup().state->shape.heads) : 1;
  }
  // The entry that a column holds; -1 for none.
  [[nodiscard]] std::int64_t entry_of(std::size_t column) const {
    return relative().entry(static_cast<std::int64_t>(column) + first_);
  }

  [[nodiscard]] KeyProblem problem(const PairBlock& block) const {
    const ConstTensorView& k = setup().call->k;
    const std::int64_t matrix = block.segment.batch * k.heads() + block.head / group();
    const auto row = static_cast<std::size_t>(matrix * k.tokens() + block.segment.first_key);
    const std::size_t table = relative().per_head ? static_cast<std::size_t>(block.head) : 0;
    KeyProblem problem;
    problem.dim = dim();
    problem.padded_dim = width();
    problem.keys = {keys_.data() + row * width(), width()};
    problem.table = table_.data() + table * dim() * columns_;
    problem.transposed = transposed_.data() + table * columns_ * width();
    problem.columns = columns_;
    problem.finite = finite_;
    problem.first = first_;
    problem.lowest = lowest_;
    problem.highest = highest_;
    if (below_.empty()) return problem;
    const std::size_t end = table * (keys_.size() / width()) + row;
    problem.below = below_.data() + end;
    problem.above = above_.data() + end;
    return problem;
  }

  // The distances of the call that the table distinguishes.
  void find_distances() {
    const KeyDistances seen(relative(), setup().distances);
    lowest_ = seen.lowest;
    highest_ = seen.highest;
    first_ = seen.first();
    const auto count = static_cast<std::size_t>(seen.columns());
    const std::size_t lanes = cpu::vector_lanes();
    columns_ = (count + lanes - 1) / lanes * lanes;
  }

  // By distance, scaled; 0 where a distance has no entry.
  void fill_tables() {
    const double factor = relative().factor(static_cast<double>(setup().scale));
    const auto entries = static_cast<std::size_t>(relative().entries());
    table_.assign(tables() * dim() * columns_, 0.0f);
    transposed_.assign(tables() * columns_ * width(), 0.0f);
    for (std::size_t n = 0; n < columns_; ++n) {
      const std::int64_t entry = entry_of(n);
      for (std::size_t row = 0; entry >= 0 && row < tables() * dim(); ++row) {
        const double value = parameters()[0][row * entries + static_cast<std::size_t>(entry)];
        const auto scaled = static_cast<float>(factor * value);
        finite_ = finite_ && std::isfinite(scaled);
        table_[row * columns_ + n] = scaled;
        transposed_[(row / dim() * columns_ + n) * width() + row % dim()] = scaled;
      }
    }
  }

  void fill_keys() {
    const ConstTensorView& k = setup().call->k;
    keys_.resize(static_cast<std::size_t>(k.batch() * k.heads() * k.tokens()) * width());
    parallel_for(k.batch() * k.heads(), [&](std::int64_t matrix, int) {
      float* to = keys_.data() + static_cast<std::size_t>(matrix * k.tokens()) * width();
      const std::int64_t batch = matrix / k.heads();
      for (std::int64_t t = 0; t < key_count(*setup().call, batch); ++t, to += width()) {
        read_key_row(setup().call->block_table, k, batch, matrix % k.heads(), t, width(), to);
      }
    });
  }

  // Products of every key with the entries at both ends.
  void fill_ends() {
    const std::size_t rows = keys_.size() / width();
    below_.resize(tables() * rows);
    above_.resize(below_.size());
    parallel_for(static_cast<std::int64_t>(tables()), [&](std::int64_t table, int) {
      const float* low = transposed_.data() + static_cast<std::size_t>(table) * columns_ * width();
      const float* high = low + (columns_ - 1) * width();
      for (std::size_t row = 0; row < rows; ++row) {
        const float* key = keys_.data() + row * width();
        float below = 0.0f;
        float above = 0.0f;
        for (std::size_t c = 0; c < dim(); ++c) {
          below += key[c] * low[c];
          above += key[c] * high[c];
        }
        below_[static_cast<std::size_t>(table) * rows + row] = below;
        above_[static_cast<std::size_t>(table) * rows + row] = above;
      }
    });
  }

  std::int64_t lowest_ = 0;
  std::int64_t highest_ = 0;
  std::int64_t first_ = 0;    // distance of the first column
  std::size_t columns_ = 0;   // distances
  bool finite_ = true;        // the whole table
  AlignedFloats table_;       // [tables][dim][columns]
  AlignedFloats transposed_;  // [tables][columns][padded_dim]
  AlignedFloats keys_;        // [B, Hkv, Tk, padded_dim], before site 2
  AlignedFloats below_;       // [tables][B, Hkv, Tk]; empty where far keys get nothing
  AlignedFloats above_;
};

}  // namespace

std::unique_ptr<PairTerm> make_key_products(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<KeyProducts>(setup, encoding);
}

}  // namespace posenc

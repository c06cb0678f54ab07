// RelativeQuery with side=key for a block of queries: keys times the vectors of the distances at which the block's
// queries are. The queries of a block are neighbours, so those are neighbouring columns of a table.
#include <algorithm>
#include <cmath>

#include "kernels/pair_terms.h"

namespace posenc {
namespace {

bool row_is_finite(const float* values, std::size_t count) {
  return std::all_of(values, values + count, [](float x) { return std::isfinite(x); });
}

class KeyProducts : public PairTerm {
 public:
  KeyProducts(const AttentionSetup& setup, std::size_t encoding)
      : PairTerm(setup, encoding), span_(static_cast<std::size_t>(setup.distances.span())) {
    fill_table();
    fill_keys();
  }

  [[nodiscard]] bool reads_keys() const override { return true; }

  void add(const PairBlock& block, float* values) const override {
    const float* table = table_of(block.head);
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      const float* key = key_row(block, j);
      float* to = values + static_cast<std::size_t>(j) * cpu::kQueryBlock;
      const std::size_t column = column_of(block, j);
      for (std::size_t c = 0; c < dim(); ++c) {
        const float* entries = table + c * span_ + column;
        for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) to[r] += key[c] * entries[r];
      }
    }
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& /*segment*/) const override {
    return {.numbers = {},
            .table = std::vector<float>(group_tables() * dim() * span_),
            .rows = {},
            .sums = {}};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* dkeys) const override {
    const float* table = table_of(block.head);
    const std::int64_t in_group = config<RelativeQuery>().per_head ? block.head % group() : 0;
    float* dtable = to.table.data() + static_cast<std::size_t>(in_group) * dim() * span_;
    for (std::int64_t j = block.first_key; j < block.end_key; ++j) {
      const float* from = dvalues + static_cast<std::size_t>(j) * cpu::kQueryBlock;
      if (std::all_of(from, from + cpu::kQueryBlock, [](float x) { return x == 0.0f; })) continue;
      float* dkey = dkeys + static_cast<std::size_t>(j) * setup().padded_dim;
      for (std::size_t c = 0; c < dim(); ++c) {
        const std::size_t at = c * span_ + column_of(block, j);
        dkey[c] += add_products(from, key_row(block, j)[c], table + at, dtable + at);
      }
    }
  }

  void add_to_parameters(const PairGradients& from, std::int64_t kv_head,
                         Parameters& to) const override {
    const auto& relative = config<RelativeQuery>();
    const double factor = relative.factor(static_cast<double>(setup().scale));
    const auto entries = static_cast<std::size_t>(relative.entries());
    const std::size_t first =
        relative.per_head ? static_cast<std::size_t>(kv_head * group()) * dim() : 0;
    for (std::size_t row = 0; row < group_tables() * dim(); ++row) {
      for (std::size_t n = 0; n < span_; ++n) {
        const std::int64_t entry =
            relative.entry(static_cast<std::int64_t>(n) - setup().distances.before);
        if (entry < 0) continue;
        to[0][(first + row) * entries + static_cast<std::size_t>(entry)] +=
            factor * static_cast<double>(from.table[row * span_ + n]);
      }
    }
  }

 private:
  [[nodiscard]] std::size_t dim() const { return setup().dim; }
  [[nodiscard]] std::size_t group_tables() const {
    return config<RelativeQuery>().per_head ? static_cast<std::size_t>(group()) : 1;
  }
  [[nodiscard]] const float* table_of(std::int64_t head) const {
    const std::size_t at =
        config<RelativeQuery>().per_head ? static_cast<std::size_t>(head) * dim() * span_ : 0;
    return table_.data() + at;
  }
  [[nodiscard]] std::size_t column_of(const PairBlock& block, std::int64_t key) const {
    return static_cast<std::size_t>(block.place(0) - key + setup().distances.before);
  }
  [[nodiscard]] const float* key_row(const PairBlock& block, std::int64_t key) const {
    const ConstTensorView& k = setup().call->k;
    const std::int64_t head = block.segment.batch * k.heads() + block.head / group();
    return keys_.data() +
           static_cast<std::size_t>(head * k.tokens() + block.segment.first_key + key) * dim();
  }

  // Adds `key` times the gradient of a row of values to that of the table; returns what the key gets. An entry or a key
  // behind a gradient of 0 may be NaN.
  static float add_products(const float* gradient, float key, const float* entries, float* to) {
    float sum = 0.0f;
    if (std::isfinite(key) && row_is_finite(entries, cpu::kQueryBlock)) {
      for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) to[r] += key * gradient[r];
      for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) sum += gradient[r] * entries[r];
      return sum;
    }
    for (std::size_t r = 0; r < cpu::kQueryBlock; ++r) {
      if (gradient[r] == 0.0f) continue;
      to[r] += key * gradient[r];
      sum += gradient[r] * entries[r];
    }
    return sum;
  }

  // The table by distance, scaled; 0 where a distance has no entry.
  void fill_table() {
    const auto& relative = config<RelativeQuery>();
    const double factor = relative.factor(static_cast<double>(setup().scale));
    const auto entries = static_cast<std::size_t>(relative.entries());
    const std::size_t rows = parameters()[0].size() / entries;
    table_.assign(rows * span_, 0.0f);
    for (std::size_t n = 0; n < span_; ++n) {
      const std::int64_t entry =
          relative.entry(static_cast<std::int64_t>(n) - setup().distances.before);
      for (std::size_t row = 0; entry >= 0 && row < rows; ++row) {
        const double value = parameters()[0][row * entries + static_cast<std::size_t>(entry)];
        table_[row * span_ + n] = static_cast<float>(factor * value);
      }
    }
  }

  void fill_keys() {
    const ConstTensorView& k = setup().call->k;
    keys_.resize(static_cast<std::size_t>(k.batch() * k.heads() * k.tokens()) * dim());
    float* to = keys_.data();
    for (std::int64_t b = 0; b < k.batch(); ++b) {
      for (std::int64_t h = 0; h < k.heads(); ++h) {
        for (std::int64_t t = 0; t < k.tokens(); ++t, to += dim()) read_row(k, b, h, t, dim(), to);
      }
    }
  }

  std::size_t span_;          // distances
  std::vector<float> table_;  // [tables][dim][span]
  std::vector<float> keys_;   // [B, Hkv, Tk, dim], before site 2
};

}  // namespace

std::unique_ptr<PairTerm> make_key_products(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<KeyProducts>(setup, encoding);
}

}  // namespace posenc

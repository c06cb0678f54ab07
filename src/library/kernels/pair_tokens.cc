// A token term of both sides for a block of queries: differences of sums over the tokens up to the query, or over those
// before a key after it.
#include "kernels/cpu/pair_simd.h"
#include "kernels/paged_cache.h"
#include "kernels/pair_terms.h"

namespace posenc {
namespace {

class TwoSidedTerm : public PairTerm {
 public:
  TwoSidedTerm(const AttentionSetup& setup, std::size_t encoding)
      : PairTerm(setup, encoding),
        form_(*token_form(setup.state->spec.encodings[encoding], static_cast<double>(setup.scale))),
        input_(first_input(setup.state->inputs, encoding)) {
    const AttentionCall& call = *setup.call;
    const auto rows = static_cast<std::size_t>(call.k.batch() * setup.state->shape.heads);
    sums_.resize(rows * static_cast<std::size_t>(call.k.tokens()));
    keys_.resize(sums_.size());
    for (const Segment& s : setup.segments) {
      for (std::int64_t h = 0; h < setup.state->shape.heads; ++h) fill(s, h);
    }
  }

  void add(const PairBlock& block, float* values) const override {
    const std::size_t first = first_of(block.segment, block.head);
    cpu::add_two_sided({sums_.data() + first, keys_.data() + first}, range_of(block), values);
  }

  [[nodiscard]] PairGradients zero_gradients(const Segment& segment) const override {
    const auto keys = static_cast<std::size_t>(segment.keys);
    return {.numbers = {},
            .table = {},
            .rows = {},
            .sums = std::vector<double>(static_cast<std::size_t>(group()) * keys, 0.0)};
  }

  void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                     float* /*dkeys*/) const override {
    double* sums = to.sums.data() + (block.head % group()) * block.segment.keys;
    cpu::two_sided_gradients(range_of(block), dvalues, sums);
  }

  void add_to_parameters(const PairGradients& /*from*/, std::int64_t /*kv_head*/,
                         Parameters& /*to*/) const override {}

  void write_inputs(const PairGradients& from, const Segment& segment, std::int64_t kv_head,
                    std::span<const TensorView> to) const override {
    write_token_gradients(setup(), encoding(), segment, kv_head, from.sums, to);
  }

 private:
  [[nodiscard]] std::size_t first_of(const Segment& s, std::int64_t head) const {
    return static_cast<std::size_t>(
        (s.batch * setup().state->shape.heads + head) * setup().call->k.tokens() + s.first_key);
  }

  void fill(const Segment& s, std::int64_t head) {
    const AttentionCall& call = *setup().call;
    const ConstTensorView& input = call.inputs[input_];
    const std::int64_t sharing = setup().state->shape.heads / input.heads();
    std::vector<double> x;
    for (std::int64_t t = 0; t < s.keys; ++t) {
      float value = 0.0f;
      read_key_row(call.block_table, input, s.batch, head / sharing, s.first_key + t, 1, &value);
      x.push_back(static_cast<double>(value));
    }
    const TokenSums sums = token_sums(form_, x, real_keys(call, s));
    std::copy(sums.at_query.begin(), sums.at_query.end(), sums_.begin() + first_of(s, head));
    std::copy(sums.at_key.begin(), sums.at_key.end(), keys_.begin() + first_of(s, head));
  }

  TokenForm form_;
  std::size_t input_;
  std::vector<double> sums_;  // [B, H, Tk]
  std::vector<double> keys_;  // likewise, NaN at tokens that are not finite
};

}  // namespace

std::unique_ptr<PairTerm> make_two_sided_term(const AttentionSetup& setup, std::size_t encoding) {
  return std::make_unique<TwoSidedTerm>(setup, encoding);
}

}  // namespace posenc

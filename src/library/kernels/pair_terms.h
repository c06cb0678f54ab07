// Score terms without a formula per tile: computed for a block of queries and all its keys, in memory of
// keys x kQueryBlock per thread, and added to the scores of each tile.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/cpu/pair_simd.h"

namespace posenc {

// A block of queries of one head, and the keys that it may see: first_key .. end_key - 1 of the segment.
struct PairBlock {
  const Segment& segment;
  std::int64_t head;
  const cpu::QueryBlock& queries;
  std::int64_t first_key;
  std::int64_t end_key;

  // Of the r-th query of the block.
  [[nodiscard]] std::int64_t place(std::size_t r) const {
    return segment.place_offset() + static_cast<std::int64_t>(queries.first + r);
  }
};
cpu::PairRange range_of(const PairBlock& block);
PairBlock pair_block(const AttentionSetup& setup, const Segment& segment, std::int64_t head,
                     const cpu::QueryBlock& queries);

// What a task (a key head of a segment, and part of its queries) adds up for one term.
struct PairGradients {
  std::vector<double> numbers;  // of parameters
  std::vector<float> table;     // of a table that parameters make
  std::vector<float> rows;      // of inputs, a row per key
  std::vector<double> sums;     // of sums over tokens, a number per key
};

class PairTerm {
 public:
  PairTerm(const AttentionSetup& setup, std::size_t encoding);
  virtual ~PairTerm() = default;
  PairTerm(const PairTerm&) = delete;
  PairTerm& operator=(const PairTerm&) = delete;

  // Adds the term to values [keys of the segment][kQueryBlock]. What it adds where a key is hidden does not matter.
  virtual void add(const PairBlock& block, float* values) const = 0;

  [[nodiscard]] virtual PairGradients zero_gradients(const Segment& segment) const = 0;
  // Adds what the gradient of the values asks for; it is 0 where a key is hidden. `dkeys`: rows of the keys before site
  // 2, null where no term has any.
  virtual void add_gradients(const PairBlock& block, const float* dvalues, PairGradients& to,
                             float* dkeys) const = 0;
  // Whether add_gradients adds to the keys.
  [[nodiscard]] virtual bool reads_keys() const { return false; }
  // From the sums of a task to the parameters of the encoding, and of all tasks of a key head to inputs.
  virtual void add_to_parameters(const PairGradients& from, std::int64_t kv_head,
                                 Parameters& to) const = 0;
  virtual void write_inputs(const PairGradients& /*from*/, const Segment& /*segment*/,
                            std::int64_t /*kv_head*/, std::span<const TensorView> /*to*/) const {}

  [[nodiscard]] std::size_t encoding() const { return encoding_; }

 protected:
  [[nodiscard]] const AttentionSetup& setup() const { return setup_; }
  [[nodiscard]] const Parameters& parameters() const {
    return (*setup_.call->parameters)[encoding_];
  }
  template <class E>
  [[nodiscard]] const E& config() const {
    return *setup_.state->config<E>(encoding_);
  }
  [[nodiscard]] std::int64_t group() const {
    return setup_.state->shape.heads / setup_.state->kv_heads;
  }

 private:
  const AttentionSetup& setup_;
  std::size_t encoding_;
};

// The distances that a relative_query of keys distinguishes in a call.
struct KeyDistances {
  KeyDistances(const RelativeQuery& relative, const DistanceRange& range)
      : lowest(std::max(relative.bidirectional ? -relative.reach() : 0, range.lowest_seen)),
        highest(std::min(relative.reach(), range.places)) {}
  // The distance of the table's first column, and how many columns kernels may read.
  [[nodiscard]] std::int64_t first() const { return lowest - cpu::KeyProblem::kBefore; }
  [[nodiscard]] std::int64_t columns() const {
    return highest + cpu::KeyProblem::kPast + 1 - first();
  }

  std::int64_t lowest;
  std::int64_t highest;
};

// Those of Terms::pairs, in order. They refer to the setup.
std::vector<std::unique_ptr<PairTerm>> make_pair_terms(const AttentionSetup& setup);
std::unique_ptr<PairTerm> make_plane_term(const AttentionSetup& setup, std::size_t encoding);
std::unique_ptr<PairTerm> make_key_products(const AttentionSetup& setup, std::size_t encoding);
std::unique_ptr<PairTerm> make_path_term(const AttentionSetup& setup, std::size_t encoding);
std::unique_ptr<PairTerm> make_two_sided_term(const AttentionSetup& setup, std::size_t encoding);

// From the gradient of a token term's sums, [heads of the group][keys], to its input. Heads that share an input's head
// are added up.
void write_token_gradients(const AttentionSetup& setup, std::size_t encoding,
                           const Segment& segment, std::int64_t kv_head,
                           std::span<const double> dsums, std::span<const TensorView> dinputs);

// The sum of all terms of a block of queries, [keys][kQueryBlock].
void fill_pairs(const AttentionSetup& setup, const Segment& segment, std::int64_t head,
                const cpu::QueryBlock& queries, AlignedFloats& values);

}  // namespace posenc

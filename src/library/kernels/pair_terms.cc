#include "kernels/pair_terms.h"

#include <algorithm>

namespace posenc {

PairTerm::PairTerm(const AttentionSetup& setup, std::size_t encoding)
    : setup_(setup), encoding_(encoding) {}

cpu::PairRange range_of(const PairBlock& block) {
  return {block.place(0), block.queries.count, static_cast<std::size_t>(block.first_key),
          static_cast<std::size_t>(block.end_key)};
}

PairBlock pair_block(const AttentionSetup& setup, const Segment& segment, std::int64_t head,
                     const cpu::QueryBlock& queries) {
  const cpu::HeadProblem p = setup.problem(segment, head);
  PairBlock block{segment, head, queries, 0, segment.keys};
  const std::int64_t first = block.place(0) - p.window_left;
  const std::int64_t end = block.place(queries.count - 1) + p.window_right + 1;
  block.first_key = std::clamp<std::int64_t>(first, 0, segment.keys);
  block.end_key = std::clamp<std::int64_t>(end, block.first_key, segment.keys);
  return block;
}

namespace {

struct MakePair {
  const AttentionSetup& setup;
  std::size_t index;

  using Made = std::unique_ptr<PairTerm>;
  Made operator()(const Relative2d& /*e*/) const { return make_plane_term(setup, index); }
  Made operator()(const RelativeQuery& /*e*/) const { return make_key_products(setup, index); }
  Made operator()(const GrapeAp& /*e*/) const { return make_path_term(setup, index); }
  template <TokenTerm E>
  Made operator()(const E& /*e*/) const {
    return make_two_sided_term(setup, index);
  }
};

}  // namespace

std::vector<std::unique_ptr<PairTerm>> make_pair_terms(const AttentionSetup& setup) {
  std::vector<std::unique_ptr<PairTerm>> all;
  for (const std::size_t index : setup.state->pairs) {
    all.push_back(visit_pair(*setup.state, index, MakePair{setup, index}));
  }
  return all;
}

void fill_pairs(const AttentionSetup& setup, const Segment& segment, std::int64_t head,
                const cpu::QueryBlock& queries, AlignedFloats& values) {
  if (setup.pairs.empty()) return;
  const PairBlock block = pair_block(setup, segment, head, queries);
  // Tiles are read whole.
  const auto tile = static_cast<std::int64_t>(cpu::kKeyBlock);
  const std::int64_t first = block.first_key / tile * tile;
  const std::int64_t end = (block.end_key + tile - 1) / tile * tile;
  std::fill_n(values.begin() + first * static_cast<std::int64_t>(cpu::kQueryBlock),
              (end - first) * static_cast<std::int64_t>(cpu::kQueryBlock), 0.0f);
  for (const auto& term : setup.pairs) term->add(block, values.data());
}

}  // namespace posenc

#include "train/tree_sum.h"

#include <gtest/gtest.h>

namespace posenc::train {
namespace {

at::Tensor total_of(const std::vector<at::Tensor>& leaves) {
  TreeSum sum;
  for (const at::Tensor& leaf : leaves) sum.add(leaf.clone());
  return sum.total();
}

TEST(TreeSum, AddsNeighboursFirst) {
  std::vector<at::Tensor> leaves;
  for (int i = 0; i < 8; ++i) leaves.push_back(at::randn({50}) * std::pow(10.0, i));
  const auto pair = [&](std::size_t i) { return leaves[i] + leaves[i + 1]; };
  const at::Tensor expected = (pair(0) + pair(2)) + (pair(4) + pair(6));
  EXPECT_TRUE(total_of(leaves).equal(expected));
}

// What processes do: each adds its own leaves, and the sums are leaves again.
TEST(TreeSum, SubtreesGiveTheSameBits) {
  std::vector<at::Tensor> leaves;
  for (int i = 0; i < 16; ++i) leaves.push_back(at::randn({100}));
  const at::Tensor whole = total_of(leaves);
  at::Tensor in_a_row = leaves[0].clone();
  for (std::size_t i = 1; i < leaves.size(); ++i) in_a_row += leaves[i];
  EXPECT_FALSE(in_a_row.equal(whole)) << "the order matters for these numbers";
  for (const std::size_t processes : {2U, 4U, 8U}) {
    const std::size_t each = leaves.size() / processes;
    std::vector<at::Tensor> sums;
    for (std::size_t p = 0; p < processes; ++p) {
      const auto begin = leaves.begin() + static_cast<std::ptrdiff_t>(p * each);
      sums.push_back(total_of({begin, begin + static_cast<std::ptrdiff_t>(each)}));
    }
    EXPECT_TRUE(total_of(sums).equal(whole)) << processes;
  }
}

}  // namespace
}  // namespace posenc::train

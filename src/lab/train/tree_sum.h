// Sums in a fixed binary tree: ((a + b) + (c + d)) + .... Processes that hold consecutive leaves, as many as a power of two,
// add theirs first, and the sum has the same bits however many processes there are.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "parallel/ranks.h"

namespace posenc::train {

class TreeSum {
 public:
  // Leaves come in order; the tensor is kept and added to.
  void add(at::Tensor leaf) {
    std::size_t level = 0;
    for (; level < levels_.size() && levels_[level].defined(); ++level) {
      at::Tensor left = std::exchange(levels_[level], at::Tensor());
      leaf = left.add_(leaf);
    }
    if (level == levels_.size()) levels_.emplace_back();
    levels_[level] = std::move(leaf);
  }
  // Of a power of two of leaves: the top of the tree.
  [[nodiscard]] const at::Tensor& total() const { return levels_.back(); }

 private:
  std::vector<at::Tensor> levels_;  // sums of 1, 2, 4, ... leaves that wait for as many more
};

// Every process's x in order of their ranks, as such a tree, into x. A piece of x after another: all of them are held at the
// same time.
inline void tree_sum(parallel::Ranks& ranks, const at::Tensor& x) {
  constexpr std::int64_t kNumbers = 1 << 20;
  for (std::int64_t begin = 0; begin < x.numel(); begin += kNumbers) {
    const at::Tensor piece = x.narrow(0, begin, std::min(kNumbers, x.numel() - begin));
    TreeSum sum;
    for (at::Tensor& part : ranks.gather(piece)) sum.add(std::move(part));
    piece.copy_(sum.total());
  }
}

}  // namespace posenc::train

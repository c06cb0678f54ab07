// Dropout with masks that do not depend on how the rows of a batch are distributed over processes. libtorch draws the random
// numbers of a tensor sequentially, so each process draws those of all rows and uses its own part.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace posenc::model {

// While one lives, the batch of this thread's calls is rows first .. first + its rows - 1 of a batch of `of` rows.
class BatchRows {
 public:
  struct Range {
    std::int64_t first = 0;
    std::int64_t of = 0;      // 0: the batch is whole
    std::int64_t joined = 0;  // so many rows follow each other in dimension 1: [1, joined * T, ...]
  };
  explicit BatchRows(const Range& range);
  BatchRows(std::int64_t first, std::int64_t of) : BatchRows(Range{.first = first, .of = of}) {}
  ~BatchRows();
  BatchRows(BatchRows&&) = delete;
  BatchRows& operator=(BatchRows&&) = delete;

  static Range current();

 private:
  Range before_;
};

// x [B, ...], or joined rows, with each number set to zero at the rate, and the others scaled by 1 / (1 - rate).
class RowDropoutImpl : public torch::nn::Module {
 public:
  explicit RowDropoutImpl(double rate) : rate_(rate) {}
  at::Tensor forward(const at::Tensor& x) const;

 private:
  double rate_;
};
TORCH_MODULE(RowDropout);

}  // namespace posenc::model

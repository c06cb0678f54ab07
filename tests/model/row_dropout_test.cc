// A process that holds some rows of a batch drops what one process that holds all of them drops.
#include "model/row_dropout.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

namespace posenc::model {
namespace {

TEST(RowDropout, RowsHaveTheMasksOfTheWholeBatch) {
  RowDropout dropout(0.3);
  dropout->train();
  const at::Tensor x = at::randn({6, 5, 4});
  const auto draw = [&](const at::Tensor& rows) {
    at::Tensor first = dropout(rows);
    return at::stack({first, dropout(rows)});  // the generator goes on as in one process
  };
  torch::manual_seed(7);
  const at::Tensor whole = draw(x);
  EXPECT_GT(whole.eq(0).sum().item<std::int64_t>(), 0);
  for (const std::int64_t first : {0, 2, 4}) {
    const BatchRows rows(first, 6);
    torch::manual_seed(7);
    EXPECT_TRUE(draw(x.narrow(0, first, 2)).equal(whole.narrow(1, first, 2))) << first;
  }
}

// The same rows as [1, B T, D], as packed documents are computed.
TEST(RowDropout, JoinedRowsHaveTheirOwnMasks) {
  RowDropout dropout(0.3);
  const at::Tensor x = at::randn({6, 5, 4});
  torch::manual_seed(7);
  const at::Tensor whole = at::stack({dropout(x), dropout(x)});
  for (const std::int64_t count : {2, 6}) {
    for (std::int64_t first = 0; first < 6; first += count) {
      const at::Tensor joined = x.narrow(0, first, count).reshape({1, count * 5, 4});
      const BatchRows rows({.first = first, .of = 6, .joined = count});
      torch::manual_seed(7);
      const at::Tensor once = dropout(joined);
      const at::Tensor got = at::stack({once, dropout(joined)});
      ASSERT_EQ(once.sizes(), joined.sizes());
      EXPECT_TRUE(got.reshape({2, count, 5, 4}).equal(whole.narrow(1, first, count))) << first;
    }
  }
}

TEST(RowDropout, AWholeBatchAndAnEvaluationAreLibtorchs) {
  RowDropout dropout(0.3);
  const at::Tensor x = at::randn({4, 3});
  torch::manual_seed(1);
  const at::Tensor expected = at::dropout(x, 0.3, true);
  {
    const BatchRows rows(0, 4);
    torch::manual_seed(1);
    EXPECT_TRUE(dropout(x).equal(expected));
  }
  EXPECT_EQ(BatchRows::current().of, 0);
  const BatchRows rows(0, 8);
  dropout->eval();
  EXPECT_TRUE(dropout(x).equal(x));
}

TEST(RowDropout, GradientsFollowTheMask) {
  RowDropout dropout(0.5);
  at::Tensor x = at::randn({2, 8}).requires_grad_();
  const BatchRows rows(2, 6);
  const at::Tensor y = dropout(x);
  y.sum().backward();
  EXPECT_TRUE(x.grad().eq(0).equal(y.eq(0)));
  EXPECT_TRUE(x.grad().masked_select(y.ne(0)).eq(2.0).all().item<bool>());
}

}  // namespace
}  // namespace posenc::model

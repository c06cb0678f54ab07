#include "posenc/core/tensor_view.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "posenc/core/error.h"
#include "support/message_of.h"

namespace posenc {
namespace {

using testing::message_of;

constexpr TensorShape kShape = {2, 3, 4, 5};
constexpr TensorShape kStrides = {60, 20, 5, 1};

static_assert(TensorView::dense(static_cast<float*>(nullptr), kShape).stride == kStrides);
static_assert(TensorView::dense(nullptr, DType::kFloat16, kShape).transposed().shape ==
              TensorShape{2, 4, 3, 5});

TEST(TensorView, DenseViewsOfFloats) {
  std::vector<float> x(120);
  const TensorView view = TensorView::dense(x, kShape);
  EXPECT_EQ(view.data, x.data());
  EXPECT_EQ(view.dtype, DType::kFloat32);
  EXPECT_EQ(view.shape, kShape);
  EXPECT_EQ(view.stride, kStrides);
  EXPECT_EQ(TensorView::dense(x.data(), kShape).stride, kStrides);

  const std::vector<float>& fixed = x;
  const ConstTensorView read = ConstTensorView::dense(fixed, kShape);
  EXPECT_EQ(read.data, x.data());
  EXPECT_EQ(read.stride, kStrides);
  EXPECT_EQ(ConstTensorView(ConstTensorView::dense(fixed.data(), kShape)).shape, kShape);
}

TEST(TensorView, DenseViewsOfSixteenBits) {
  std::vector<std::uint16_t> x(120);
  for (const DType dtype : {DType::kBfloat16, DType::kFloat16}) {
    const TensorView view = TensorView::dense(x, dtype, kShape);
    EXPECT_EQ(view.data, x.data());
    EXPECT_EQ(view.dtype, dtype);
    EXPECT_EQ(view.stride, kStrides);
    const std::vector<std::uint16_t>& fixed = x;
    EXPECT_EQ(ConstTensorView::dense(fixed, dtype, kShape).dtype, dtype);
    EXPECT_EQ(ConstTensorView::dense(static_cast<const void*>(x.data()), dtype, kShape).data,
              x.data());
  }
}

TEST(TensorView, DenseSaysWhichShapeDoesNotFit) {
  std::vector<float> x(119);
  std::vector<std::uint16_t> halves(120);
  EXPECT_EQ(message_of([&] { TensorView::dense(x, kShape); }),
            "[tensor_view] elements must be 120 for the shape [2, 3, 4, 5] but got 119");
  EXPECT_EQ(message_of([&] {
              ConstTensorView::dense(x, {1, 1, -119, -1});
            }),
            "[tensor_view] shape must not be negative but got [1, 1, -119, -1]");
  EXPECT_EQ(message_of([&] { TensorView::dense(halves, DType::kFloat32, kShape); }),
            "[tensor_view] dtype of 16-bit elements must be bfloat16 or float16 but got float32");
  EXPECT_EQ(message_of([&] {
              TensorView::dense(halves, DType::kFloat16, {1, 1, 1, 1});
            }),
            "[tensor_view] elements must be 1 for the shape [1, 1, 1, 1] but got 120");
  // A product of 2^64 is 0 in 64 bits.
  std::vector<float> none;
  const std::int64_t huge = std::int64_t{1} << 32;
  EXPECT_EQ(
      message_of([&] {
        TensorView::dense(none, {huge, huge, 1, 1});
      }),
      "[tensor_view] elements must be more than 2^64 for the shape [4294967296, 4294967296, 1, 1] "
      "but got 0");
}

TEST(TensorView, TransposedExchangesHeadsAndTokens) {
  std::vector<float> x(120);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const TensorView view =
      TensorView::dense(x, {2, 4, 3, 5}).transposed();  // [B, T, H, D] in memory
  EXPECT_EQ(view.shape, kShape);
  const auto* row = reinterpret_cast<const float*>(static_cast<const std::byte*>(view.data) +
                                                   view.row_offset(1, 2, 3));
  EXPECT_EQ(*row, 60 + 3 * 15 + 2 * 5);
  EXPECT_EQ(view.transposed().stride, TensorView::dense(x, {2, 4, 3, 5}).stride);
}

TEST(TensorView, TokenRangesShareTheMemory) {
  std::vector<std::uint16_t> x(120);
  const TensorView cache = TensorView::dense(x, DType::kBfloat16, kShape);
  const TensorView part = cache.token_range(1, 2);
  EXPECT_EQ(part.data, x.data() + 5);
  EXPECT_EQ(part.shape, (TensorShape{2, 3, 2, 5}));
  EXPECT_EQ(part.stride, kStrides);
  EXPECT_EQ(cache.token_range(4, 0).tokens(), 0);
  EXPECT_EQ(ConstTensorView(cache).token_range(3, 1).data, x.data() + 15);
  EXPECT_EQ(TensorView{}.token_range(0, 0).data, nullptr);
}

TEST(TensorView, TokenRangesStayInside) {
  std::vector<float> x(120);
  const TensorView cache = TensorView::dense(x, kShape);
  EXPECT_EQ(message_of([&] { (void)cache.token_range(3, 2); }),
            "[tensor_view] token_range must be within the 4 tokens but got 2 from token 3");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{-1, 1}, {0, -1}, {5, 0}, {1, most}, {most, most}}) {
    EXPECT_THROW((void)cache.token_range(first, count), Error) << first << " " << count;
  }
}

}  // namespace
}  // namespace posenc

// Keys, values and inputs of another type than the queries, as a cache of 16-bit numbers has: forward calls read them,
// and everything that writes gradients refuses them.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/attention_data.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::Tensor;

constexpr std::array<const char*, 4> kSpecs = {"none", "rope + alibi + cope(npos_max=8)",
                                               "cope(npos_max=8, gate_source=separate)",
                                               "wall + sink"};

Tensor widened(const Tensor& x, TensorShape shape) {
  Tensor wide(shape, DType::kFloat32);
  wide.assign(x.values());
  return wide;
}

// Numbers are widened where they are read, so a cache of the same values in float32 gives the same bits.
void expect_bits_of_a_wide_cache(const Case& c) {
  SCOPED_TRACE(cases::name_of(c));
  AttentionProblem narrow(c);
  narrow.forward();
  AttentionProblem wide(c);
  const TensorShape keys = wide.data.k.view().shape;
  wide.data.k = widened(narrow.data.k, keys);
  wide.data.v = widened(narrow.data.v, keys);
  for (std::size_t i = 0; i < wide.data.inputs.size(); ++i) {
    Tensor& input = wide.data.inputs[i];
    input = widened(narrow.data.inputs[i], input.view().shape);
  }
  wide.forward();
  EXPECT_EQ(narrow.data.out.values(), wide.data.out.values());
  EXPECT_EQ(narrow.data.row_sums, wide.data.row_sums);
}

TEST(CacheTypes, GiveTheBitsOfAFloat32CacheOfTheSameValues) {
  for (const char* spec : kSpecs) {
    for (const DType cache : {DType::kBfloat16, DType::kFloat16}) {
      for (const std::int64_t queries : {1, 5, 40}) {
        expect_bits_of_a_wide_cache(
            {.spec = spec, .heads = 4, .queries = queries, .keys = 90, .cache_dtype = cache});
      }
    }
  }
}

TEST(CacheTypes, MayDifferBetweenKeysAndValues) {
  AttentionProblem one({.heads = 4, .queries = 2, .keys = 90, .cache_dtype = DType::kFloat16});
  one.forward();
  AttentionProblem both({.heads = 4, .queries = 2, .keys = 90, .cache_dtype = DType::kFloat16});
  both.data.v = widened(one.data.v, both.data.v.view().shape);
  both.forward();
  EXPECT_EQ(both.data.out.values(), one.data.out.values());
}

void expect_refused(const Status& status, const char* words) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find(words), std::string::npos) << status.message();
}

TEST(CacheTypes, AreThoseOfTheQueriesWhereGradientsAreWritten) {
  constexpr const char* kWords = "k must be float32 as q is but got float16";
  AttentionProblem f({.queries = 2, .keys = 30, .cache_dtype = DType::kFloat16});
  f.forward();
  expect_refused(attention_backward(f.backward_call()), kWords);
  SliceRows rows(f.call());
  expect_refused(attention_slice(f.call(), {}, rows), kWords);
  AttentionProblem sums({.spec = "fox", .queries = 2, .keys = 30});
  AttentionCall call = sums.call();
  const Tensor half({1, 2, 30, 1}, DType::kFloat16);
  const std::vector<ConstTensorView> inputs = {Tensor(half).view()};
  call.inputs = inputs;
  expect_refused(attention(call), "fox.log_f must be float32 but got float16");
}

}  // namespace
}  // namespace posenc

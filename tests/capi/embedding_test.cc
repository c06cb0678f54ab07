#include "posenc/kernels/embedding.h"

#include "capi/c_handles.h"

namespace posenc {
namespace {

using cases::Tensor;
using testing::c_positions;
using testing::c_tensor;
using testing::fails;
using testing::make_parameters;
using testing::make_spec;
using testing::ok;
using testing::ParametersHandle;
using testing::sized;
using testing::SpecHandle;

constexpr const char* kSpec = "learned(max_positions=32) + sinusoidal";
const ModelShape kShape{.head_dim = 8, .heads = 1, .model_dim = 12};

class CEmbeddings : public ::testing::Test {
 protected:
  CEmbeddings()
      : spec_(parse_spec(kSpec)),
        handle_(make_spec(kSpec)),
        parameters_(make_parameters(handle_.get(), kShape, 3)),
        values_(testing::values_of(parameters_.get(), spec_, kShape)),
        x_({2, 1, 6, 12}, DType::kFloat32) {
    Rng rng(4);
    x_.fill_random(rng);
  }
  Spec spec_;
  SpecHandle handle_;
  ParametersHandle parameters_;
  std::vector<Parameters> values_;
  Tensor x_;
  std::vector<std::int64_t> offsets_ = {3, 20};
};

TEST_F(CEmbeddings, AreTheBitsOfCpp) {
  Tensor expected = x_;
  EmbeddingCall cpp{&spec_, &values_, x_.view(), expected.view(), {}};
  cpp.positions.offsets = offsets_;
  ASSERT_TRUE(add_embeddings(cpp).ok());
  Tensor y = x_;
  auto call = sized<posenc_embeddings_call>();
  call.parameters = parameters_.get();
  call.x = c_tensor(x_);
  call.y = c_tensor(y);
  call.positions = c_positions(POSENC_POSITIONS_OFFSETS, offsets_);
  ASSERT_TRUE(ok(posenc_add_embeddings(&call)));
  EXPECT_EQ(y.bytes(), expected.bytes());
  Tensor in_place = x_;
  call.x = c_tensor(in_place);
  call.y = {};
  ASSERT_TRUE(ok(posenc_add_embeddings(&call)));
  EXPECT_EQ(in_place.bytes(), expected.bytes());
}

TEST_F(CEmbeddings, TableGradientsAreTheBitsOfCpp) {
  std::vector<Parameters> expected;
  EmbeddingGradientCall cpp{&spec_, &values_, x_.view(), {}, &expected};
  cpp.positions.offsets = offsets_;
  ASSERT_TRUE(add_embeddings_gradient(cpp).ok());
  const ParametersHandle gradients = make_parameters(handle_.get(), kShape, 5);
  auto call = sized<posenc_embeddings_gradient_call>();
  call.parameters = parameters_.get();
  call.dy = c_tensor(x_);
  call.dparameters = gradients.get();
  call.positions = c_positions(POSENC_POSITIONS_OFFSETS, offsets_);
  ASSERT_TRUE(ok(posenc_add_embeddings_gradient(&call)));
  EXPECT_EQ(testing::values_of(gradients.get(), spec_, kShape), expected);
  call.dparameters = parameters_.get();
  EXPECT_TRUE(fails(posenc_add_embeddings_gradient(&call), POSENC_INVALID_ARGUMENT,
                    "dparameters must be separate from the parameters"));
}

TEST_F(CEmbeddings, MistakesAreNamedAndWriteNothing) {
  const auto before = x_.bytes();
  auto call = sized<posenc_embeddings_call>();
  call.parameters = parameters_.get();
  call.x = c_tensor(x_);
  offsets_[1] = 27;
  call.positions = c_positions(POSENC_POSITIONS_OFFSETS, offsets_);
  EXPECT_TRUE(fails(posenc_add_embeddings(&call), POSENC_OUT_OF_RANGE,
                    "position must be in [0, 31] but got 32"));
  call.x.shape[3] = 11;
  EXPECT_TRUE(fails(posenc_add_embeddings(&call), POSENC_INVALID_ARGUMENT,
                    "x must have the model_dim of the parameters (12) channels but got 11"));
  EXPECT_EQ(x_.bytes(), before);
}

}  // namespace
}  // namespace posenc

#include <cmath>

#include "capi/c_handles.h"

namespace posenc {
namespace {

using testing::fails;
using testing::make_parameters;
using testing::make_spec;
using testing::ok;
using testing::ParametersHandle;
using testing::SpecHandle;

constexpr const char* kMany =
    "rope(schedule=learnable) + alibi(trainable=true) + alibi + t5 + kerple + fire + cope";

TEST(CParameters, AreThoseOfCpp) {
  const ModelShape shape{.head_dim = 8, .heads = 4};
  const Spec spec = parse_spec(kMany);
  const SpecHandle handle = make_spec(kMany);
  const ParametersHandle values = make_parameters(handle.get(), shape, 7);
  const auto infos = parameters(spec, shape);
  ASSERT_EQ(posenc_parameters_count(values.get()), static_cast<int64_t>(infos.size()));
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const ParameterInfo& info = infos[i].info;
    const char* name = posenc_parameters_name(values.get(), static_cast<int64_t>(i));
    ASSERT_STREQ(name, info.name.c_str());
    EXPECT_EQ(posenc_parameters_find(values.get(), name), static_cast<int64_t>(i));
    std::array<int64_t, 4> dims{};
    const int64_t rank = posenc_parameters_dims(values.get(), name, dims.data(), dims.size());
    EXPECT_EQ(std::vector<int64_t>(dims.begin(), dims.begin() + rank), info.shape);
    EXPECT_EQ(posenc_parameters_dims(values.get(), name, nullptr, 0), rank);
    EXPECT_EQ(posenc_parameters_size(values.get(), name), info.count());
    EXPECT_EQ(posenc_parameters_trainable(values.get(), name), info.trainable ? 1 : 0);
  }
  EXPECT_EQ(testing::values_of(values.get(), spec, shape), initial_parameters(spec, shape, 7));
}

TEST(CParameters, AreSetAndCopied) {
  const SpecHandle spec = make_spec("alibi");
  const ParametersHandle values = make_parameters(spec.get(), {.head_dim = 8, .heads = 2}, 1);
  const std::array<double, 2> doubles = {0.1, 0.2};
  ASSERT_TRUE(ok(posenc_parameters_set_f64(values.get(), "alibi.slopes", doubles.data(), 2)));
  posenc_parameters* raw = nullptr;
  ASSERT_TRUE(ok(posenc_parameters_copy(values.get(), &raw)));
  const ParametersHandle copy(raw);
  const std::array<float, 2> floats = {0.3f, 0.4f};
  ASSERT_TRUE(ok(posenc_parameters_set_f32(values.get(), "alibi.slopes", floats.data(), 2)));
  std::array<double, 2> read{};
  ASSERT_TRUE(ok(posenc_parameters_get_f64(values.get(), "alibi.slopes", read.data(), 2)));
  EXPECT_EQ(read, (std::array<double, 2>{0.3f, 0.4f}));
  ASSERT_TRUE(ok(posenc_parameters_get_f64(copy.get(), "alibi.slopes", read.data(), 2)));
  EXPECT_EQ(read, doubles);
  std::array<float, 2> rounded{};
  ASSERT_TRUE(ok(posenc_parameters_get_f32(copy.get(), "alibi.slopes", rounded.data(), 2)));
  EXPECT_EQ(rounded, (std::array<float, 2>{0.1f, 0.2f}));
}

TEST(CParameters, MistakesAreNamedAndChangeNothing) {
  const SpecHandle spec = make_spec("alibi");
  const ParametersHandle values = make_parameters(spec.get(), {.head_dim = 8, .heads = 2}, 1);
  const std::array<double, 2> bad = {0.5, NAN};
  EXPECT_TRUE(fails(posenc_parameters_set_f64(values.get(), "alibi.slopes", bad.data(), 2),
                    POSENC_OUT_OF_RANGE, "values must be finite but got nan at 1"));
  EXPECT_TRUE(fails(posenc_parameters_set_f64(values.get(), "alibi.slopes", bad.data(), 1),
                    POSENC_INVALID_ARGUMENT, "values must have 2 entries but got 1"));
  EXPECT_TRUE(fails(posenc_parameters_set_f64(values.get(), "slopes", bad.data(), 2),
                    POSENC_OUT_OF_RANGE, "name must be that of a parameter but got slopes"));
  EXPECT_TRUE(fails(posenc_parameters_find(values.get(), "x"), POSENC_OUT_OF_RANGE, "but got x"));
  EXPECT_EQ(posenc_parameters_name(values.get(), 1), nullptr);
  EXPECT_NE(std::string(posenc_last_error()).find("index"), std::string::npos);
  EXPECT_EQ(posenc_parameters_name(values.get(), -1), nullptr);
  std::array<double, 2> read{};
  ASSERT_TRUE(ok(posenc_parameters_get_f64(values.get(), "alibi.slopes", read.data(), 2)));
  EXPECT_EQ(read, (std::array<double, 2>{0.0625, 0.00390625}));
}

TEST(CParameters, SizesThatNoMemoryHoldsAreRefused) {
  const SpecHandle learned = make_spec("learned(max_positions=16777216)");
  posenc_parameters* values = nullptr;
  posenc_shape shape{int64_t{1} << 24, int64_t{1} << 24, 0};
  EXPECT_TRUE(fails(posenc_parameters_create(learned.get(), &shape, 1, &values),
                    POSENC_RESOURCE_EXHAUSTED, "learned.weight has more than 2^40 entries"));
  shape.heads += 1;
  EXPECT_TRUE(fails(posenc_parameters_create(learned.get(), &shape, 1, &values),
                    POSENC_OUT_OF_RANGE, "shape.heads must be in [1, 2^24]"));
  shape = {8, 0, 0};
  EXPECT_TRUE(fails(posenc_parameters_create(learned.get(), &shape, 1, &values),
                    POSENC_OUT_OF_RANGE, "shape.heads"));
  shape = {7, 2, 0};
  const SpecHandle rope = make_spec("rope");
  EXPECT_LT(posenc_parameters_create(rope.get(), &shape, 1, &values), 0);
  EXPECT_NE(std::string(posenc_last_error()).find("[rope]"), std::string::npos);
  EXPECT_EQ(values, nullptr);
}

}  // namespace
}  // namespace posenc

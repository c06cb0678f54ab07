// Keys of a cache, written once in chunks and read by every later query.
#include <gtest/gtest.h>

#include <vector>

#include "posenc/core/error.h"
#include "posenc/kernels/attention.h"
#include "support/catalog_specs.h"
#include "support/message_of.h"

namespace posenc {
namespace {

constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kTokens = 70;
constexpr std::int64_t kDim = 16;
constexpr TensorShape kQueries = {1, kHeads, kTokens, kDim};
constexpr TensorShape kKeys = {1, kKvHeads, kTokens, kDim};

std::vector<float> random_values(const TensorShape& shape, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
  for (float& value : x) value = static_cast<float>(rng.normal());
  return x;
}

// Queries, keys and values of one layer, and its output.
struct Layer {
  explicit Layer(const std::string& text)
      : spec(parse_spec(text)),
        plan(spec, {.head_dim = kDim, .heads = kHeads}, kKvHeads, {.sequence = kTokens}),
        parameters(initial_parameters(spec, {.head_dim = kDim, .heads = kHeads}, 5)) {}

  AttentionCall call() {
    return {.plan = &plan,
            .parameters = &parameters,
            .q = ConstTensorView::dense(q, kQueries),
            .k = ConstTensorView::dense(k, kKeys),
            .v = ConstTensorView::dense(v, kKeys),
            .out = TensorView::dense(out, kQueries),
            .mask = {.causal = true}};
  }

  Spec spec;
  AttentionPlan plan;
  std::vector<Parameters> parameters;
  std::vector<float> q = random_values(kQueries, 1);
  std::vector<float> k = random_values(kKeys, 2);
  std::vector<float> v = random_values(kKeys, 3);
  std::vector<float> out = std::vector<float>(q.size());
};

// Writes the keys in chunks of 1, 2, 4, .. tokens.
std::vector<float> cached_keys(const Layer& layer) {
  std::vector<float> cache(layer.k.size());
  const TensorView slots = TensorView::dense(cache, kKeys);
  const ConstTensorView keys = ConstTensorView::dense(layer.k, kKeys);
  for (std::int64_t first = 0, count = 1; first < kTokens; first += count, count *= 2) {
    const std::int64_t chunk = std::min(count, kTokens - first);
    const std::vector<std::int64_t> offsets = {first};
    rotate_keys(layer.plan, keys.token_range(first, chunk), slots.token_range(first, chunk),
                {.offsets = offsets})
        .throw_if_error();
  }
  return cache;
}

TEST(RotateKeys, ACacheOfRotatedKeysGivesTheSameOutput) {
  for (const char* text : {"none", "alibi", "rope + cope(npos_max=8)", "xpos(center=30) + alibi",
                           "rope(rotary_dim=8, layout=interleaved) + xpos(center=0)"}) {
    Layer layer(text);
    ASSERT_TRUE(attention(layer.call()).ok()) << text;
    const std::vector<float> plain = layer.out;
    const std::vector<float> cache = cached_keys(layer);
    AttentionCall call = layer.call();
    call.k = ConstTensorView::dense(cache, kKeys);
    call.keys_are_turned = true;
    const Status status = attention(call);
    ASSERT_TRUE(status.ok()) << text << ": " << status.message();
    for (std::size_t i = 0; i < plain.size(); ++i)
      ASSERT_NEAR(layer.out[i], plain[i], 1e-5) << text;
  }
}

TEST(RotateKeys, WorksInPlace) {
  Layer layer("rope + xpos(center=0)");
  const std::vector<float> cache = cached_keys(layer);
  const TensorView keys = TensorView::dense(layer.k, kKeys);
  ASSERT_TRUE(rotate_keys(layer.plan, keys, keys).ok());
  EXPECT_EQ(layer.k, cache);
}

// Of every rotation of the catalogue: rotated keys fit later queries, or a Status says that they do not.
TEST(RotateKeys, EitherFitsLaterQueriesOrIsRefused) {
  for (const std::string& text : testing::catalog_specs(Site::kQueryKey, kDim)) {
    const Spec spec = parse_spec(text);
    if (!is_rotary(spec.encodings[0]) ||
        !token_inputs(spec, {.head_dim = kDim, .heads = kHeads}).empty())
      continue;
    Layer layer(text);
    std::vector<float> cache(layer.k.size());
    const Status status = rotate_keys(layer.plan, ConstTensorView::dense(layer.k, kKeys),
                                      TensorView::dense(cache, kKeys));
    EXPECT_EQ(status.ok(), cacheable_rotation(spec).has_value())
        << text << ": " << status.message();
  }
}

TEST(RotateKeys, SaysWhyKeysMustStayUnrotated) {
  for (const char* text : {"xpos", "rope(schedule=learnable)", "rope(angles=input)"}) {
    Layer layer(text);
    const Status status = rotate_keys(layer.plan, ConstTensorView::dense(layer.k, kKeys),
                                      TensorView::dense(layer.out.data(), kKeys));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << text;
    EXPECT_NE(std::string(status.message()).find("cache unrotated keys"), std::string::npos)
        << text;
  }
}

TEST(RotateKeys, NamesTheArgumentThatDoesNotFit) {
  Layer layer("rope");
  const ConstTensorView keys = ConstTensorView::dense(layer.k, kKeys);
  std::vector<float> cache(layer.k.size());
  const TensorView slots = TensorView::dense(cache, kKeys);
  const std::vector<std::int64_t> two = {0, 0};
  EXPECT_STREQ(rotate_keys(layer.plan, ConstTensorView::dense(layer.q, kQueries), slots).message(),
               "[rotate_keys] k must have 2 heads of 16 channels but got 4 of 16");
  EXPECT_STREQ(rotate_keys(layer.plan, {}, slots).message(),
               "[rotate_keys] k must have 2 heads of 16 channels but got 0 of 0");
  EXPECT_STREQ(rotate_keys(layer.plan, keys, slots.token_range(0, 3)).message(),
               "[rotate_keys] k_out must have the shape of k [1, 2, 70, 16] but got [1, 2, 3, 16]");
  EXPECT_STREQ(rotate_keys(layer.plan, keys, slots, {.offsets = two}).message(),
               "[rope] offsets must have one entry per sequence (1) but got 2");
  for (const float x : cache) ASSERT_EQ(x, 0.0f) << "nothing is written";
}

}  // namespace
}  // namespace posenc

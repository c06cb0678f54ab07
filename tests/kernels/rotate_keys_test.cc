// Keys of a cache, written once in chunks and read by every later query.
#include <gtest/gtest.h>

#include <vector>

#include "posenc/core/error.h"
#include "posenc/kernels/attention.h"
#include "support/allocations.h"
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
  for (const char* text : {"xpos", "rope(schedule=learnable)", "rope(angles=input, values=true)"}) {
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

// A layer whose angles are an input, with hidden tokens, and its cache of rotated keys.
struct LayerOfInputs : Layer {
  explicit LayerOfInputs(const std::string& text) : Layer(text) {
    for (const SpecInput& input : token_inputs(spec, {.head_dim = kDim, .heads = kHeads})) {
      shapes.push_back({1, input.info.head_count(kHeads, kKvHeads), kTokens, input.info.channels});
      values.push_back(random_values(shapes.back(), 10 + values.size()));
      if (!is_gate(input.info)) continue;
      for (float& x : values.back()) x = -std::abs(x);
    }
    for (std::size_t t = 0; t < mask.size(); ++t) mask[t] = t < 3 || t == 30 ? 0 : 1;
  }
  // Of the first `tokens` tokens.
  std::vector<ConstTensorView> inputs(std::int64_t tokens) const {
    std::vector<ConstTensorView> views;
    for (std::size_t i = 0; i < values.size(); ++i) {
      views.emplace_back(ConstTensorView::dense(values[i], shapes[i]).token_range(0, tokens));
    }
    return views;
  }
  void write_cache() {
    const TensorView slots = TensorView::dense(cache, kKeys);
    const ConstTensorView keys = ConstTensorView::dense(k, kKeys);
    for (std::int64_t first = 0, count = 1; first < kTokens; first += count, count *= 2) {
      const std::int64_t chunk = std::min(count, kTokens - first);
      const std::vector<std::int64_t> offsets = {first};
      const std::vector<ConstTensorView> views = inputs(first + chunk);
      rotate_keys(plan, keys.token_range(first, chunk), slots.token_range(first, chunk),
                  {.offsets = offsets}, {.inputs = views, .key_mask = mask.data()})
          .throw_if_error();
    }
  }
  // The output of the last queries, over the keys as they are or over those of the cache.
  std::vector<float> attend(std::int64_t queries, bool turned) {
    const std::vector<ConstTensorView> views = inputs(kTokens);
    std::vector<float> result(static_cast<std::size_t>(kHeads * queries * kDim));
    AttentionCall given = call();
    given.q = given.q.token_range(kTokens - queries, queries);
    given.k = ConstTensorView::dense(turned ? cache : k, kKeys);
    given.inputs = views;
    given.out = TensorView::dense(result, {1, kHeads, queries, kDim});
    given.mask.key_mask = mask.data();
    given.keys_are_turned = turned;
    attention(given).throw_if_error();
    return result;
  }

  std::vector<TensorShape> shapes;
  std::vector<std::vector<float>> values;
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(kTokens);
  std::vector<float> cache = std::vector<float>(k.size());
};

// The last rows of a full pass are what a decode step of a few queries gives.
TEST(RotateKeys, ACacheOfKeysRotatedByAnInputGivesTheSameOutput) {
  for (const char* text :
       {"rope(angles=input)", "rope(angles=input, running=true, rotary_dim=8, dim_offset=4)",
        "rope(angles=input, inverse=true, layout=interleaved) + cope(npos_max=8)",
        "rope(angles=input_position, running=true, theta=[10, 100]) + alibi + fox",
        "rope(rotary_dim=4) + rope(angles=input, running=true, layout=interleaved)"}) {
    SCOPED_TRACE(text);
    LayerOfInputs layer(text);
    layer.write_cache();
    const std::vector<float> full = layer.attend(kTokens, false);
    const auto expect_rows = [&](const std::vector<float>& got, std::int64_t queries) {
      for (std::int64_t n = 0; n < std::ssize(got); ++n) {
        const std::int64_t head = n / (queries * kDim);
        const std::int64_t at = ((head + 1) * kTokens - queries) * kDim + n % (queries * kDim);
        ASSERT_NEAR(got[static_cast<std::size_t>(n)], full[static_cast<std::size_t>(at)], 3e-6)
            << n << " of " << queries << " queries";
      }
    };
    for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{5}, kTokens}) {
      expect_rows(layer.attend(queries, false), queries);
      expect_rows(layer.attend(queries, true), queries);
    }
  }
}

// Of a packed batch every sequence has its own running sums, and its queries the last places.
TEST(RotateKeys, APackedCallReadsTheAnglesOfItsOwnPlaces) {
  LayerOfInputs layer("rope(angles=input, running=true)");
  const std::vector<std::int64_t> keys = {0, 30, kTokens};
  const std::vector<std::int64_t> queries = {0, 4, 9};
  const ConstTensorView k = ConstTensorView::dense(layer.k, kKeys);
  const TensorView slots = TensorView::dense(layer.cache, kKeys);
  const ConstTensorView angles = layer.inputs(kTokens)[0];
  for (std::size_t s = 0; s < 2; ++s) {
    const std::int64_t count = keys[s + 1] - keys[s];
    const std::vector<ConstTensorView> own = {angles.token_range(keys[s], count)};
    rotate_keys(layer.plan, k.token_range(keys[s], count), slots.token_range(keys[s], count), {},
                {.inputs = own})
        .throw_if_error();
  }
  const auto attend = [&](bool turned) {
    const std::vector<ConstTensorView> views = layer.inputs(kTokens);
    std::vector<float> result(static_cast<std::size_t>(kHeads * 9 * kDim));
    AttentionCall call = layer.call();
    call.q = call.q.token_range(0, 9);
    if (turned) call.k = slots;
    call.inputs = views;
    call.out = TensorView::dense(result, {1, kHeads, 9, kDim});
    call.mask.cu_queries = queries;
    call.mask.cu_keys = keys;
    call.keys_are_turned = turned;
    attention(call).throw_if_error();
    return result;
  };
  const std::vector<float> plain = attend(false);
  const std::vector<float> turned = attend(true);
  for (std::size_t n = 0; n < plain.size(); ++n) ASSERT_NEAR(turned[n], plain[n], 3e-6) << n;
}

// Of rotated keys no sines are kept: 8 floats for each of 20,000 keys in two heads would be 2.5 MB.
TEST(RotateKeys, ADecodeStepKeepsAnglesOfItsQueriesAlone) {
  constexpr std::int64_t kLong = 20000;
  for (const char* text : {"rope(angles=input)", "rope(angles=input, running=true)"}) {
    const AttentionPlan plan(parse_spec(text), {.head_dim = kDim, .heads = kHeads}, kKvHeads);
    const std::vector<Parameters> parameters(1);
    const std::vector<float> q(kHeads * kDim, 0.5f);
    const std::vector<float> k(kKvHeads * kLong * kDim, 0.5f);
    const std::vector<float> angles(kKvHeads * kLong * kDim / 2, 0.1f);
    std::vector<float> out(q.size());
    const std::vector<ConstTensorView> inputs = {
        ConstTensorView::dense(angles, {1, kKvHeads, kLong, kDim / 2})};
    const auto bytes_of = [&](bool turned) {
      return testing::bytes_allocated_by([&] {
        attention({.plan = &plan,
                   .parameters = &parameters,
                   .q = ConstTensorView::dense(q, {1, kHeads, 1, kDim}),
                   .k = ConstTensorView::dense(k, {1, kKvHeads, kLong, kDim}),
                   .v = ConstTensorView::dense(k, {1, kKvHeads, kLong, kDim}),
                   .inputs = inputs,
                   .out = TensorView::dense(out, {1, kHeads, 1, kDim}),
                   .keys_are_turned = turned})
            .throw_if_error();
      });
    };
    (void)bytes_of(false);  // what a first call leaves behind
    const std::size_t sines = kKvHeads * kLong * (kDim / 2) * 2 * sizeof(float);
    EXPECT_GE(bytes_of(false), bytes_of(true) + sines - 1000) << text;
  }
}

TEST(RotateKeys, NamesTheInputThatDoesNotFit) {
  LayerOfInputs layer("fox + rope(angles=input)");
  const ConstTensorView keys = ConstTensorView::dense(layer.k, kKeys).token_range(0, 5);
  const TensorView slots = TensorView::dense(layer.cache, kKeys).token_range(0, 5);
  const auto refusal = [&](const std::vector<ConstTensorView>& inputs) -> std::string {
    return rotate_keys(layer.plan, keys, slots, {}, {.inputs = inputs}).message();
  };
  EXPECT_EQ(refusal({}), "[rotate_keys] inputs must be fox.log_f, rope.angles but got 0 tensors");
  std::vector<ConstTensorView> inputs = layer.inputs(5);
  EXPECT_EQ(refusal(inputs), "");
  inputs[0] = {};  // not read
  EXPECT_EQ(refusal(inputs), "");
  inputs[1] = layer.inputs(4)[1];
  EXPECT_EQ(refusal(inputs),
            "[rotate_keys] rope.angles must be [1, 2, 5 or more, 8] but got [1, 2, 4, 8]");
  std::fill(layer.cache.begin(), layer.cache.end(), 7.0f);
  inputs[1] = {};
  EXPECT_NE(refusal(inputs).find("rope.angles"), std::string::npos) << refusal(inputs);
  for (const float x : layer.cache) ASSERT_EQ(x, 7.0f) << "nothing is written";
}

}  // namespace
}  // namespace posenc

// Paged caches: the bits of a contiguous cache with the same tokens, and errors for every table that does not fit.
// What the table does not name is NaN in all pools (cases/paged_cache.h), so a read of it shows.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cases/attention_data.h"
#include "cases/table.h"
#include "kernels/path_trace.h"
#include "posenc/kernels/attention_slices.h"
#include "posenc/kernels/capability.h"

namespace posenc {
namespace {

using cases::AttentionProblem;
using cases::Case;
using cases::PagedCache;

constexpr std::int64_t kKeys = 600;  // more than a chunk of the kernel

// All of a spec that decoding serves, and what it hands to blocks of queries and to the reference.
std::vector<std::string> specs() {
  return cases::with_every_encoding(
      {"none", "rope + alibi", "cope(npos_max=8)", "cope(npos_max=8, gate_source=separate) + sink",
       "cope(npos_max=8, gate_source=value)", "relative_query(extent=20, source=input, rank=5)",
       "rope(angles=input_position, running=true)", "path + fox",
       "wall + cope(npos_max=8, gate_source=value)", "rope(values=true)", "grape_ap(rank=3)",
       "fox(bidirectional=true)", "relative_query(vectors=true)", "relative_query(side=key)",
       "cope + cope"});
}

ConstTensorView entry(ConstTensorView x, std::int64_t b, std::int64_t tokens) {
  if (!x.present()) return x;
  x.data = static_cast<const std::byte*>(x.data) + x.row_offset(b, 0, 0);
  x.shape[0] = 1;
  x.shape[2] = tokens;
  return x;
}

std::vector<float> floats(const std::vector<double>& from, std::size_t part, std::size_t parts) {
  const std::size_t size = from.size() / parts;
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(part * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

struct Rows {
  std::vector<std::vector<float>> out;  // of each batch entry
  std::vector<std::vector<float>> lse;
  bool operator==(const Rows&) const = default;
};

Rows rows_of(const AttentionProblem& f) {
  Rows rows;
  const auto batch = static_cast<std::size_t>(f.data.c.batch);
  const std::vector<double> lse(f.data.row_sums.begin(), f.data.row_sums.end());
  for (std::size_t b = 0; b < batch; ++b) {
    rows.out.push_back(floats(f.data.out.values(), b, batch));
    rows.lse.push_back(floats(lse, b, batch));
  }
  return rows;
}

// Each batch entry by a call of its own, with a contiguous cache of its length.
Rows contiguous(
    const Case& c, const std::vector<std::int64_t>& lengths,
    const std::function<void(AttentionProblem&)>& change = [](AttentionProblem&) {}) {
  AttentionProblem f(c);
  change(f);
  const AttentionCall whole = f.call();
  for (std::int64_t b = 0; b < c.batch; ++b) {
    AttentionCall one = whole;
    const std::int64_t tokens = lengths[b];
    one.q = entry(whole.q, b, c.queries);
    one.out.data = static_cast<std::byte*>(whole.out.data) + whole.out.row_offset(b, 0, 0);
    one.out.shape[0] = 1;
    one.lse = whole.lse.subspan(b * c.heads * c.queries, c.heads * c.queries);
    one.k = entry(whole.k, b, tokens);
    one.v = entry(whole.v, b, tokens);
    one.k_scales = entry(whole.k_scales, b, tokens);
    one.v_scales = entry(whole.v_scales, b, tokens);
    std::vector<ConstTensorView> inputs;
    for (const ConstTensorView& input : whole.inputs) inputs.push_back(entry(input, b, tokens));
    one.inputs = inputs;
    if (one.mask.key_mask != nullptr) one.mask.key_mask += b * c.keys;
    if (whole.q_positions.given()) {
      one.q_positions.offsets = whole.q_positions.offsets.subspan(b, 1);
      one.k_positions.offsets = whole.k_positions.offsets.subspan(b, 1);
    }
    attention(one).throw_if_error();
  }
  return rows_of(f);
}

// Into the keys and values that a mask hides.
void put_nan(AttentionProblem& f) {
  const auto keys = static_cast<std::size_t>(f.data.c.keys);
  for (cases::Tensor* x : {&f.data.k, &f.data.v}) {
    std::vector<double> values = x->values();
    for (std::size_t n = 0; n < values.size(); ++n) {
      const std::size_t row = n / 16;
      const std::size_t batch = row / keys / 2;
      if (f.data.key_mask[batch * keys + row % keys] == 0) values[n] = NAN;
    }
    x->assign(values);
  }
}

Rows paged(
    const Case& c, std::int64_t page, const std::vector<std::int64_t>& lengths,
    const std::function<void(AttentionProblem&)>& change = [](AttentionProblem&) {}) {
  AttentionProblem f(c);
  change(f);
  PagedCache cache(f.data, page, lengths);
  AttentionCall call = f.call();
  cache.put_into(call);
  attention(call).throw_if_error();
  EXPECT_EQ(path_trace().forward, capability(call).forward.path);
  return rows_of(f);
}

void expect_bits(Case c, std::int64_t page, std::int64_t keys = kKeys) {
  c.batch = 3;
  c.keys = keys;
  const std::vector<std::int64_t> lengths = {keys, 1, keys - 15};
  SCOPED_TRACE(cases::name_of(c) + " page " + std::to_string(page));
  EXPECT_TRUE(paged(c, page, lengths) == contiguous(c, lengths));
}

TEST(PagedCache, GivesTheBitsOfAContiguousCacheForEverySpec) {
  for (const std::string& spec : specs()) {
    expect_bits({.spec = spec, .heads = 4, .queries = 1}, 16);
    expect_bits({.spec = spec, .queries = 3, .window_left = 40, .padding = true}, 7, 90);
  }
}

TEST(PagedCache, GivesThemForEveryPageTypeAndOrder) {
  const Case base{.spec = "rope + alibi + sink", .heads = 8, .queries = 2};
  for (const std::int64_t page : {1, 5, 64, 512, 513, 5000}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kInt8}) {
      for (const auto order : {cases::Order::kDense, cases::Order::kTokensFirst}) {
        Case c = base;
        c.cache_dtype = dtype;
        c.order = order;
        expect_bits(c, page);
      }
    }
  }
  for (const char* spec : {"cope(npos_max=8, gate_source=value) + fox", "wall", "stick_breaking"}) {
    expect_bits({.spec = spec, .heads = 4, .queries = 1, .cache_dtype = DType::kInt8}, 9);
  }
  for (const char* spec : {"rope", "cope + cope", "temperature"}) {
    Case c{.spec = spec, .queries = 2, .positions = cases::PositionForm::kOffsets, .offset = 50};
    expect_bits(c, 16);
  }
  expect_bits({.spec = "rope + alibi", .queries = 40}, 16,
              90);  // as a long prompt after a cached one
}

TEST(PagedCache, HidesNaNWhereAContiguousCacheDoes) {
  for (const char* spec : {"none", "rope + alibi", "cope(npos_max=8, gate_source=value)", "wall"}) {
    const Case c{.spec = spec, .batch = 2, .queries = 3, .keys = 90, .padding = true};
    const Rows got = paged(c, 16, {90, 70}, put_nan);
    EXPECT_TRUE(got == contiguous(c, {90, 70}, put_nan)) << spec;
    for (const float x : got.out[0]) ASSERT_FALSE(std::isnan(x)) << spec;
  }
}

TEST(PagedCache, MayShareAndRepeatPagesAndHaveEmptyRows) {
  const Case c{.spec = "rope + alibi", .batch = 3, .queries = 1, .keys = 64};
  AttentionProblem f(c);
  PagedCache cache(f.data, 16, {64, 0, 64});
  for (std::size_t n = 0; n < 4; ++n) cache.pages[8 + n] = cache.pages[n];
  const std::vector<double> q = f.data.q.values();
  std::vector<double> same = q;
  std::copy_n(q.begin(), q.size() / 3, same.end() - static_cast<std::ptrdiff_t>(q.size() / 3));
  f.data.q.assign(same);
  AttentionCall call = f.call();
  cache.put_into(call);
  ASSERT_TRUE(attention(call).ok());
  const Rows rows = rows_of(f);
  EXPECT_EQ(rows.out[0], rows.out[2]);
  for (const float x : rows.out[1]) EXPECT_EQ(x, 0.0f);
  for (const float x : rows.lse[1]) EXPECT_EQ(x, -INFINITY);
}

TEST(PagedCache, ReadsATableWithAStride) {
  const Case c{.batch = 2, .queries = 1, .keys = 48};
  AttentionProblem f(c);
  PagedCache cache(f.data, 16, {48, 48});
  AttentionCall call = f.call();
  cache.put_into(call);
  ASSERT_TRUE(attention(call).ok());
  const Rows want = rows_of(f);
  std::vector<std::int32_t> wide(10, -7);
  for (std::size_t n = 0; n < 3; ++n) {
    wide[n] = cache.pages[n];
    wide[5 + n] = cache.pages[3 + n];
  }
  call.block_table.pages = wide.data();
  call.block_table.stride = 5;
  f.data.out.fill(NAN);
  ASSERT_TRUE(attention(call).ok());
  EXPECT_TRUE(rows_of(f) == want);
}

struct Mistake {
  const char* words;
  std::function<void(AttentionCall&, PagedCache&)> make;
  StatusCode code = StatusCode::kInvalidArgument;
};

std::vector<Mistake> mistakes() {
  using Call = AttentionCall;
  using Cache = PagedCache;
  const auto range = StatusCode::kOutOfRange;
  const auto unsupported = StatusCode::kUnsupported;
  static const std::vector<std::int64_t> packed = {0, 2};
  return {
      {"block_table.page must be positive but got 0",
       [](Call& c, Cache&) { c.block_table.page = 0; }},
      {"block_table.page must be positive but got -16",
       [](Call& c, Cache&) { c.block_table.page = -16; }},
      {"k must be a pool [pages, heads, page, channels] with 8 tokens to a page, as "
       "block_table.page says, but got 16",
       [](Call& c, Cache&) { c.block_table.page = 8; }},
      {"block_table.pages must not be null",
       [](Call& c, Cache&) { c.block_table.pages = nullptr; }},
      {"blocks must be >= 0 and its stride 0 or at least blocks but got -1",
       [](Call& c, Cache&) { c.block_table.blocks = -1; }},
      {"at least blocks but got 4 and 3", [](Call& c, Cache&) { c.block_table.stride = 3; }},
      {"block_table.lengths must have 2 entries, one per batch entry of q, but got 1",
       [](Call& c, Cache&) { c.block_table.lengths = c.block_table.lengths.first(1); }},
      {"block_table.lengths[1] must be from 0 to 4 pages of 16 tokens but got 65",
       [](Call&, Cache& p) { p.lengths[1] = 65; }, range},
      {"block_table.lengths[0] must be from 0 to 4 pages of 16 tokens but got -1",
       [](Call&, Cache& p) { p.lengths[0] = -1; }, range},
      {"block_table[1][2] must be a page of the pool, 0 to 10, but got 11",
       [](Call&, Cache& p) { p.pages[6] = 11; }, range},
      {"block_table[0][0] must be a page of the pool, 0 to 10, but got -1",
       [](Call&, Cache& p) { p.pages[0] = -1; }, range},
      {"v must have 11 pages as k has but got 10", [](Call& c, Cache&) { c.v.shape[0] = 10; }},
      {"v must be a pool", [](Call& c, Cache&) { c.v.shape[2] = 15; }},
      {"k must have 2 heads but got 1", [](Call& c, Cache&) { c.k.shape[1] = 1; }},
      {"k must have 16 channels but got 8", [](Call& c, Cache&) { c.k.shape[3] = 8; }},
      {"v must have contiguous channels but got stride 2",
       [](Call& c, Cache&) { c.v.stride[3] = 2; }},
      {"k must not be null", [](Call& c, Cache&) { c.k.data = nullptr; }},
      {"k has a negative size", [](Call& c, Cache&) { c.k.shape[0] = -1; }},
      {"fox.log_f must be a pool",
       [](Call& c, Cache&) {
         static ConstTensorView input;
         input = c.inputs[0];
         input.shape[2] = 64;
         c.inputs = {&input, 1};
       }},
      {"inputs must be fox.log_f but got 0", [](Call& c, Cache&) { c.inputs = {}; }},
      {"k_scales must not be given", [](Call& c, Cache&) { c.k_scales = c.inputs[0]; }},
      {"out must be its input (in place) or must not overlap it",
       [](Call& c, Cache& p) { c.out.data = p.v.view().data; }},
      {"plan must not be null", [](Call& c, Cache&) { c.plan = nullptr; }},
      {"block_table does not work with dropout", [](Call& c, Cache&) { c.dropout.rate = 0.1; },
       unsupported},
      {"block_table does not work with packed sequences",
       [](Call& c, Cache&) { c.mask.cu_queries = packed; }, unsupported},
  };
}

TEST(PagedCache, RefusesTablesAndPoolsThatDoNotFit) {
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.words);
    AttentionProblem f({.spec = "fox", .batch = 2, .queries = 1, .keys = 64});
    PagedCache cache(f.data, 16, {64, 50});
    AttentionCall call = f.call();
    cache.put_into(call);
    mistake.make(call, cache);
    const Status status = attention(call);
    EXPECT_EQ(status.code(), mistake.code) << status.message();
    EXPECT_NE(std::string(status.message()).find(mistake.words), std::string::npos)
        << status.message();
    for (const double x : f.data.out.values()) ASSERT_TRUE(std::isnan(x)) << "nothing is written";
  }
}

TEST(PagedCache, ChecksTheGatesOfItsTokensAlone) {
  AttentionProblem f({.spec = "fox", .batch = 2, .queries = 1, .keys = 64});
  std::vector<double> gates = f.data.inputs[0].values();
  gates[64 * 2 + 3] = 0.5;
  f.data.inputs[0].assign(gates);
  PagedCache cache(f.data, 16, {64, 50});
  AttentionCall call = f.call();
  cache.put_into(call);
  const Status status = attention(call);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(std::string(status.message()).find("log_f"), std::string::npos) << status.message();
}

TEST(PagedCache, HasNoBackwardAndNoSlices) {
  AttentionProblem f({.queries = 1, .keys = 64});
  PagedCache cache(f.data, 16, {64});
  AttentionBackwardCall backward = f.backward_call();
  cache.put_into(backward.forward);
  SliceRows rows(f.call());
  for (const Status& status :
       {attention_backward(backward), attention_slice(backward.forward, {}, rows)}) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_NE(std::string(status.message()).find("block_table is for forward calls"),
              std::string::npos)
        << status.message();
  }
}

TEST(PagedCache, IsExplained) {
  AttentionProblem f({.spec = "rope", .queries = 1, .keys = 600});
  const std::int64_t bytes = capability(f.call()).forward.bytes;
  PagedCache cache(f.data, 16, {600});
  AttentionCall call = f.call();
  cache.put_into(call);
  EXPECT_EQ(explain(call).substr(0, 64),
            "decode, rope while reading rows, pages read in place; no backwar");
  EXPECT_EQ(capability(call).forward.bytes, bytes) << "no copy of the cache";
  AttentionShapes shapes{.queries = 40, .keys = 600, .paged = true};
  const Capability blocks = capability(parse_spec("none"), shapes);
  EXPECT_NE(to_string(blocks).find("fused, pages copied into rows; no backward; memory"),
            std::string::npos)
      << to_string(blocks);
  EXPECT_GE(blocks.forward.bytes, 2 * 600 * 64 * 4);
  call.block_table.lengths = {};  // as before a call: all that the table has room for
  EXPECT_GE(capability(call).forward.bytes, bytes);
}

}  // namespace
}  // namespace posenc

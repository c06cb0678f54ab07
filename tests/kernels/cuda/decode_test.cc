// Decoding with split keys against the float64 reference: every chain of modifiers, masks and groups.
#include "kernels/cuda/decode.h"

#include "cases/attention_data.h"
#include "cases/compare.h"
#include "cases/table.h"
#include "kernels/cuda/device.h"
#include "kernels/toeplitz_tables.h"

namespace posenc::cuda {
namespace {

using cases::AttentionProblem;
using cases::Case;
using testing::Bytes;
using testing::Mirror;

class CudaDecode : public testing::Test {};

Tensor4 tensor4(const Mirror& x) {
  const TensorView view = x.view();
  return {view.data, view.stride[0], view.stride[1], view.stride[2]};
}

// A case's tensors and tables on the device.
class OnDevice {
 public:
  explicit OnDevice(AttentionProblem& problem)
      : data_(problem.data), q_(data_.q), k_(data_.k), v_(data_.v), out_(data_.out) {
    const Case& c = data_.c;
    params.element = c.dtype == DType::kFloat16 ? Element::kFloat16 : Element::kBFloat16;
    params.batch = static_cast<std::int32_t>(c.batch);
    params.heads = static_cast<std::int32_t>(c.heads);
    params.kv_heads = static_cast<std::int32_t>(c.kv_heads);
    params.queries = static_cast<std::int32_t>(c.queries);
    params.keys = static_cast<std::int32_t>(c.keys);
    params.head_dim = static_cast<std::int32_t>(c.head_dim);
    params.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    params.q = tensor4(q_);
    params.k = tensor4(k_);
    params.v = tensor4(v_);
    params.out = tensor4(out_);
    params.window_left = c.window_left;
    params.window_right = c.causal ? 0 : c.window_right;
    mask_ = Bytes(data_.key_mask);
    if (!data_.key_mask.empty()) params.key_mask = mask_.as<std::uint8_t>();
    lse_ = Bytes(data_.row_sums);
    params.lse = lse_.as<float>();
    fill_table();
    fill_cope();
    for (const Encoding& x : data_.spec.encodings) {
      if (const auto* cap = std::get_if<Softcap>(&x)) params.softcap = static_cast<float>(cap->cap);
    }
    params.workspace_bytes = decode_workspace_bytes(params);
    workspace_ = Bytes(std::vector<std::uint8_t>(params.workspace_bytes, 0xff));  // NaN
    params.workspace = workspace_.data();
  }
  void bring_back() {
    testing::check(cudaDeviceSynchronize());
    out_.bring_back();
    data_.row_sums = lse_.values<float>();
  }

  AttentionParams params;

 private:
  void fill_table() {
    std::vector<std::size_t> biases;
    for (std::size_t e = 0; e < data_.spec.encodings.size(); ++e) {
      if (traits(data_.spec.encodings[e]).site == Site::kBias) biases.push_back(e);
    }
    if (biases.empty()) return;
    DistanceRange range;
    range.before = data_.c.queries;
    range.places = data_.c.keys;
    range.lowest_seen = -range.before;
    const ToeplitzTables tables(data_.spec, biases, data_.c.heads, data_.parameters, range);
    std::vector<float> all;
    for (std::int64_t h = 0; h < data_.c.heads; ++h) {
      const float* first = tables.at(h) - range.before;
      all.insert(all.end(), first, first + range.span());
    }
    table_ = Bytes(all);
    params.toeplitz = {table_.as<float>(), range.span(), range.before, range.span()};
  }
  void fill_cope() {
    for (std::size_t e = 0; e < data_.spec.encodings.size(); ++e) {
      const auto* cope = std::get_if<Cope>(&data_.spec.encodings[e]);
      if (cope == nullptr) continue;
      const auto& values = data_.parameters[e][0];
      cope_ = Bytes(std::vector<float>(values.begin(), values.end()));
      params.cope.npos_max = static_cast<int>(cope->npos_max);
      const bool interpolates = cope->variant == Cope::Variant::kInterpolate;
      (interpolates ? params.cope.pos_emb : params.cope.slopes) = cope_.as<float>();
      params.cope.gates_see_bias = cope->gates_see_bias;
    }
  }

  cases::AttentionData& data_;
  Mirror q_, k_, v_, out_;
  Bytes mask_, lse_, table_, cope_, workspace_;
};

constexpr std::array<const char*, 9> kSpecs = {"none",
                                               "softcap(cap=1.5)",
                                               "alibi + cope(npos_max=8) + softcap(cap=2)",
                                               "alibi",
                                               "t5 + kerple",
                                               "cope(npos_max=8)",
                                               "cope(npos_max=64)",
                                               "cope(npos_max=8, variant=alibi)",
                                               "alibi + cope(npos_max=16, gates_see_bias=true)"};

// `most`: of what is allowed for the type.
void expect_reference(const Case& c, double most = 1.0) {
  AttentionProblem problem(c);
  const auto want = problem.expected(false);
  OnDevice on(problem);
  launch_attention_decode(on.params, nullptr).throw_if_error();
  on.bring_back();
  const auto bytes = problem.data.out.bytes();
  const auto row_sums = problem.data.row_sums;
  launch_attention_decode(on.params, nullptr).throw_if_error();
  on.bring_back();
  EXPECT_EQ(bytes, problem.data.out.bytes()) << cases::name_of(c) << ": two runs differ";
  EXPECT_EQ(row_sums, problem.data.row_sums) << cases::name_of(c) << ": two runs differ";
  const cases::Comparison found = cases::compare(c.dtype, problem.results(false), want);
  EXPECT_LE(found.worst, most) << cases::name_of(c) << ": " << found.mismatch;
}

Case case_of(const char* spec, std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
  return {.op = cases::Operation::kDecode,
          .spec = spec,
          .batch = 2,
          .heads = 6,
          .kv_heads = 2,
          .queries = queries,
          .keys = keys,
          .head_dim = head_dim,
          .dtype = queries == 1 ? DType::kFloat16 : DType::kBfloat16};
}

// Few blocks and several splits: what the race checker can go through in seconds.
TEST_F(CudaDecode, SmallShapesAgreeWithTheReference) {
  for (const char* spec : kSpecs) {
    Case c = case_of(spec, 2, 150, 64);
    c.batch = 1;
    c.heads = 2;
    c.kv_heads = 1;
    expect_reference(c);
  }
}

TEST_F(CudaDecode, AgreesWithTheReference) {
  for (const char* spec : kSpecs) {
    for (const std::int64_t head_dim : {16, 40, 64, 128, 256}) {
      expect_reference(case_of(spec, 1, 200, head_dim));
      Case padded = case_of(spec, 3, 1300, head_dim);
      padded.padding = true;
      expect_reference(padded);
      Case window = case_of(spec, 8, 200, head_dim);
      window.window_left = 70;
      expect_reference(window);
    }
  }
}

// Groups of one, four and eight query heads; 1 to 64 rows, where a product has 16; key counts that end
// within a step, a warp's keys and a split.
TEST_F(CudaDecode, RowsAndKeysOfEveryCount) {
  for (const char* spec : {"none", "alibi", "cope(npos_max=64)"}) {
    for (const std::int64_t group : {1, 4, 8}) {
      for (const std::int64_t queries : {1, 3, 8}) {
        for (const std::int64_t keys : {9, 127, 333, 1025}) {
          Case c = case_of(spec, queries, keys, keys % 2 == 0 ? 128 : 64);
          c.heads = 2 * group;
          c.dtype = (group + queries + keys) % 2 == 0 ? DType::kFloat16 : DType::kBfloat16;
          expect_reference(c);
        }
      }
    }
  }
}

// So many heads that splits are long, and a warp has more steps than its ring has stages.
TEST_F(CudaDecode, RingsTurnOver) {
  const auto check = [](const char* spec, std::int64_t keys, std::int64_t head_dim) {
    Case c = case_of(spec, 1, keys, head_dim);
    c.heads = c.kv_heads = 64;
    c.order = cases::Order::kTokensFirst;
    expect_reference(c);
  };
  check("none", 2990, 40);
  check("t5 + kerple", 1211, 200);
  check("alibi + cope(npos_max=16, gates_see_bias=true)", 2003, 128);
}

TEST_F(CudaDecode, WindowsOnBothSides) {
  for (const char* spec : kSpecs) {
    for (const std::int64_t left : {0, 40, 700}) {
      Case c = case_of(spec, 5, 1500, 64);
      c.window_left = left;
      expect_reference(c);
      c.causal = false;
      c.window_right = 2;
      c.padding = true;
      expect_reference(c);
    }
  }
}

// Positions that never reach the end of the table, that reach it far behind, and at the last keys. A gate
// has 23 bits behind the point: thousands that are almost closed round more than the type allows for.
TEST_F(CudaDecode, GatesOpenAndClosed) {
  for (const char* spec : {"cope(npos_max=2)", "cope(npos_max=256)"}) {
    const auto check = [&](std::int64_t keys, double shift, double most = 1.0) {
      Case c = case_of(spec, 2, keys, 128);
      c.query_shift = 0.5;
      c.gate_shift = shift;
      expect_reference(c, most);
    };
    check(300, -0.45);
    check(2100, -1.0, 4.0);
    check(300, 0.0);
    check(2100, 0.0);
    check(2100, 1.0);
  }
}

// A token of the last batch entry's first key head is poisoned: rows that see it are NaN, the others are
// those without poison.
std::vector<double> decoded(AttentionProblem& problem) {
  OnDevice on(problem);
  launch_attention_decode(on.params, nullptr).throw_if_error();
  on.bring_back();
  return problem.data.out.values();
}
bool sees(const cases::AttentionData& d, std::int64_t query, std::int64_t key) {
  const std::int64_t left = query + d.c.keys - d.c.queries - key;
  const auto at = static_cast<std::size_t>((d.c.batch - 1) * d.c.keys + key);
  return left >= 0 && (d.c.window_left < 0 || left <= d.c.window_left) &&
         (!d.c.padding || d.key_mask[at] != 0);
}
void expect_nan_where_seen(const Case& c, bool of_values, std::int64_t key) {
  AttentionProblem untouched(c);
  const std::vector<double> clean = decoded(untouched);
  AttentionProblem problem(c);
  cases::Tensor& tensor = of_values ? problem.data.v : problem.data.k;
  std::vector<double> values = tensor.values();
  const std::int64_t row = (c.batch - 1) * c.kv_heads * c.keys + key;
  values[static_cast<std::size_t>(row * c.head_dim + 1)] = NAN;
  tensor.assign(values);
  const std::vector<double> got = decoded(problem);
  const std::int64_t first = (c.batch - 1) * c.heads * c.queries;  // row of the last batch entry
  const std::int64_t group = c.heads / c.kv_heads;
  for (std::int64_t r = 0; r < c.batch * c.heads * c.queries; ++r) {
    const bool lost =
        r >= first && r < first + group * c.queries && sees(problem.data, r % c.queries, key);
    bool nan = false;
    double apart = 0.0;
    for (std::int64_t i = r * c.head_dim; i < (r + 1) * c.head_dim; ++i) {
      const auto at = static_cast<std::size_t>(i);
      nan |= std::isnan(got[at]);
      apart = std::max(apart, std::abs(got[at] - clean[at]));
    }
    ASSERT_EQ(nan, lost) << cases::name_of(c) << ": row " << r << ", " << (of_values ? "v " : "k ")
                         << key;
    if (!nan) {
      EXPECT_LE(apart, 0.02) << cases::name_of(c) << ": row " << r;
    }
  }
}

TEST_F(CudaDecode, NanReachesTheRowsThatSeeIt) {
  for (const char* spec : kSpecs) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const bool of_values : {true, false}) {
        Case c = case_of(spec, 8, 333, head_dim);
        for (const std::int64_t key : {329, 100, 332}) expect_nan_where_seen(c, of_values, key);
        c.window_left = 70;
        for (const std::int64_t key : {200, 257, 330}) expect_nan_where_seen(c, of_values, key);
        c = case_of(spec, 3, 1300, head_dim);
        c.padding = true;
        for (const std::int64_t key : {3, 4, 5, 6, 1297, 1298}) {
          expect_nan_where_seen(c, of_values, key);
        }
      }
    }
  }
}

// Keys and values behind the last one of a cache that is not full are never read into a product.
TEST_F(CudaDecode, AnUninitialisedCacheIsNotRead) {
  for (const char* spec : {"none", "alibi", "cope(npos_max=8)"}) {
    Case c = case_of(spec, 2, 205, 64);
    AttentionProblem full(c);
    for (cases::Tensor* tensor : {&full.data.k, &full.data.v}) {
      std::vector<double> values = tensor->values();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i / 64 % 205 >= 200) values[i] = NAN;
      }
      tensor->assign(values);
    }
    OnDevice on(full);
    on.params.keys = 200;
    on.params.workspace_bytes = decode_workspace_bytes(on.params);
    const Bytes workspace(std::vector<std::uint8_t>(on.params.workspace_bytes, 0xff));
    on.params.workspace = workspace.data();
    launch_attention_decode(on.params, nullptr).throw_if_error();
    on.bring_back();
    for (const double x : full.data.out.values()) ASSERT_TRUE(std::isfinite(x)) << spec;
  }
}

TEST_F(CudaDecode, RefusesWhatItDoesNotServe) {
  AttentionProblem problem({.queries = 1, .dtype = DType::kBfloat16});
  OnDevice on(problem);
  on.params.dropout_threshold = 5;
  EXPECT_FALSE(launch_attention_decode(on.params, nullptr).ok());
  on.params.dropout_threshold = 0;
  on.params.workspace_bytes = 1;
  EXPECT_FALSE(launch_attention_decode(on.params, nullptr).ok());
}

}  // namespace
}  // namespace posenc::cuda

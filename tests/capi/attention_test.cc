// Attention through the C ABI: the same bits as in C++, forward, backward and decoding.
#include "posenc/kernels/attention.h"

#include <cmath>
#include <cstring>

#include "capi/c_handles.h"
#include "cases/attention_data.h"
#include "cases/table.h"
#include "posenc/kernels/quantize.h"
#include "posenc/kernels/rope.h"
#include "support/catalog_specs.h"

namespace posenc {
namespace {

using cases::Tensor;
using testing::c_positions;
using testing::c_tensor;
using testing::fails;
using testing::make_parameters;
using testing::make_plan;
using testing::make_spec;
using testing::ok;
using testing::ParametersHandle;
using testing::PlanHandle;
using testing::sized;
using testing::SpecHandle;

struct Case {
  std::string spec = "rope + alibi(trainable=true)";
  DType dtype = DType::kFloat32;
  std::int64_t queries = 20;
  std::int64_t keys = 20;
  std::int64_t value_dim = 8;
};

// One call made ready on both sides; outputs are apart.
class Both {
 public:
  explicit Both(const Case& c)
      : shape{.head_dim = 8, .heads = 4},
        spec(parse_spec(c.spec)),
        plan(spec, shape, 2, {c.keys}),
        spec_handle(make_spec(c.spec)),
        plan_handle(make_plan(spec_handle.get(), shape, 2, c.keys)),
        parameters(make_parameters(spec_handle.get(), shape, 5)),
        dparameters(make_parameters(spec_handle.get(), shape, 6)),
        values(testing::values_of(parameters.get(), spec, shape)),
        q({2, 4, c.queries, 8}, c.dtype, cases::Order::kTokensFirst),
        k({2, 2, c.keys, 8}, c.dtype),
        v({2, 2, c.keys, c.value_dim}, c.dtype),
        grad_out({2, 4, c.queries, c.value_dim}, c.dtype, cases::Order::kTokensFirst) {
    Rng rng(9);
    for (Tensor* t : {&q, &k, &v, &grad_out}) t->fill_random(rng);
    outs = {grad_out, grad_out};
    dqs = {q, q};
    dks = {k, k};
    dvs = {v, v};
    for (const auto& [encoding, info] : token_inputs(spec, shape)) {
      const DType dtype = info.float32 ? DType::kFloat32 : c.dtype;
      inputs.emplace_back(std::array{std::int64_t{2}, info.head_count(4, 2), c.keys, info.channels},
                          dtype);
      inputs.back().fill_random(rng);
      std::vector<double> fitted = inputs.back().values();
      cases::fit_input(info, fitted);
      inputs.back().assign(fitted);
    }
    dinputs = {inputs, inputs};
    for (Tensor& input : inputs) {
      views.push_back(input.view());
      c_views.push_back(c_tensor(input));
    }
    for (auto& lse : lses) lse.resize(static_cast<std::size_t>(8 * c.queries));
  }

  AttentionCall cpp() {
    AttentionCall call;
    call.plan = &plan;
    call.parameters = &values;
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    call.inputs = views;
    call.out = outs[0].view();
    call.lse = lses[0];
    call.mask.causal = true;
    call.allow_reference = true;
    return call;
  }
  posenc_attention_call c() {
    auto call = sized<posenc_attention_call>();
    call.plan = plan_handle.get();
    call.parameters = parameters.get();
    call.q = c_tensor(q);
    call.k = c_tensor(k);
    call.v = c_tensor(v);
    call.inputs = c_views.data();
    call.input_count = c_views.size();
    call.out = c_tensor(outs[1]);
    call.lse = lses[1].data();
    call.lse_count = lses[1].size();
    call.mask.flags = POSENC_CAUSAL;
    call.allow_reference = 1;
    return call;
  }

  // Forward and backward on both sides.
  void compare(const AttentionCall& cpp, const posenc_attention_call& c) {
    const Status forward = attention(cpp);
    ASSERT_TRUE(forward.ok()) << forward.message();
    ASSERT_TRUE(ok(posenc_attention(&c)));
    EXPECT_EQ(outs[1].bytes(), outs[0].bytes());
    EXPECT_EQ(lses[1], lses[0]);
    std::array<char, 512> path{};
    EXPECT_GT(posenc_attention_explain(&c, path.data(), path.size()), 0);
    EXPECT_EQ(path.data(), explain(cpp));

    std::vector<Parameters> dvalues;
    AttentionBackwardCall cpp_back;
    cpp_back.forward = cpp;
    cpp_back.grad_out = grad_out.view();
    cpp_back.dq = dqs[0].view();
    cpp_back.dk = dks[0].view();
    cpp_back.dv = dvs[0].view();
    std::vector<TensorView> dviews;
    for (Tensor& dinput : dinputs[0]) dviews.push_back(dinput.view());
    cpp_back.dinputs = dviews;
    cpp_back.dparameters = &dvalues;
    ASSERT_TRUE(attention_backward(cpp_back).ok());
    auto back = sized<posenc_attention_backward_call>();
    back.forward = &c;
    back.grad_out = c_tensor(grad_out);
    back.dq = c_tensor(dqs[1]);
    back.dk = c_tensor(dks[1]);
    back.dv = c_tensor(dvs[1]);
    std::vector<posenc_tensor> c_dviews;
    for (Tensor& dinput : dinputs[1]) c_dviews.push_back(c_tensor(dinput));
    back.dinputs = c_dviews.data();
    back.dinput_count = c_dviews.size();
    back.dparameters = dparameters.get();
    ASSERT_TRUE(ok(posenc_attention_backward(&back)));
    EXPECT_EQ(dqs[1].bytes(), dqs[0].bytes());
    EXPECT_EQ(dks[1].bytes(), dks[0].bytes());
    EXPECT_EQ(dvs[1].bytes(), dvs[0].bytes());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(dinputs[1][i].bytes(), dinputs[0][i].bytes());
    }
    EXPECT_EQ(testing::values_of(dparameters.get(), spec, shape), dvalues);
  }

  ModelShape shape;
  Spec spec;
  AttentionPlan plan;
  SpecHandle spec_handle;
  PlanHandle plan_handle;
  ParametersHandle parameters;
  ParametersHandle dparameters;
  std::vector<Parameters> values;
  Tensor q, k, v, grad_out;
  std::vector<Tensor> inputs;
  std::array<std::vector<Tensor>, 2> dinputs;
  std::vector<ConstTensorView> views;
  std::vector<posenc_tensor> c_views;
  std::array<Tensor, 2> outs, dqs, dks, dvs;
  std::array<std::vector<float>, 2> lses;
};

TEST(CAttention, ForwardAndBackwardGiveTheBitsOfCpp) {
  for (const std::string& spec : cases::with_every_encoding(
           {"none", "rope + alibi(trainable=true)", "xpos + t5", "kerple + fire", "cope",
            "rope(schedule=learnable) + relative", "cope + cope(npos_max=8)"})) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      SCOPED_TRACE(spec + " " + dtype_name(dtype));
      Both both({.spec = spec, .dtype = dtype});
      both.compare(both.cpp(), both.c());
    }
  }
}

TEST(CAttention, ValuesHaveAnyWidth) {
  for (const std::int64_t value_dim : {5, 24}) {
    for (const std::int64_t queries : {1, 20}) {
      Both both({.spec = "rope + cope", .queries = queries, .value_dim = value_dim});
      both.compare(both.cpp(), both.c());
    }
  }
  Both tied({.spec = "rope(values=true)", .value_dim = 5});
  const posenc_attention_call call = tied.c();
  EXPECT_TRUE(fails(posenc_attention(&call), POSENC_INVALID_ARGUMENT,
                    "v must have 8 channels as q has with rope(values=true) but got 5"));
}

TEST(CAttention, ReadsACacheOfAnotherType) {
  Both both({.spec = "rope", .queries = 1});
  for (Tensor* t : {&both.k, &both.v}) {
    Tensor half({2, 2, 20, 8}, DType::kFloat16);
    half.assign(t->values());
    *t = half;
  }
  const auto c = both.c();
  ASSERT_TRUE(attention(both.cpp()).ok());
  ASSERT_TRUE(ok(posenc_attention(&c)));
  EXPECT_EQ(both.outs[1].bytes(), both.outs[0].bytes());
  EXPECT_EQ(both.lses[1], both.lses[0]);
}

TEST(CAttention, AGateThatIsNaNIsAnErrorThatNamesTheToken) {
  Both both({.spec = "fox"});
  std::vector<double> gates = both.inputs[0].values();
  gates[5] = NAN;
  both.inputs[0].assign(gates);
  const posenc_attention_call call = both.c();
  EXPECT_EQ(posenc_attention(&call), POSENC_OUT_OF_RANGE);
  EXPECT_NE(std::string(posenc_last_error())
                .find("fox.log_f must be at most 0 but got NaN at batch entry 0, head 0, token 5"),
            std::string::npos)
      << posenc_last_error();
}

TEST(CAttention, DecodesFromAnInt8Cache) {
  Both both({.spec = "rope", .queries = 1});
  Tensor rows({2, 2, 20, 8}, DType::kInt8);
  Tensor scales({2, 2, 20, 1}, DType::kFloat32);
  Tensor c_rows(rows);
  Tensor c_scales(scales);
  ASSERT_TRUE(quantize_rows(both.k.view(), rows.view(), scales.view()).ok());
  const posenc_tensor from = c_tensor(both.k);
  const posenc_tensor to = c_tensor(c_rows);
  const posenc_tensor to_scales = c_tensor(c_scales);
  ASSERT_TRUE(ok(posenc_quantize_rows(&from, &to, &to_scales)));
  ASSERT_EQ(c_rows.bytes(), rows.bytes());
  ASSERT_EQ(c_scales.bytes(), scales.bytes());
  auto cpp = both.cpp();
  auto c = both.c();
  cpp.k = rows.view();
  c.k = to;
  EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "k_scales must be float32"));
  cpp.k_scales = scales.view();
  c.k_scales = to_scales;
  ASSERT_TRUE(attention(cpp).ok());
  ASSERT_TRUE(ok(posenc_attention(&c)));
  EXPECT_EQ(both.outs[1].bytes(), both.outs[0].bytes());
  EXPECT_EQ(both.lses[1], both.lses[0]);
  Tensor back = both.k;
  ASSERT_TRUE(dequantize_rows(rows.view(), scales.view(), back.view()).ok());
  ASSERT_TRUE(ok(posenc_dequantize_rows(&to, &to_scales, &from)));
  EXPECT_EQ(both.k.bytes(), back.bytes());
}

// The pools of both sides are one tensor of pages in vLLM's order, which the table names from the last to the first.
TEST(CAttention, DecodesFromAPagedCache) {
  Both both({.spec = "rope + alibi(trainable=true)", .queries = 1});
  Tensor k({5, 2, 8, 8}, DType::kFloat32, cases::Order::kTokensFirst);
  Tensor v(k);
  Rng rng(3);
  k.fill_random(rng);
  v.fill_random(rng);
  const std::vector<std::int32_t> pages = {4, 3, 2, 1, 0, 4};
  const std::vector<std::int64_t> lengths = {20, 17};
  auto cpp = both.cpp();
  auto c = both.c();
  cpp.k = k.view();
  cpp.v = v.view();
  cpp.block_table = {.pages = pages.data(), .blocks = 3, .page = 8, .lengths = lengths};
  c.k = c_tensor(k);
  c.v = c_tensor(v);
  c.block_table = {pages.data(), pages.size(), 3, 0, 8, lengths.data(), lengths.size()};
  ASSERT_TRUE(attention(cpp).ok());
  ASSERT_TRUE(ok(posenc_attention(&c)));
  EXPECT_EQ(both.outs[1].bytes(), both.outs[0].bytes());
  EXPECT_EQ(both.lses[1], both.lses[0]);
  std::array<char, 512> text{};
  EXPECT_GT(posenc_attention_explain(&c, text.data(), text.size()), 0);
  EXPECT_EQ(explain(cpp), text.data());
  EXPECT_NE(explain(cpp).find("pages read in place"), std::string::npos);

  const std::vector<std::uint8_t> mask(40, 1);
  c.mask.key_mask = mask.data();
  c.mask.key_mask_count = 39;
  EXPECT_TRUE(
      fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "key_mask must have 40 entries"));
  c.mask.key_mask_count = 40;
  ASSERT_TRUE(ok(posenc_attention(&c)));
  const posenc_block_table fine = c.block_table;
  c.block_table.pages_count = 5;
  EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "2 rows of 3 entries, 3 apart"));
  c.block_table = fine;
  c.block_table.lengths_count = 1;
  EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "lengths must have 2 entries"));
  c.block_table = fine;
  c.block_table.pages = nullptr;
  EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "pages must not be null"));
}

TEST(CAttention, OptionsReachTheKernel) {
  {
    Both both({.spec = "rope"});
    auto cpp = both.cpp();
    auto c = both.c();
    cpp.scale = c.scale = 0.3;
    cpp.dropout = {0.25, 77};
    c.dropout_rate = 0.25;
    c.dropout_seed = 77;
    cpp.mask.window_left = c.mask.window_left = 3;
    cpp.mask.window_right = c.mask.window_right = 2;
    cpp.mask.causal = false;
    c.mask.flags = POSENC_WINDOW_LEFT | POSENC_WINDOW_RIGHT;
    both.compare(cpp, c);
    cpp.mask.window_right = -1;
    c.mask.flags = POSENC_WINDOW_LEFT;
    both.compare(cpp, c);
  }
  {
    Both both({.spec = "cope(gate_source=separate)"});
    auto cpp = both.cpp();
    auto c = both.c();
    both.compare(cpp, c);
    ASSERT_EQ(posenc_plan_input_count(both.plan_handle.get()), 1);
    EXPECT_STREQ(posenc_plan_input_name(both.plan_handle.get(), 0), "cope.gate_k");
    EXPECT_EQ(posenc_plan_input_name(both.plan_handle.get(), 1), nullptr);
    EXPECT_TRUE(fails(POSENC_OUT_OF_RANGE, POSENC_OUT_OF_RANGE, "[plan_input_name] input must be"));
    c.inputs = nullptr;
    EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "inputs must not be null"));
    c.input_count = SIZE_MAX;
    EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "inputs must be cope.gate_k"));
    c.input_count = 0;
    EXPECT_TRUE(fails(posenc_attention(&c), POSENC_INVALID_ARGUMENT, "but got 0 tensors"));
    std::array<char, 512> path{};
    EXPECT_GT(posenc_attention_explain(&c, path.data(), path.size()), 0);  // needs no inputs
  }
  {
    Both both({.spec = "rope + alibi"});
    const std::vector<std::uint8_t> key_mask = [] {
      std::vector<std::uint8_t> mask(40, 1);
      mask[3] = mask[25] = 0;
      return mask;
    }();
    const std::vector<std::int64_t> cumulative = {0, 7, 20};
    auto cpp = both.cpp();
    auto c = both.c();
    cpp.mask.key_mask = c.mask.key_mask = key_mask.data();
    c.mask.key_mask_count = key_mask.size();
    cpp.mask.cu_queries = cumulative;
    c.mask.cu_queries = cumulative.data();
    c.mask.cu_queries_count = cumulative.size();
    both.compare(cpp, c);
    cpp.mask.cu_keys = cumulative;
    c.mask.cu_keys = cumulative.data();
    c.mask.cu_keys_count = cumulative.size();
    both.compare(cpp, c);
  }
}

TEST(CAttention, PositionsReachTheKernel) {
  for (const char* spec : {"rope", "rope + alibi"}) {  // the second takes the reference's path
    Both both({.spec = spec});
    const std::vector<std::int64_t> offsets = {5, 1000};
    auto cpp = both.cpp();
    auto c = both.c();
    cpp.q_positions.offsets = cpp.k_positions.offsets = offsets;
    c.q_positions = c.k_positions = c_positions(POSENC_POSITIONS_OFFSETS, offsets);
    both.compare(cpp, c);
  }
}

TEST(CAttention, DecodesFromTurnedKeys) {
  Both both({.spec = "rope + alibi", .queries = 1});
  const RotaryCache cache(make_rotary(Rope{}, both.shape, {}), {});
  RopeCall cpp_turn;
  Tensor turned = both.k;
  cpp_turn.q = cpp_turn.q_out = turned.view();
  cpp_turn.tables = &cache;
  ASSERT_TRUE(rope(cpp_turn).ok());
  auto turn = sized<posenc_rope_call>();
  turn.plan = both.plan_handle.get();
  turn.q = c_tensor(both.k);
  ASSERT_TRUE(ok(posenc_rope(&turn)));
  ASSERT_EQ(both.k.bytes(), turned.bytes());
  auto cpp = both.cpp();
  auto c = both.c();
  cpp.keys_are_turned = true;
  c.keys_are_turned = 1;
  both.compare(cpp, c);
}

// Keys rotated at another length would not fit: refused, unless the spec is fixed at one length.
TEST(CAttention, TurnedKeysOfRotationsThatFollowTheLengthAreRefused) {
  for (const std::string& text : testing::catalog_specs(Site::kQueryKey, 8)) {
    SCOPED_TRACE(text);
    const Encoding encoding = parse_spec(text).encodings.at(0);
    const auto* rope = std::get_if<Rope>(&encoding);
    if (!is_rotary(encoding) || (rope != nullptr && rope->reads_input())) continue;
    const SpecHandle spec = make_spec(text);
    posenc_spec* raw = nullptr;
    ASSERT_TRUE(ok(posenc_spec_at_length(spec.get(), 64, &raw)));
    const SpecHandle fixed(raw);
    for (const posenc_spec* given : {spec.get(), fixed.get()}) {
      const ModelShape shape{.head_dim = 8, .heads = 2};
      const PlanHandle plan = make_plan(given, shape, 0, 3);
      const ParametersHandle parameters = make_parameters(given, shape, 1);
      auto info = sized<posenc_rotary_info>();
      ASSERT_TRUE(ok(posenc_rotary_describe(plan.get(), 0, &info)));
      const bool follows = given == spec.get() && follows_length(parse_spec(text));
      EXPECT_EQ(info.follows_length, follows ? 1 : 0);
      Tensor q({1, 2, 3, 8}, DType::kFloat32);
      Tensor out(q);
      auto call = sized<posenc_attention_call>();
      call.plan = plan.get();
      call.parameters = parameters.get();
      call.q = call.k = call.v = c_tensor(q);
      call.out = c_tensor(out);
      call.keys_are_turned = 1;
      const posenc_status status = posenc_attention(&call);
      EXPECT_TRUE(follows ? fails(status, POSENC_UNSUPPORTED, "does not follow the length")
                          : ok(status));
      call.keys_are_turned = 0;
      EXPECT_TRUE(ok(posenc_attention(&call)));
      const PlanHandle shorter = make_plan(given, shape, 0, 2);
      call.plan = shorter.get();
      const posenc_status other = posenc_attention(&call);
      EXPECT_TRUE(follows ? fails(other, POSENC_INVALID_ARGUMENT, "sequence_length of at least 3")
                          : ok(other));
    }
    EXPECT_TRUE(fails(posenc_spec_at_length(spec.get(), -1, &raw), POSENC_OUT_OF_RANGE,
                      "length must be in [0, 2^53] but got -1"));
  }
}

TEST(CAttention, MistakesAreNamedAndWriteNothing) {
  Both both({});
  const auto before = both.outs[1].bytes();
  const SpecHandle other = make_spec("alibi");
  const ParametersHandle others = make_parameters(other.get(), both.shape, 1);
  const auto expect = [&](const auto& change, posenc_status code, const char* words) {
    auto call = both.c();
    change(call);
    EXPECT_TRUE(fails(posenc_attention(&call), code, words));
    EXPECT_EQ(both.outs[1].bytes(), before);
  };
  const posenc_status invalid = POSENC_INVALID_ARGUMENT;
  for (const auto member : {&posenc_attention_call::q, &posenc_attention_call::k,
                            &posenc_attention_call::v, &posenc_attention_call::out}) {
    expect([&](auto& c) { c.*member = {}; }, invalid, "must be given, but it is all zero");
  }
  expect([](auto& c) { c.q.shape[1] = 2; }, invalid, "q must have 4 heads but got 2");
  expect([](auto& c) { c.parameters = nullptr; }, invalid,
         "parameters must not be null, for the plan's spec has 1");
  expect([&](auto& c) { c.parameters = others.get(); }, invalid,
         "parameters must be made for the plan's spec and shape");
  expect([](auto& c) { c.lse = nullptr; }, invalid, "lse must not be null");
  expect([](auto& c) { c.lse_count = 3; }, invalid, "lse must have 160 entries but got 3");
  expect([](auto& c) { c.scale = NAN; }, POSENC_OUT_OF_RANGE, "scale must be finite");
  expect([](auto& c) { c.dropout_rate = 1.0; }, invalid, "dropout rate must be in [0, 1)");
  expect([](auto& c) { c.mask.flags = 8; }, invalid, "mask.flags must be in [0, 7] but got 8");
  expect([](auto& c) { c.mask.reserved = 1; }, invalid, "mask.reserved");
  expect([](auto& c) { c.mask.flags = POSENC_WINDOW_LEFT, c.mask.window_left = -1; },
         POSENC_OUT_OF_RANGE, "mask.window_left must be >= 0 but got -1");
  expect([](auto& c) { c.mask.key_mask_count = 3; }, invalid, "mask.key_mask must not be null");
  const std::uint8_t one = 1;
  expect([&](auto& c) { c.mask.key_mask = &one, c.mask.key_mask_count = 1; }, invalid,
         "mask.key_mask must have 40 entries but got 1");
  std::vector<std::uint8_t> mask(40, 1);
  mask[7] = 255;
  expect([&](auto& c) { c.mask.key_mask = mask.data(), c.mask.key_mask_count = 40; },
         POSENC_OUT_OF_RANGE, "key_mask must be 1, or 0 for padding, but got 255");
  expect([](auto& c) { c.inputs = &c.k, c.input_count = 1; }, invalid, "inputs must be none");
  const std::vector<std::int64_t> far = {std::int64_t{1} << 53, 0};
  expect([&](auto& c) { c.q_positions = c_positions(POSENC_POSITIONS_OFFSETS, far); },
         POSENC_OUT_OF_RANGE, "q_positions must be in [-2^53, 2^53] but got 9007199254741");
  expect([](auto& c) { c.mask.cu_keys_count = 1; }, invalid, "mask.cu_keys must not be null");
  expect([](auto& c) { c.keys_are_turned = 5; }, invalid, "keys_are_turned");
}

TEST(CAttention, GradientsDoNotGoIntoTheParameters) {
  Both both({});
  const auto forward = both.c();
  ASSERT_TRUE(ok(posenc_attention(&forward)));
  auto back = sized<posenc_attention_backward_call>();
  back.forward = &forward;
  back.grad_out = c_tensor(both.grad_out);
  back.dq = c_tensor(both.dqs[1]);
  back.dk = c_tensor(both.dks[1]);
  back.dv = c_tensor(both.dvs[1]);
  back.dparameters = both.parameters.get();
  EXPECT_TRUE(fails(posenc_attention_backward(&back), POSENC_INVALID_ARGUMENT,
                    "dparameters must not be the parameters themselves"));
  const SpecHandle other = make_spec("alibi");
  const ParametersHandle others = make_parameters(other.get(), both.shape, 1);
  back.dparameters = others.get();
  EXPECT_TRUE(fails(posenc_attention_backward(&back), POSENC_INVALID_ARGUMENT,
                    "dparameters must be made for the plan's spec and shape"));
  back.dparameters = nullptr;
  EXPECT_TRUE(ok(posenc_attention_backward(&back)));
}

TEST(CAttention, HandlesMayBeFreedInAnyOrder) {
  Both both({.spec = "rope"});
  auto call = both.c();
  both.spec_handle.reset();
  both.parameters.reset();
  call.parameters = nullptr;
  EXPECT_TRUE(ok(posenc_attention(&call)));
}

TEST(CPlan, OptionsAreChecked) {
  const SpecHandle spec = make_spec("rope");
  const auto expect = [&](const auto& change, posenc_status code, const char* words) {
    auto options = sized<posenc_plan_options>();
    options.shape = {8, 4, 0};
    change(options);
    posenc_plan* plan = nullptr;
    EXPECT_TRUE(fails(posenc_plan_create(spec.get(), &options, &plan), code, words));
    EXPECT_EQ(plan, nullptr);
  };
  const posenc_status range = POSENC_OUT_OF_RANGE;
  expect([](auto& o) { o.kv_heads = 3; }, range, "kv_heads must divide the heads (4) but got 3");
  expect([](auto& o) { o.shape.head_dim = 0; }, range, "shape.head_dim");
  expect([](auto& o) { o.sequence_length = -1; }, range, "sequence_length must be in [0, 2^53]");
  expect([](auto& o) { o.context_length = INT64_MAX; }, range, "context_length");
  expect([](auto& o) { o.cache_mode = 3; }, POSENC_INVALID_ARGUMENT, "cache_mode");
  expect([](auto& o) { o.cache_length = -2; }, range, "length");
  expect([](auto& o) { o.cache_block = -1; }, range, "block");
  expect([](auto& o) { o.cache_max_bytes = 1; }, POSENC_RESOURCE_EXHAUSTED, "max_bytes");
  expect([](auto& o) { o.reserved = 1; }, POSENC_INVALID_ARGUMENT, "options.reserved");
}

TEST(CPlan, CacheModesReachTheTables) {
  const SpecHandle spec = make_spec("rope");
  for (const int32_t mode :
       {POSENC_CACHE_HYBRID, POSENC_CACHE_PRECOMPUTED, POSENC_CACHE_ON_DEMAND}) {
    auto options = sized<posenc_plan_options>();
    options.shape = {8, 1, 0};
    options.cache_mode = mode;
    options.cache_length = -1;  // nothing at once
    posenc_plan* raw = nullptr;
    ASSERT_TRUE(ok(posenc_plan_create(spec.get(), &options, &raw)));
    const PlanHandle plan(raw);
    Tensor q({1, 1, 1, 8}, DType::kFloat32);
    auto call = sized<posenc_rope_call>();
    call.plan = plan.get();
    call.q = c_tensor(q);
    const posenc_status status = posenc_rope(&call);
    EXPECT_EQ(status, mode == POSENC_CACHE_PRECOMPUTED ? POSENC_OUT_OF_RANGE : POSENC_OK);
  }
}

}  // namespace
}  // namespace posenc

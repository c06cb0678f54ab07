// The binary interface itself: null arguments, sizes of structs, layouts that must not move.
#include <cstring>

#include "capi/c_handles.h"

namespace posenc {
namespace {

using cases::Tensor;
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
using testing::StateHandle;

static_assert(noexcept(posenc_version()) && noexcept(posenc_attention(nullptr)) && noexcept(
    posenc_spec_free(nullptr)));

// Moving or resizing a field breaks programs that are out there: a failure here asks for a new
// POSENC_ABI_VERSION, unless fields were added at the end of a struct with struct_size.
static_assert(sizeof(void*) != 8 ||
              (sizeof(posenc_shape) == 24 && sizeof(posenc_tensor) == 80 &&
               sizeof(posenc_positions) == 48 && sizeof(posenc_mask) == 72 &&
               sizeof(posenc_linear_options) == 16 && sizeof(posenc_block_table) == 56));
static_assert(
    sizeof(void*) != 8 ||
    (sizeof(posenc_plan_options) == 88 && sizeof(posenc_rotary_info) == 88 &&
     sizeof(posenc_rope_call) == 408 && sizeof(posenc_rope_frequency_gradient_call) == 416 &&
     sizeof(posenc_attention_call) == 792 && sizeof(posenc_attention_backward_call) == 360 &&
     sizeof(posenc_linear_attention_call) == 544 &&
     sizeof(posenc_linear_attention_backward_call) == 344 && sizeof(posenc_linear_step) == 376 &&
     sizeof(posenc_embeddings_call) == 224 && sizeof(posenc_embeddings_gradient_call) == 152));

class CAbi : public ::testing::Test {
 protected:
  CAbi()
      : shape_{.head_dim = 8, .heads = 2},
        spec_(make_spec("rope + alibi")),
        plan_(make_plan(spec_.get(), shape_)),
        parameters_(make_parameters(spec_.get(), shape_, 1)),
        q_({1, 2, 3, 8}, DType::kFloat32),
        out_(q_) {
    Rng rng(2);
    q_.fill_random(rng);
  }
  posenc_attention_call attention_call() {
    auto call = sized<posenc_attention_call>();
    call.plan = plan_.get();
    call.parameters = parameters_.get();
    call.q = call.k = call.v = c_tensor(q_);
    call.out = c_tensor(out_);
    return call;
  }

  ModelShape shape_;
  SpecHandle spec_;
  PlanHandle plan_;
  ParametersHandle parameters_;
  Tensor q_, out_;
};

TEST_F(CAbi, NullIsFreed) {
  posenc_spec_free(nullptr);
  posenc_parameters_free(nullptr);
  posenc_plan_free(nullptr);
  posenc_linear_state_free(nullptr);
}

TEST_F(CAbi, EveryNullArgumentIsNamed) {
  const SpecHandle rope = make_spec("rope");
  const PlanHandle plan = make_plan(rope.get(), shape_);
  posenc_linear_state* raw = nullptr;
  ASSERT_TRUE(ok(posenc_linear_state_create(plan.get(), nullptr, 1, nullptr, &raw)));
  const StateHandle state(raw);
  const posenc_shape shape = testing::c_shape(shape_);
  auto options = sized<posenc_plan_options>();
  options.shape = shape;
  auto info = sized<posenc_rotary_info>();
  posenc_spec* spec_out = nullptr;
  posenc_parameters* parameters_out = nullptr;
  posenc_plan* plan_out = nullptr;
  double d = 0.0;
  float f = 0.0f;
  const posenc_spec* spec = spec_.get();
  posenc_parameters* values = parameters_.get();
  const char* slopes = "alibi.slopes";
  const posenc_tensor given = c_tensor(q_);
  const struct {
    const char* message;
    int64_t status;
    std::string said;
  } calls[] = {
#define POSENC_CALL(message, call) {message, call, posenc_last_error()}
      POSENC_CALL("[spec_from_text] text", posenc_spec_from_text(nullptr, &spec_out)),
      POSENC_CALL("[spec_from_text] spec", posenc_spec_from_text("rope", nullptr)),
      POSENC_CALL("[spec_at_length] spec", posenc_spec_at_length(nullptr, 1, &spec_out)),
      POSENC_CALL("[spec_at_length] fixed", posenc_spec_at_length(spec, 1, nullptr)),
      POSENC_CALL("[spec_from_json] json", posenc_spec_from_json(nullptr, &spec_out)),
      POSENC_CALL("[spec_from_json] spec", posenc_spec_from_json("[]", nullptr)),
      POSENC_CALL("[spec_from_yaml] yaml", posenc_spec_from_yaml(nullptr, &spec_out)),
      POSENC_CALL("[spec_from_yaml] spec", posenc_spec_from_yaml("rope", nullptr)),
      POSENC_CALL("[spec_to_text] spec", posenc_spec_to_text(nullptr, nullptr, 0)),
      POSENC_CALL("[spec_to_text] buffer", posenc_spec_to_text(spec, nullptr, 1)),
      POSENC_CALL("[spec_to_json] spec", posenc_spec_to_json(nullptr, nullptr, 0)),
      POSENC_CALL("[spec_to_json] buffer", posenc_spec_to_json(spec, nullptr, 1)),
      POSENC_CALL("[spec_to_yaml] spec", posenc_spec_to_yaml(nullptr, nullptr, 0)),
      POSENC_CALL("[spec_to_yaml] buffer", posenc_spec_to_yaml(spec, nullptr, 1)),
      POSENC_CALL("[spec_hash] spec", posenc_spec_hash(nullptr, nullptr, 0)),
      POSENC_CALL("[spec_hash] buffer", posenc_spec_hash(spec, nullptr, 1)),
      POSENC_CALL("[alibi_slopes] spec", posenc_alibi_slopes(nullptr, 1, &d, 1)),
      POSENC_CALL("[alibi_slopes] slopes", posenc_alibi_slopes(spec, 1, nullptr, 1)),
      POSENC_CALL("[t5_bucket] spec", posenc_t5_bucket(nullptr, 1)),
      POSENC_CALL("[parameters_create] spec",
                  posenc_parameters_create(nullptr, &shape, 1, &parameters_out)),
      POSENC_CALL("[parameters_create] shape",
                  posenc_parameters_create(spec, nullptr, 1, &parameters_out)),
      POSENC_CALL("[parameters_create] parameters",
                  posenc_parameters_create(spec, &shape, 1, nullptr)),
      POSENC_CALL("[parameters_copy] from", posenc_parameters_copy(nullptr, &parameters_out)),
      POSENC_CALL("[parameters_copy] copy", posenc_parameters_copy(values, nullptr)),
      POSENC_CALL("[parameters_count] parameters", posenc_parameters_count(nullptr)),
      POSENC_CALL("[parameters_find] parameters", posenc_parameters_find(nullptr, slopes)),
      POSENC_CALL("[parameters_find] name", posenc_parameters_find(values, nullptr)),
      POSENC_CALL("[parameters_dims] parameters",
                  posenc_parameters_dims(nullptr, slopes, nullptr, 0)),
      POSENC_CALL("[parameters_dims] name", posenc_parameters_dims(values, nullptr, nullptr, 0)),
      POSENC_CALL("[parameters_dims] dims", posenc_parameters_dims(values, slopes, nullptr, 1)),
      POSENC_CALL("[parameters_size] parameters", posenc_parameters_size(nullptr, slopes)),
      POSENC_CALL("[parameters_size] name", posenc_parameters_size(values, nullptr)),
      POSENC_CALL("[parameters_trainable] parameters",
                  posenc_parameters_trainable(nullptr, slopes)),
      POSENC_CALL("[parameters_trainable] name", posenc_parameters_trainable(values, nullptr)),
      POSENC_CALL("[parameters_get_f64] parameters",
                  posenc_parameters_get_f64(nullptr, slopes, &d, 2)),
      POSENC_CALL("[parameters_get_f64] name", posenc_parameters_get_f64(values, nullptr, &d, 2)),
      POSENC_CALL("[parameters_get_f64] values",
                  posenc_parameters_get_f64(values, slopes, nullptr, 2)),
      POSENC_CALL("[parameters_get_f32] parameters",
                  posenc_parameters_get_f32(nullptr, slopes, &f, 2)),
      POSENC_CALL("[parameters_get_f32] name", posenc_parameters_get_f32(values, nullptr, &f, 2)),
      POSENC_CALL("[parameters_get_f32] values",
                  posenc_parameters_get_f32(values, slopes, nullptr, 2)),
      POSENC_CALL("[parameters_set_f64] parameters",
                  posenc_parameters_set_f64(nullptr, slopes, &d, 2)),
      POSENC_CALL("[parameters_set_f64] name", posenc_parameters_set_f64(values, nullptr, &d, 2)),
      POSENC_CALL("[parameters_set_f64] values",
                  posenc_parameters_set_f64(values, slopes, nullptr, 2)),
      POSENC_CALL("[parameters_set_f32] parameters",
                  posenc_parameters_set_f32(nullptr, slopes, &f, 2)),
      POSENC_CALL("[parameters_set_f32] name", posenc_parameters_set_f32(values, nullptr, &f, 2)),
      POSENC_CALL("[parameters_set_f32] values",
                  posenc_parameters_set_f32(values, slopes, nullptr, 2)),
      POSENC_CALL("[plan_create] spec", posenc_plan_create(nullptr, &options, &plan_out)),
      POSENC_CALL("[plan_create] options", posenc_plan_create(spec, nullptr, &plan_out)),
      POSENC_CALL("[plan_create] plan", posenc_plan_create(spec, &options, nullptr)),
      POSENC_CALL("[plan_rotary_count] plan", posenc_plan_rotary_count(nullptr)),
      POSENC_CALL("[plan_input_count] plan", posenc_plan_input_count(nullptr)),
      POSENC_CALL("[rotary_describe] plan", posenc_rotary_describe(nullptr, 0, &info)),
      POSENC_CALL("[rotary_describe] info", posenc_rotary_describe(plan.get(), 0, nullptr)),
      POSENC_CALL("[rotary_frequencies] plan",
                  posenc_rotary_frequencies(nullptr, nullptr, 0, &d, 4)),
      POSENC_CALL("[rotary_frequencies] inv_freq",
                  posenc_rotary_frequencies(plan.get(), nullptr, 0, nullptr, 4)),
      POSENC_CALL("[rotary_table] plan",
                  posenc_rotary_table(nullptr, nullptr, 0, 0, 0, 1, &f, &f, 4)),
      POSENC_CALL("[rotary_table] cos",
                  posenc_rotary_table(plan.get(), nullptr, 0, 0, 0, 1, nullptr, &f, 4)),
      POSENC_CALL("[rotary_table] sin",
                  posenc_rotary_table(plan.get(), nullptr, 0, 0, 0, 1, &f, nullptr, 4)),
      POSENC_CALL("[rope] call", posenc_rope(nullptr)),
      POSENC_CALL("[rope_frequency_gradient] call", posenc_rope_frequency_gradient(nullptr)),
      POSENC_CALL("[attention] call", posenc_attention(nullptr)),
      POSENC_CALL("[attention_backward] call", posenc_attention_backward(nullptr)),
      POSENC_CALL("[attention] call", posenc_attention_explain(nullptr, nullptr, 0)),
      POSENC_CALL("[quantize_rows] x", posenc_quantize_rows(nullptr, &given, &given)),
      POSENC_CALL("[quantize_rows] quantized", posenc_quantize_rows(&given, nullptr, &given)),
      POSENC_CALL("[quantize_rows] scales", posenc_quantize_rows(&given, &given, nullptr)),
      POSENC_CALL("[dequantize_rows] quantized", posenc_dequantize_rows(nullptr, &given, &given)),
      POSENC_CALL("[dequantize_rows] scales", posenc_dequantize_rows(&given, nullptr, &given)),
      POSENC_CALL("[dequantize_rows] x", posenc_dequantize_rows(&given, &given, nullptr)),
      POSENC_CALL("[linear_attention] call", posenc_linear_attention(nullptr)),
      POSENC_CALL("[linear_attention_backward] call", posenc_linear_attention_backward(nullptr)),
      POSENC_CALL("[linear_state_create] plan",
                  posenc_linear_state_create(nullptr, nullptr, 1, nullptr, &raw)),
      POSENC_CALL("[linear_state_create] state",
                  posenc_linear_state_create(plan.get(), nullptr, 1, nullptr, nullptr)),
      POSENC_CALL("[linear_state_copy] from", posenc_linear_state_copy(nullptr, &raw)),
      POSENC_CALL("[linear_state_copy] copy", posenc_linear_state_copy(state.get(), nullptr)),
      POSENC_CALL("[linear_state_step] state", posenc_linear_state_step(nullptr, nullptr)),
      POSENC_CALL("[linear_state_step] step", posenc_linear_state_step(state.get(), nullptr)),
      POSENC_CALL("[linear_state_reset] state", posenc_linear_state_reset(nullptr)),
      POSENC_CALL("[linear_state_tokens] state", posenc_linear_state_tokens(nullptr)),
      POSENC_CALL("[linear_state_bytes] state", posenc_linear_state_bytes(nullptr)),
      POSENC_CALL("[add_embeddings] call", posenc_add_embeddings(nullptr)),
      POSENC_CALL("[add_embeddings_gradient] call", posenc_add_embeddings_gradient(nullptr)),
#undef POSENC_CALL
  };
  for (const auto& call : calls) {
    EXPECT_EQ(call.status, POSENC_INVALID_ARGUMENT) << call.message;
    EXPECT_EQ(call.said, std::string(call.message) + " must not be null");
  }
  EXPECT_EQ(posenc_parameters_name(nullptr, 0), nullptr);
  EXPECT_STREQ(posenc_last_error(), "[parameters_name] parameters must not be null");
}

// The handles inside of structs.
TEST_F(CAbi, EveryNullHandleOfACallIsNamed) {
  const posenc_status invalid = POSENC_INVALID_ARGUMENT;
  const auto rope = sized<posenc_rope_call>();
  EXPECT_TRUE(fails(posenc_rope(&rope), invalid, "[rope] plan must not be null"));
  auto frequencies = sized<posenc_rope_frequency_gradient_call>();
  EXPECT_TRUE(
      fails(posenc_rope_frequency_gradient(&frequencies), invalid, "plan must not be null"));
  frequencies.plan = plan_.get();
  frequencies.q = frequencies.dq_out = c_tensor(q_);
  EXPECT_TRUE(
      fails(posenc_rope_frequency_gradient(&frequencies), invalid, "dinv_freq must not be null"));
  const auto attention = sized<posenc_attention_call>();
  EXPECT_TRUE(fails(posenc_attention(&attention), invalid, "[attention] plan must not be null"));
  EXPECT_TRUE(fails(posenc_attention_explain(&attention, nullptr, 0), invalid, "plan"));
  const auto call = attention_call();
  EXPECT_TRUE(fails(posenc_attention_explain(&call, nullptr, 1), invalid,
                    "[attention_explain] buffer must not be null"));
  const auto backward = sized<posenc_attention_backward_call>();
  EXPECT_TRUE(fails(posenc_attention_backward(&backward), invalid, "forward must not be null"));
  const auto linear = sized<posenc_linear_attention_call>();
  EXPECT_TRUE(fails(posenc_linear_attention(&linear), invalid, "plan must not be null"));
  const auto linear_backward = sized<posenc_linear_attention_backward_call>();
  EXPECT_TRUE(fails(posenc_linear_attention_backward(&linear_backward), invalid,
                    "forward must not be null"));
  const auto embeddings = sized<posenc_embeddings_call>();
  EXPECT_TRUE(fails(posenc_add_embeddings(&embeddings), invalid, "parameters must not be null"));
  auto gradient = sized<posenc_embeddings_gradient_call>();
  EXPECT_TRUE(
      fails(posenc_add_embeddings_gradient(&gradient), invalid, "[add_embeddings_gradient] param"));
  gradient.parameters = parameters_.get();
  EXPECT_TRUE(
      fails(posenc_add_embeddings_gradient(&gradient), invalid, "dparameters must not be null"));
}

TEST_F(CAbi, EveryTensorOfABackwardIsRequired) {
  const auto forward = attention_call();
  auto full = sized<posenc_attention_backward_call>();
  full.forward = &forward;
  full.grad_out = full.dq = full.dk = full.dv = c_tensor(q_);
  const std::pair<const char*, posenc_tensor posenc_attention_backward_call::*> members[] = {
      {"grad_out", &posenc_attention_backward_call::grad_out},
      {"dq", &posenc_attention_backward_call::dq},
      {"dk", &posenc_attention_backward_call::dk},
      {"dv", &posenc_attention_backward_call::dv}};
  for (const auto& [name, member] : members) {
    auto call = full;
    call.*member = {};
    EXPECT_TRUE(fails(posenc_attention_backward(&call), POSENC_INVALID_ARGUMENT,
                      std::string(name) + " must be given"));
  }
}

// A program that was compiled when the struct ended earlier: its memory ends there too.
TEST_F(CAbi, AnOlderStructIsAccepted) {
  auto now = attention_call();
  Tensor expected = out_;
  now.out = c_tensor(expected);
  ASSERT_TRUE(ok(posenc_attention(&now)));
  auto older = attention_call();
  older.struct_size = offsetof(posenc_attention_call, inputs);
  const std::unique_ptr<std::byte[]> memory(new std::byte[older.struct_size]);
  std::memcpy(memory.get(), &older, older.struct_size);
  ASSERT_TRUE(ok(posenc_attention(reinterpret_cast<const posenc_attention_call*>(memory.get()))));
  EXPECT_EQ(out_.bytes(), expected.bytes());

  auto too_short = attention_call();
  too_short.struct_size = offsetof(posenc_attention_call, out);
  EXPECT_TRUE(fails(posenc_attention(&too_short), POSENC_INVALID_ARGUMENT,
                    "call.struct_size must be at least 336 but got 256"));
  too_short.struct_size = 0;
  EXPECT_TRUE(fails(posenc_attention(&too_short), POSENC_INVALID_ARGUMENT, "call.struct_size"));
  too_short.struct_size = SIZE_MAX;
  EXPECT_TRUE(fails(posenc_attention(&too_short), POSENC_INVALID_ARGUMENT, "call.struct_size"));
}

TEST_F(CAbi, ANewerStructIsAcceptedWhereItsNewFieldsAreZero) {
  struct Newer {
    posenc_attention_call call;
    double field;
  } newer{attention_call(), 0.0};
  newer.call.struct_size = sizeof newer;
  EXPECT_TRUE(ok(posenc_attention(&newer.call)));
  newer.field = 1.0;
  EXPECT_TRUE(fails(posenc_attention(&newer.call), POSENC_UNSUPPORTED,
                    "[attention] call has fields that posenc"));
}

TEST_F(CAbi, AnOutputStructIsFilledAsFarAsItGoes) {
  posenc_rotary_info info;
  std::memset(&info, 0x5a, sizeof info);
  const posenc_rotary_info before = info;
  info.struct_size = offsetof(posenc_rotary_info, dim_offset);
  ASSERT_TRUE(ok(posenc_rotary_describe(plan_.get(), 0, &info)));
  EXPECT_EQ(info.rotary_dim, 8);
  EXPECT_EQ(info.dim_offset, before.dim_offset);
  EXPECT_EQ(info.struct_size, offsetof(posenc_rotary_info, dim_offset));
  struct Newer {
    posenc_rotary_info info;
    double field;
  } newer{before, 1.0};
  newer.info.struct_size = sizeof newer;
  ASSERT_TRUE(ok(posenc_rotary_describe(plan_.get(), 0, &newer.info)));
  EXPECT_EQ(newer.info.softmax_factor, 1.0);
  EXPECT_EQ(newer.field, 0.0);
  newer.info.struct_size = 8;
  EXPECT_TRUE(fails(posenc_rotary_describe(plan_.get(), 0, &newer.info), POSENC_INVALID_ARGUMENT,
                    "info.struct_size"));
}

TEST_F(CAbi, ADenseTensorHasRowMajorStrides) {
  float data = 0.0f;
  const posenc_tensor t = posenc_dense(&data, POSENC_BFLOAT16, 2, 3, 4, 5);
  EXPECT_EQ(t.data, &data);
  EXPECT_EQ(t.dtype, POSENC_BFLOAT16);
  EXPECT_TRUE(std::equal(t.shape, t.shape + 4, std::array<int64_t, 4>{2, 3, 4, 5}.begin()));
  EXPECT_TRUE(std::equal(t.stride, t.stride + 4, dense_strides({2, 3, 4, 5}).begin()));
}

}  // namespace
}  // namespace posenc

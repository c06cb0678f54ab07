#include "capi/linear_arguments.h"
#include "kernels/linear_attention_setup.h"

using posenc::LinearAttentionState;
using posenc::StatusCode;
using posenc::capi::guarded;
using posenc::capi::required;
using posenc::capi::required_tensor;

namespace {

constexpr const char* kCreate = "linear_state_create";
constexpr const char* kStep = "linear_state_step";

std::unique_ptr<posenc_linear_state> make_state(const posenc_plan& plan,
                                                const posenc_parameters* parameters, int64_t batch,
                                                const posenc_linear_options& options) {
  const posenc::LinearAttentionOptions read = posenc::capi::linear_options_of(options);
  const posenc::Status fits = check_linear_options(*plan.plan, read);
  if (!fits.ok()) throw posenc::capi::Failure{fits};
  constexpr int64_t kMost = int64_t{1} << 30;
  if (batch < 0 || batch > kMost) {
    posenc::capi::fail(StatusCode::kOutOfRange, "[%s] batch must be in [0, 2^30] but got %lld",
                       kCreate, static_cast<long long>(batch));
  }
  const posenc::ModelShape& shape = plan.plan->terms().shape;
  int64_t floats = (shape.head_dim + 64) * (shape.head_dim + 64);  // of one head's sums, padded
  if (__builtin_mul_overflow(floats, shape.heads, &floats) ||
      __builtin_mul_overflow(floats, std::max<int64_t>(batch, 1), &floats)) {
    posenc::capi::fail(StatusCode::kResourceExhausted,
                       "[%s] batch is too large for states of %lld heads of %lld channels", kCreate,
                       static_cast<long long>(shape.heads), static_cast<long long>(shape.head_dim));
  }
  const auto& values = posenc::capi::values_of(kCreate, plan, parameters);
  return std::make_unique<posenc_linear_state>(posenc_linear_state{
      plan.plan, values, plan.axes, LinearAttentionState(*plan.plan, values.get(), batch, read)});
}

}  // namespace

extern "C" {

posenc_status posenc_linear_state_create(const posenc_plan* plan,
                                         const posenc_parameters* parameters, int64_t batch,
                                         const posenc_linear_options* options,
                                         posenc_linear_state** state) noexcept {
  return guarded([&] {
    required(kCreate, "plan", plan);
    posenc_linear_state*& out = required(kCreate, "state", state);
    const posenc_linear_options defaults{};
    out = make_state(*plan, parameters, batch, options == nullptr ? defaults : *options).release();
  });
}

posenc_status posenc_linear_state_copy(const posenc_linear_state* from,
                                       posenc_linear_state** copy) noexcept {
  return guarded([&] {
    required("linear_state_copy", "from", from);
    posenc_linear_state*& out = required("linear_state_copy", "copy", copy);
    out = std::make_unique<posenc_linear_state>(*from).release();
  });
}

void posenc_linear_state_free(posenc_linear_state* state) noexcept { delete state; }

posenc_status posenc_linear_state_step(posenc_linear_state* state,
                                       const posenc_linear_step* step) noexcept {
  return guarded([&] {
    required(kStep, "state", state);
    const auto c =
        posenc::capi::read_struct(kStep, "step", step, offsetof(posenc_linear_step, positions));
    LinearAttentionState::Step call;
    call.q = required_tensor(kStep, "q", c.q);
    call.k = required_tensor(kStep, "k", c.k);
    call.v = required_tensor(kStep, "v", c.v);
    call.out = required_tensor(kStep, "out", c.out);
    call.positions = posenc::capi::positions_of(kStep, "positions", c.positions,
                                                {call.q.batch(), call.q.tokens(), state->axes});
    return state->state.step(call);
  });
}

posenc_status posenc_linear_state_reset(posenc_linear_state* state) noexcept {
  return guarded([&] { required("linear_state_reset", "state", state).state.reset(); });
}

int64_t posenc_linear_state_tokens(const posenc_linear_state* state) noexcept {
  return guarded(
      [&]() -> int64_t { return required("linear_state_tokens", "state", state).state.tokens(); });
}

int64_t posenc_linear_state_bytes(const posenc_linear_state* state) noexcept {
  return guarded([&] {
    return static_cast<int64_t>(required("linear_state_bytes", "state", state).state.bytes());
  });
}

}  // extern "C"

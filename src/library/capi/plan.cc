#include "capi/arguments.h"
#include "capi/rotary_access.h"
#include "kernels/attention_call.h"

using posenc::AttentionPlan;
using posenc::CachePolicy;
using posenc::capi::guarded;
using posenc::capi::required;

namespace {

constexpr const char* kOp = "plan_create";

CachePolicy policy_of(const posenc_plan_options& options) {
  posenc::capi::check_choice(kOp, "cache_mode", options.cache_mode, 3);
  CachePolicy policy;
  if (options.cache_mode == POSENC_CACHE_PRECOMPUTED) policy.mode = CachePolicy::Mode::kPrecomputed;
  if (options.cache_mode == POSENC_CACHE_ON_DEMAND) policy.mode = CachePolicy::Mode::kOnDemand;
  if (options.cache_length != 0)
    policy.length = options.cache_length == -1 ? 0 : options.cache_length;
  if (options.cache_block != 0) policy.block = options.cache_block;
  if (options.cache_max_bytes != 0) policy.max_bytes = options.cache_max_bytes;
  validate(policy);
  return policy;
}

posenc::Lengths lengths_of(const posenc_plan_options& options) {
  posenc::capi::check_length(kOp, "sequence_length", options.sequence_length);
  posenc::capi::check_length(kOp, "context_length", options.context_length);
  return {options.sequence_length, options.context_length};
}

}  // namespace

extern "C" {

posenc_status posenc_plan_create(const posenc_spec* spec, const posenc_plan_options* options,
                                 posenc_plan** plan) noexcept {
  return guarded([&] {
    required(kOp, "spec", spec);
    const posenc_plan_options given =
        posenc::capi::read_struct(kOp, "options", options, offsetof(posenc_plan_options, kv_heads));
    posenc_plan*& out = required(kOp, "plan", plan);
    posenc::capi::check_reserved(kOp, "options", given.reserved);
    const posenc::ModelShape shape = posenc::capi::shape_of(kOp, given.shape);
    const int64_t kv_heads = given.kv_heads == 0 ? shape.heads : given.kv_heads;
    auto made = std::make_unique<posenc_plan>();
    made->plan = std::make_shared<AttentionPlan>(spec->spec, shape, kv_heads, lengths_of(given),
                                                 policy_of(given));
    made->no_values = std::make_shared<posenc::capi::Values>(spec->spec.encodings.size());
    made->parameters = parameters(spec->spec, shape).size();
    made->axes = made->plan->terms().axes;
    out = made.release();
  });
}

void posenc_plan_free(posenc_plan* plan) noexcept { delete plan; }

int64_t posenc_plan_rotary_count(const posenc_plan* plan) noexcept {
  return guarded([&] {
    const auto& terms = required("plan_rotary_count", "plan", plan).plan->terms();
    return static_cast<int64_t>(terms.rotary.size());
  });
}

int64_t posenc_plan_input_count(const posenc_plan* plan) noexcept {
  return guarded([&] {
    const auto& terms = required("plan_input_count", "plan", plan).plan->terms();
    return static_cast<int64_t>(terms.inputs.size());
  });
}

const char* posenc_plan_input_name(const posenc_plan* plan, int64_t input) noexcept {
  const char* name = nullptr;
  guarded([&] {
    const auto& inputs = required("plan_input_name", "plan", plan).plan->terms().inputs;
    if (input < 0 || input >= static_cast<int64_t>(inputs.size())) {
      posenc::capi::fail(posenc::StatusCode::kOutOfRange,
                         "[plan_input_name] input must be below the count (%zu) but got %lld",
                         inputs.size(), static_cast<long long>(input));
    }
    name = inputs[input].info.name.c_str();
  });
  return name;
}

}  // extern "C"

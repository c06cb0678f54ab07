#include "capi/arguments.h"

#include "kernels/attention_call.h"

namespace posenc::capi {
namespace {

using Long = long long;

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;

void check_size(const char* op, const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kLargestSize) return;
  fail(StatusCode::kOutOfRange, "[%s] shape.%s must be in [%lld, 2^24] but got %lld", op, name,
       static_cast<Long>(least), static_cast<Long>(value));
}

void check_made_for(const char* op, const char* name, const posenc_parameters& parameters,
                    const posenc_plan& plan) {
  const Terms& terms = plan.plan->terms();
  if (made_for(parameters, terms.spec, terms.shape)) return;
  fail(StatusCode::kInvalidArgument, "[%s] %s must be made for the plan's spec and shape", op,
       name);
}

}  // namespace

void check_pointer(const char* op, const char* name, const void* pointer) {
  if (pointer != nullptr) return;
  fail(StatusCode::kInvalidArgument, "[%s] %s must not be null", op, name);
}

void check_struct_size(const char* op, const char* name, std::size_t size, std::size_t least) {
  constexpr std::size_t kMost = 1 << 16;  // beyond it the number is garbage
  if (size >= least && size <= kMost) return;
  fail(StatusCode::kInvalidArgument,
       "[%s] %s.struct_size must be at least %zu but got %zu; set it to the sizeof of the struct",
       op, name, least, size);
}

void check_unknown_fields(const char* op, const char* name, std::span<const unsigned char> bytes) {
  if (std::all_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b == 0; })) return;
  fail(StatusCode::kUnsupported,
       "[%s] %s has fields that posenc " POSENC_VERSION_STRING
       " does not know; set them to zero, or use a newer library",
       op, name);
}

void check_length(const char* op, const char* name, std::int64_t length) {
  if (length >= 0 && length <= kLargestPosition) return;
  fail(StatusCode::kOutOfRange, "[%s] %s must be in [0, 2^53] but got %lld", op, name,
       static_cast<Long>(length));
}

void check_reserved(const char* op, const char* name, std::int32_t reserved) {
  if (reserved == 0) return;
  fail(StatusCode::kInvalidArgument, "[%s] %s.reserved must be 0 but got %d", op, name, reserved);
}

bool read_flag(const char* op, const char* name, std::int32_t value) {
  check_choice(op, name, value, 2);
  return value == 1;
}

void check_choice(const char* op, const char* name, std::int32_t value, std::int32_t count) {
  if (value >= 0 && value < count) return;
  fail(StatusCode::kInvalidArgument, "[%s] %s must be in [0, %d] but got %d", op, name, count - 1,
       value);
}

void check_count(const char* op, const char* name, std::size_t wanted, std::size_t got) {
  if (wanted == got) return;
  fail(StatusCode::kInvalidArgument, "[%s] %s must have %zu entries but got %zu", op, name, wanted,
       got);
}

std::int64_t write_text(const char* op, std::string_view text, char* buffer, std::size_t capacity) {
  if (capacity > 0) {
    check_pointer(op, "buffer", buffer);
    const std::size_t kept = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), kept);
    buffer[kept] = '\0';
  }
  return std::ssize(text);
}

ModelShape shape_of(const char* op, const posenc_shape& shape) {
  check_size(op, "head_dim", shape.head_dim, 1);
  check_size(op, "heads", shape.heads, 1);
  check_size(op, "model_dim", shape.model_dim, 0);
  return {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = shape.model_dim};
}

bool made_for(const posenc_parameters& parameters, const Spec& spec, const ModelShape& shape) {
  return parameters.shape.head_dim == shape.head_dim && parameters.shape.heads == shape.heads &&
         parameters.shape.width() == shape.width() && parameters.spec == spec;
}

const std::shared_ptr<Values>& values_of(const char* op, const posenc_plan& plan,
                                         const posenc_parameters* parameters) {
  if (parameters == nullptr) {
    if (plan.parameters == 0) return plan.no_values;
    fail(StatusCode::kInvalidArgument,
         "[%s] parameters must not be null, for the plan's spec has %zu", op, plan.parameters);
  }
  check_made_for(op, "parameters", *parameters, plan);
  return parameters->values;
}

Values* gradients_of(const char* op, const posenc_plan& plan, const Values* values,
                     posenc_parameters* gradients) {
  if (gradients == nullptr) return nullptr;
  check_made_for(op, "dparameters", *gradients, plan);
  if (gradients->values.get() == values) {
    fail(StatusCode::kInvalidArgument, "[%s] dparameters must not be the parameters themselves",
         op);
  }
  return gradients->values.get();
}

}  // namespace posenc::capi

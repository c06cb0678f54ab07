// Handles that free themselves, and the same things made on both sides of the C ABI.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "cases/tensor.h"
#include "posenc/encodings/spec.h"
#include "posenc/posenc_c.h"

namespace posenc::testing {

template <auto free_function>
struct Free {
  template <class T>
  void operator()(T* handle) const {
    free_function(handle);
  }
};
using SpecHandle = std::unique_ptr<posenc_spec, Free<posenc_spec_free>>;
using ParametersHandle = std::unique_ptr<posenc_parameters, Free<posenc_parameters_free>>;
using PlanHandle = std::unique_ptr<posenc_plan, Free<posenc_plan_free>>;
using StateHandle = std::unique_ptr<posenc_linear_state, Free<posenc_linear_state_free>>;

inline ::testing::AssertionResult ok(posenc_status status) {
  if (status == POSENC_OK) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << posenc_status_name(status) << ": " << posenc_last_error();
}
// The call failed with this code, and its message has these words.
inline ::testing::AssertionResult fails(std::int64_t status, posenc_status code,
                                        const std::string& words) {
  const std::string message = posenc_last_error();
  if (status == code && message.find(words) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got " << status << " with: " << message;
}

inline SpecHandle make_spec(const std::string& text) {
  posenc_spec* spec = nullptr;
  EXPECT_TRUE(ok(posenc_spec_from_text(text.c_str(), &spec)));
  return SpecHandle(spec);
}

inline posenc_shape c_shape(const ModelShape& shape) {
  return {shape.head_dim, shape.heads, shape.model_dim};
}

inline PlanHandle make_plan(const posenc_spec* spec, const ModelShape& shape,
                            std::int64_t kv_heads = 0, std::int64_t length = 0,
                            std::int32_t cache_mode = POSENC_CACHE_HYBRID) {
  posenc_plan_options options{};
  options.struct_size = sizeof options;
  options.shape = c_shape(shape);
  options.kv_heads = kv_heads;
  options.sequence_length = length;
  options.cache_mode = cache_mode;
  posenc_plan* plan = nullptr;
  EXPECT_TRUE(ok(posenc_plan_create(spec, &options, &plan)));
  return PlanHandle(plan);
}

inline ParametersHandle make_parameters(const posenc_spec* spec, const ModelShape& shape,
                                        std::uint64_t seed) {
  posenc_parameters* parameters = nullptr;
  const posenc_shape model = c_shape(shape);
  EXPECT_TRUE(ok(posenc_parameters_create(spec, &model, seed, &parameters)));
  return ParametersHandle(parameters);
}

// Values of a handle in the form of the C++ API.
inline std::vector<Parameters> values_of(const posenc_parameters* handle, const Spec& spec,
                                         const ModelShape& shape) {
  std::vector<Parameters> values(spec.encodings.size());
  for (const SpecParameter& p : parameters(spec, shape)) {
    std::vector<double> entries(static_cast<std::size_t>(p.info.count()));
    EXPECT_TRUE(
        ok(posenc_parameters_get_f64(handle, p.info.name.c_str(), entries.data(), entries.size())));
    values[p.encoding].push_back(std::move(entries));
  }
  return values;
}

inline posenc_tensor c_tensor(cases::Tensor& tensor) {
  const TensorView view = tensor.view();
  posenc_tensor t{};
  t.data = view.data;
  t.dtype = static_cast<std::int32_t>(view.dtype);
  std::copy(view.shape.begin(), view.shape.end(), t.shape);
  std::copy(view.stride.begin(), view.stride.end(), t.stride);
  return t;
}

template <class Number>
posenc_positions c_positions(std::int32_t form, const std::vector<Number>& data) {
  posenc_positions p{};
  p.form = form;
  p.data = data.data();
  p.count = data.size();
  return p;
}

// A struct with its size in place.
template <class Struct>
Struct sized() {
  Struct s{};
  s.struct_size = sizeof s;
  return s;
}

}  // namespace posenc::testing

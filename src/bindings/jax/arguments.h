// The attributes and operands of the handlers as arguments of the kernels.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "jax/buffers.h"
#include "kernels/prepared_spec.h"

namespace posenc::jax {

// Arrays after the inputs of an attention call that may be left out, in this order: which of them are there.
enum Given : std::int64_t {
  kKeyMask = 1,
  kCuQueries = 2,
  kCuKeys = 4,
  kQueryPositions = 8,
  kKeyPositions = 16,
  kSeed = 32  // of the dropout: an array, so that a new seed does not compile the program again
};

// The attributes of attention; flags are numbers, 0 or 1. Operands: q, k, v, the parameters, the inputs, and what `given` says.
struct AttentionOptions {
  std::string_view spec;
  std::int64_t causal;
  std::int64_t window_left;
  std::int64_t window_right;
  double scale;  // 0: 1 / sqrt(D)
  double dropout;
  std::int64_t keys_are_turned;
  std::int64_t parameters;  // arrays of them: all of the spec's, or those that train
  std::int64_t given;
};

// The attributes of rope. Operands: q, k, the parameters, and positions where they are given.
struct RopeOptions {
  std::string_view spec;
  std::int64_t parameters;
  std::int64_t has_positions;
  std::int64_t transposed;
};

// The parameters of a call: those of the spec that are arrays of it, and the values of all of them.
struct GivenParameters {
  std::vector<SpecParameter> infos;
  std::vector<ffi::AnyBuffer> buffers;
  std::vector<Parameters> values;
};
GivenParameters parameters_of(Buffers& operands, const PreparedSpec& prepared, std::int64_t count,
                              const HostRead& read);
// Gradients as results of the call, one for each parameter that was given.
void write_parameters(const GivenParameters& given, const std::vector<Parameters>& gradients,
                      const std::vector<std::span<float>>& results);
std::vector<std::span<float>> parameter_results(Buffers& results, const GivenParameters& given);

class AttentionArguments {
 public:
  AttentionArguments(Buffers& operands, const AttentionOptions& options, const HostRead& read);

  // Without outputs. Pointers are those of the buffers, on their device.
  [[nodiscard]] AttentionCall call() const;

  std::shared_ptr<const PreparedSpec> prepared;
  TensorView q, k, v;
  std::vector<TensorView> inputs;
  GivenParameters parameters;
  std::optional<Positions> q_positions, k_positions;

 private:
  void read_optional(Buffers& operands, const HostRead& read);

  AttentionOptions options_;
  std::vector<ConstTensorView> input_views_;
  const std::uint8_t* key_mask_ = nullptr;
  std::uint64_t seed_ = 0;
  std::vector<std::int64_t> cu_queries_;
  std::vector<std::int64_t> cu_keys_;
};

class RopeArguments {
 public:
  RopeArguments(Buffers& operands, const RopeOptions& options, const HostRead& read);

  // The gradients of the outputs come after q and k in a call for the gradient of trained frequencies.
  std::shared_ptr<const PreparedSpec> prepared;
  TensorView q, k;
  GivenParameters parameters;
  std::optional<Positions> positions;
};

}  // namespace posenc::jax

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(
    ::posenc::jax::AttentionOptions, StructMember<std::string_view>("spec"),
    StructMember<std::int64_t>("causal"), StructMember<std::int64_t>("window_left"),
    StructMember<std::int64_t>("window_right"), StructMember<double>("scale"),
    StructMember<double>("dropout"), StructMember<std::int64_t>("keys_are_turned"),
    StructMember<std::int64_t>("parameters"), StructMember<std::int64_t>("given"));
XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(::posenc::jax::RopeOptions,
                                      StructMember<std::string_view>("spec"),
                                      StructMember<std::int64_t>("parameters"),
                                      StructMember<std::int64_t>("has_positions"),
                                      StructMember<std::int64_t>("transposed"));

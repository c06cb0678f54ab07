#include "jax/attention_frame.h"

#include "cases/compare.h"

namespace posenc::testing {

using cases::Case;

AttentionFrames::AttentionFrames(const Case& c, bool constants) : problem(c) {
  cases::AttentionData& data = problem.data;
  for (const SpecParameter& p : parameters(data.spec, data.shape)) {
    std::vector<double>& values = data.parameters[p.encoding][p.index];
    if (!constants && !p.info.trainable) {
      values = initial_parameters(data.spec, data.shape)[p.encoding][p.index];
      continue;
    }
    given_.push_back(p);
    parameters_.emplace_back(values.begin(), values.end());
    dparameters_.emplace_back(values.size(), NAN);
    values.assign(parameters_.back().begin(), parameters_.back().end());
  }
}

void AttentionFrames::operands(FfiFrame& frame) {
  cases::AttentionData& data = problem.data;
  const AttentionCall call = problem.call();
  const Case& c = data.c;
  for (cases::Tensor* x : {&data.q, &data.k, &data.v}) frame.operand(*x);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    frame.operand(XLA_FFI_DataType_F32, parameters_[i].data(), given_[i].info.shape);
  }
  for (cases::Tensor& input : data.inputs) frame.operand(input);
  std::int64_t given = 0;
  const auto optional = [&](std::int64_t flag, XLA_FFI_DataType type, const void* values,
                            std::vector<std::int64_t> shape) {
    given += flag;
    frame.operand(type, values, std::move(shape));
  };
  const auto lengths = [](const auto& x) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(x.size())};
  };
  if (c.padding) optional(1, XLA_FFI_DataType_PRED, data.key_mask.data(), {c.batch, c.keys});
  if (!c.cumulative.empty()) {
    optional(2, XLA_FFI_DataType_S64, c.cumulative.data(), lengths(c.cumulative));
  }
  if (!c.cumulative_keys.empty()) {
    optional(4, XLA_FFI_DataType_S64, c.cumulative_keys.data(), lengths(c.cumulative_keys));
  }
  if (c.positions == cases::PositionForm::kIds32) {
    optional(8, XLA_FFI_DataType_S32, data.q_ids32.data(), {c.batch, c.queries, 1});
    optional(16, XLA_FFI_DataType_S32, data.k_ids32.data(), {c.batch, c.keys, 1});
  }
  if (c.positions == cases::PositionForm::kIds64) {
    optional(8, XLA_FFI_DataType_S64, data.q_ids.data(), {c.batch, c.queries, 1});
    optional(16, XLA_FFI_DataType_S64, data.k_ids.data(), {c.batch, c.keys, 1});
  }
  if (c.dropout > 0.0) {
    seed_ = static_cast<std::uint32_t>(call.dropout.seed);
    optional(32, XLA_FFI_DataType_U32, &seed_, {});
  }
  frame.attributes = {{"spec", c.spec},
                      {"causal", static_cast<std::int64_t>(c.causal)},
                      {"window_left", c.window_left},
                      {"window_right", c.window_right},
                      {"scale", 0.0},
                      {"dropout", c.dropout},
                      {"keys_are_turned", std::int64_t{0}},
                      {"parameters", static_cast<std::int64_t>(given_.size())},
                      {"given", given}};
}

FfiFrame AttentionFrames::forward() {
  FfiFrame frame;
  operands(frame);
  cases::AttentionData& data = problem.data;
  frame.result(data.out);
  frame.result(XLA_FFI_DataType_F32, data.row_sums.data(),
               {data.c.batch, data.c.heads, data.c.queries});
  return frame;
}

FfiFrame AttentionFrames::backward() {
  FfiFrame frame;
  cases::AttentionData& data = problem.data;
  frame.operand(data.grad_out);
  frame.operand(data.out);
  frame.operand(XLA_FFI_DataType_F32, data.row_sums.data(),
                {data.c.batch, data.c.heads, data.c.queries});
  operands(frame);
  for (cases::Tensor* x : {&data.dq, &data.dk, &data.dv}) frame.result(*x);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    frame.result(XLA_FFI_DataType_F32, dparameters_[i].data(), given_[i].info.shape);
  }
  for (cases::Tensor& dinput : data.dinputs) frame.result(dinput);
  return frame;
}

void AttentionFrames::store_parameter_gradients() {
  cases::AttentionData& data = problem.data;
  data.dparameters = initial_parameters(data.spec, data.shape);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    data.dparameters[given_[i].encoding][given_[i].index].assign(dparameters_[i].begin(),
                                                                 dparameters_[i].end());
  }
}

std::string mismatch_of(const Case& c) {
  AttentionFrames frames(cases::away_from_kinks(c));
  const std::vector<cases::Result> want = frames.problem.expected(true);
  if (const FfiResult result = frames.forward().run(posenc_jax_attention_cpu);
      !result.message.empty()) {
    return result.message;
  }
  if (const FfiResult result = frames.backward().run(posenc_jax_attention_backward_cpu);
      !result.message.empty()) {
    return result.message;
  }
  frames.store_parameter_gradients();
  return cases::compare(c.dtype, frames.problem.results(true), want).mismatch;
}

}  // namespace posenc::testing

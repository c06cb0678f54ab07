// Test data shared by softmax and linear attention: tensors, parameters, masks.
#pragma once

#include "cases/paged_cache.h"
#include "cases/problem.h"
#include "posenc/kernels/reference.h"

namespace posenc::cases {

// The inputs in float64, as stored.
struct ExactAttention {
  std::vector<double> q, k, v, grad_out;
  std::vector<std::vector<double>> of_encodings;
  std::vector<Parameters> parameters;

  [[nodiscard]] ref::AttentionInputs inputs() const {
    return {q, k, v, {of_encodings.begin(), of_encodings.end()}};
  }
};

// Random numbers to values that an input may have: gates of at most 1 where larger ones are refused, factors between 0
// and 2, rows of length one. Others stay as they are.
void fit_input(const InputInfo& info, std::vector<double>& values);

// A chain of steps needs causal attention: its cases are causal, whatever the Case says.
struct AttentionData {
  explicit AttentionData(const Case& config);

  [[nodiscard]] AttentionMask mask() const;
  [[nodiscard]] PositionsView positions(bool of_queries) const;

  [[nodiscard]] ExactAttention exact() const;
  [[nodiscard]] ref::AttentionShape ref_shape() const;
  [[nodiscard]] ref::Masking ref_masking() const;
  [[nodiscard]] ref::TokenPositions ref_positions() const;

  [[nodiscard]] double terms() const;
  // Out and its row sums, then the gradients.
  [[nodiscard]] std::vector<Result> results(const char* row_sums, bool with_backward) const;
  [[nodiscard]] std::vector<Result> expected_gradients(const ref::AttentionGradients& g) const;

  Case c;
  Spec spec;
  ModelShape shape;
  std::vector<SpecInput> token_inputs;
  AttentionPlan plan;
  Tensor q, k, v, out, grad_out, dq, dk, dv;
  Tensor k_scales, v_scales;            // of an int8 cache
  std::vector<Tensor> inputs, dinputs;  // one per token_inputs
  std::vector<Parameters> parameters;
  std::vector<Parameters> dparameters;
  std::vector<float> row_sums;  // lse, or the denominator
  std::vector<std::uint8_t> key_mask;
  std::vector<std::int64_t> q_ids, k_ids;  // as c.positions asks
  std::vector<std::int32_t> q_ids32, k_ids32;
};

// All inputs and parameters of `exact` that a gradient exists for.
std::vector<Variable> variables_of(ExactAttention& exact, const AttentionData& data);

class AttentionProblem : public Problem {
 public:
  explicit AttentionProblem(const Case& c);

  void forward() override;
  void backward() override;
  [[nodiscard]] std::vector<Result> results(bool with_backward) const override;
  [[nodiscard]] std::vector<Result> expected(bool with_backward) const override;
  std::vector<Variable> variables() override;
  double loss() override;
  [[nodiscard]] bool at_a_kink() const override;
  std::string path() override;

  AttentionCall call();
  AttentionBackwardCall backward_call();
  [[nodiscard]] ref::AttentionOptions ref_options() const;

  AttentionData data;
  std::optional<PagedCache> paged;  // of what the tensors of `data` held when it was made

 private:
  ExactAttention exact_;
  std::vector<ConstTensorView> input_views_;
  std::vector<TensorView> dinput_views_;
};

class LinearAttentionProblem : public Problem {
 public:
  explicit LinearAttentionProblem(const Case& c) : data(c) {}

  void forward() override;
  void backward() override;
  [[nodiscard]] std::vector<Result> results(bool with_backward) const override;
  [[nodiscard]] std::vector<Result> expected(bool with_backward) const override;
  std::vector<Variable> variables() override;
  double loss() override;

  LinearAttentionCall call();
  LinearAttentionBackwardCall backward_call();
  [[nodiscard]] ref::LinearAttentionOptions ref_options() const;

  AttentionData data;

 private:
  ExactAttention exact_;
};

}  // namespace posenc::cases

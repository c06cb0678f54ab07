// A call as arguments of the CUDA kernels, and the memory that they point to.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/token_sums.h"
#include "torch/composed/fire_terms.h"
#include "torch/cuda/turned.h"

namespace posenc::ops {

cuda::Tensor4 tensor4(const at::Tensor& x);

class FusedCall {
 public:
  // The kernels have one width: narrower values are padded, and `to_out` is as wide as q.
  FusedCall(const CudaCall& call, const at::Tensor& to_out, const at::Tensor& to_lse);
  FusedCall(const FusedCall&) = delete;
  FusedCall& operator=(const FusedCall&) = delete;

  // Scratch that lives as long as this does.
  void give_workspace(std::size_t bytes);

  [[nodiscard]] const CudaCall& call() const { return call_; }
  [[nodiscard]] const at::Tensor& v() const { return v_; }
  [[nodiscard]] bool has_table() const { return !call_.terms().biases.empty(); }

 private:
  void fill_shapes();
  void fill_mask();
  void fill_segments();
  void fill_range();
  void fill_table();
  void fill_fire();
  void fill_cope();
  void fill_tokens();
  void fill_relative();
  at::Tensor rows_of_queries(at::Tensor u);
  void fill_kept();
  void fill_sinks();
  void fill_dropout();

  const CudaCall& call_;

 public:
  Turned turned;
  at::Tensor out, lse;
  cuda::AttentionParams p;
  std::vector<std::vector<at::Tensor>> parameters;
  FireRange range;             // of distances and places
  cuda::TokenScan token_scan;  // where the spec has a term per token
  at::Tensor own_tokens;       // of queries, -1: none; where queries times distances read an input

 private:
  at::Tensor v_, plain_q_, gates_, segments_, table_, cope_table_, workspace_;
  at::Tensor relative_table_, relative_u_;
  at::Tensor token_input_, token_queries_, token_keys_, kept_, fire_tables_, sinks_;
};

}  // namespace posenc::ops

// One attention over the slices of all ranks: the data of this rank, and the kernel calls for a slice of keys.
#pragma once

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on

#include <torch/custom_class.h>

#include <memory>
#include <optional>

#include "parallel/ring_attention.h"
#include "parallel/ring_packet.h"
#include "parallel/ring_schedule.h"
#include "posenc/kernels/attention_slices.h"
#include "torch/arguments.h"

namespace posenc::parallel {

// A slice of keys, as it goes from rank to rank.
struct KeySlice {
  at::Tensor k, v;
  std::vector<at::Tensor> inputs;
  at::Tensor mask;  // uint8 [B, t], or undefined
  at::Tensor sums;  // of a term per token, float64 [B, H, t], or undefined

  [[nodiscard]] std::vector<at::Tensor> tensors() const;
};

// Gradients of a slice of keys, float32 but for the sums; they are views of the packet.
struct KeyGradients {
  at::Tensor packet;
  at::Tensor dk, dv;
  std::vector<at::Tensor> dinputs;
  at::Tensor dsums;

  KeyGradients& operator+=(const KeyGradients& other);
};

// What all calls of a ring share, from the forward to the backward.
struct RingCall : torch::CustomClassHolder {
  RingCall(Ranks& of, const at::Tensor& queries, const at::Tensor& k, const at::Tensor& v,
           const std::string& spec, const ops::AttentionOptions& options, RingOptions of_ring);

  // The tensors of this rank, from here to release(): between forward and backward autograd keeps them.
  void bind(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
            const at::Tensor& parameters, at::TensorList inputs);
  void release();

  // The slice of another rank from its packet, and an empty packet for it.
  [[nodiscard]] KeySlice unpack(const at::Tensor& packet, int rank) const;
  [[nodiscard]] at::Tensor empty_keys(int rank) const { return key_layout(rank).allocate(); }
  [[nodiscard]] KeyGradients empty_gradients(int rank) const;

  // Adds the keys of a rank to the rows of this one; keeps what they carried before.
  void add_keys(int rank, const KeySlice& keys, const at::Tensor& out, SliceRows& rows);
  void finish(SliceRows& rows, const at::Tensor& out, const at::Tensor& lse) const;
  [[nodiscard]] SliceRows first_rows(const at::Tensor& out) const;

  // What a backward has added up on this rank.
  struct Sums {
    at::Tensor out, lse, grad_out;
    at::Tensor dq;                 // float32
    std::vector<float> prefix;     // SliceGradients
    std::vector<double> dqueries;  // of a term per token
    std::vector<Parameters> dparameters;
    bool wants_parameters = false;
  };
  void clear(Sums& sums) const;
  void add_gradients(int rank, const KeySlice& keys, Sums& sums, const KeyGradients& to) const;
  // Of the sums of this rank's tokens, with the totals of the ranks after it.
  void finish_sums(const Sums& sums, const KeyGradients& to);

  // This rank's own keys.
  KeySlice own;

  Ranks& ranks;
  RingOptions ring;
  std::shared_ptr<const ops::Prepared> prepared;
  std::optional<RingSchedule> schedule;
  at::Tensor q;

 private:
  void agree(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& spec,
             const ops::AttentionOptions& options);
  void find_sums();
  [[nodiscard]] PacketLayout key_layout(int rank) const;
  struct Views;  // a call and what its views point into
  [[nodiscard]] Views call(const KeySlice& keys, const at::Tensor& out) const;
  [[nodiscard]] AttentionSlice slice(int rank, const KeySlice& keys) const;
  [[nodiscard]] at::Tensor shared_totals(const std::vector<double>& mine, bool before) const;

  std::optional<AttentionPlan> plan_;
  std::vector<Parameters> values_;
  AttentionMask mask_;
  std::optional<double> scale_;
  Dropout dropout_;
  at::Tensor key_mask_;
  std::vector<double> query_sums_;
  std::vector<std::vector<float>> carries_;  // by rank of the keys
};

}  // namespace posenc::parallel

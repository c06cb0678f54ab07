// NaN and infinity in composed attention. Its matrix products multiply masked keys and values by 0, and
// 0 times NaN is NaN. So tokens with such numbers are set to 0 first, and the results that attend to them
// are set to NaN afterwards, as posenc/kernels/attention.h specifies.
#pragma once

#include "torch/composed/composed.h"

namespace posenc::ops {

class NonFinite {
 public:
  // `grad_out` may be undefined: in the forward.
  NonFinite(const ComposedCall& call, const at::Tensor& grad_out);

  [[nodiscard]] const ComposedCall& cleaned() const { return cleaned_; }
  [[nodiscard]] const at::Tensor& grad_out() const { return grad_out_; }

  void mark(ComposedResult& result) const;
  void mark(AttentionBackward& gradients) const;

 private:
  [[nodiscard]] at::Tensor queries_that_see(const at::Tensor& keys) const;
  [[nodiscard]] at::Tensor keys_seen_by(const at::Tensor& queries, std::int64_t heads) const;
  // Keys that one of the queries sees, by `seen` in place of visible_.
  [[nodiscard]] static at::Tensor keys_of(const at::Tensor& seen, const at::Tensor& queries,
                                          std::int64_t heads);
  [[nodiscard]] const InputInfo::Readers& readers_of(std::size_t input) const {
    return cleaned_.prepared->plan.terms().inputs[input].info.readers;
  }
  [[nodiscard]] bool is_log_gate(std::size_t input) const;
  // Whether a query makes the step of a token, as visible_: a key that it sees is before it.
  [[nodiscard]] at::Tensor steps() const;
  [[nodiscard]] at::Tensor at_or_after(const at::Tensor& keys) const;
  [[nodiscard]] at::Tensor by_query_head(const at::Tensor& keys) const;
  [[nodiscard]] at::Tensor at_or_before(const at::Tensor& keys) const;

  ComposedCall cleaned_;
  at::Tensor grad_out_;
  at::Tensor visible_;  // [B or 1, 1, Tq, Tk]
  // Rows of queries, bool [B, H, Tq, 1]: whose weights are NaN, whose output is, and whose gradient is.
  at::Tensor weights_;
  at::Tensor out_;
  at::Tensor gradient_;
};

}  // namespace posenc::ops

// Rows with several documents: attention is limited to each document, and positions start at 0 in each. For the
// kernels all rows of a batch are one row of packed sequences.
#pragma once

#include <memory>

#include "posenc/torch/nn.h"

namespace posenc::model {

struct PackedDocuments {
  at::Tensor
      lengths;  // cumulative, of all documents of all rows: {0, n_1, .., B T}, int64 on the CPU
  at::Tensor positions;  // [B, T] int64 on the CPU: of each token in its document
};

// tokens [B, T] of int64. A document ends with its separator or with its row.
PackedDocuments packed_documents(const at::Tensor& tokens, std::int64_t separator);

// Attention over the documents that `lengths` has at the time of a call.
class PackedAttentionImpl : public nn::AttentionImpl {
 public:
  PackedAttentionImpl(nn::AttentionConfig config, nn::EncodingParameters shared,
                      std::shared_ptr<const at::Tensor> lengths)
      : AttentionImpl(std::move(config), std::move(shared)), lengths_(std::move(lengths)) {}

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::AttentionOptions& options) override;

 private:
  std::shared_ptr<const at::Tensor> lengths_;
};

}  // namespace posenc::model

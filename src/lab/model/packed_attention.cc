#include "model/packed_attention.h"

#include <algorithm>
#include <vector>

namespace posenc::model {

PackedDocuments packed_documents(const at::Tensor& tokens, std::int64_t separator) {
  const at::Tensor host = tokens.cpu().contiguous();
  const auto* token = host.data_ptr<std::int64_t>();
  const std::int64_t length = host.size(1);
  at::Tensor positions = at::empty_like(host);
  auto* position = positions.data_ptr<std::int64_t>();
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    if (i % length == 0 || token[i - 1] == separator) starts.push_back(i);
    position[i] = i - starts.back();
  }
  starts.push_back(host.numel());
  return {at::tensor(starts, at::kLong), positions};
}

at::Tensor PackedAttentionImpl::attend(const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const ops::AttentionOptions& options) {
  ops::AttentionOptions packed = options;
  packed.cu_queries = *lengths_;
  packed.cu_keys = *lengths_;
  return AttentionImpl::attend(q, k, v, packed);
}

}  // namespace posenc::model

// Which keys a query sees, by the rules of posenc/kernels/ref/tokens.h.
#pragma once

#include <string>

#include "posenc/kernels/ref/tokens.h"

namespace posenc::ref {

// Where each token stands: the sequence it belongs to, and its place there.
struct Places {
  std::vector<std::int64_t> sequence;
  std::vector<std::int64_t> place;
};

class Mask {
 public:
  // Throws where the masking does not fit the shape; `scope` is the operation that complains.
  Mask(const std::string& scope, const AttentionShape& shape, const Masking& masking);

  [[nodiscard]] bool sees(std::int64_t batch, std::int64_t query, std::int64_t key) const;
  // sees() of one query for all keys.
  [[nodiscard]] std::vector<bool> row(std::int64_t batch, std::int64_t query) const;

  [[nodiscard]] const Places& queries() const { return queries_; }
  [[nodiscard]] const Places& keys() const { return keys_; }

 private:
  AttentionShape shape_;
  Masking masking_;
  Places queries_;
  Places keys_;
};

}  // namespace posenc::ref

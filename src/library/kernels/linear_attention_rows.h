// Converts tokens to the rows that linear attention multiplies, and gradients of rows back to tokens.
#pragma once

#include <algorithm>
#include <vector>

#include "core/aligned.h"
#include "kernels/linear_attention_setup.h"

namespace posenc {

// Features of a chunk of queries or keys of one head.
struct FeatureRows {
  FeatureRows(const LinearSetup& setup, std::size_t capacity);

  [[nodiscard]] float* rotated_row(std::size_t r) { return rotated.data() + r * stride; }
  // Rows of the denominator: phi(x), or for the cosine q' and k' themselves.
  [[nodiscard]] const float* sums_rows() const {
    return plain.empty() ? rotated.data() : plain.data();
  }

  std::size_t features;  // channels of a rotated row
  std::size_t dim;
  std::size_t stride;        // of rotated rows
  std::size_t plain_stride;  // of plain rows
  AlignedFloats rotated;     // T phi(x), or u(T x) and a 1
  AlignedFloats plain;       // phi(x); empty for the cosine
  AlignedFloats lengths;     // |T x| for the cosine, 0 where u(T x) is 0

  void clear(std::size_t r) {
    std::fill_n(rotated_row(r), stride, 0.0f);
    if (!plain.empty()) std::fill_n(plain.data() + r * plain_stride, plain_stride, 0.0f);
  }
};

// Reads and writes the tokens of one call; one per thread. Nothing here allocates after
// construction.
class TokenReader {
 public:
  explicit TokenReader(const LinearSetup& setup);
  TokenReader(const TokenReader&) = delete;
  TokenReader& operator=(const TokenReader&) = delete;

  // Keys are rotated by the frequencies of this query head. Padding is zero, whatever its memory holds.
  void queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk, FeatureRows& rows);
  void keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk, FeatureRows& rows);
  void values(const Segment& s, std::int64_t head, const PlaceChunk& chunk, float* rows);

  // From gradients at q' (or k') and at the row of the denominator to that of the token, in place
  // in `drotated`. `dfrequencies` as RowTurner::backward wants them.
  struct RowGradient {
    float* drotated;
    const float* dsums;
    const std::vector<double*>* dfrequencies;
  };
  void backward(Role role, const Segment& s, std::int64_t head, std::int64_t token,
                const FeatureRows& rows, std::size_t r, const RowGradient& gradient);

  // Index of the token at a row of a chunk, or -1 where there is none (or it is padding).
  [[nodiscard]] std::int64_t query_at(const Segment& s, const PlaceChunk& chunk,
                                      std::size_t r) const;
  [[nodiscard]] std::int64_t key_at(const Segment& s, const PlaceChunk& chunk, std::size_t r) const;

 private:
  void feature(Role role, const Segment& s, std::int64_t head, std::int64_t token,
               FeatureRows& rows, std::size_t r);
  void load_position(Role role, const Segment& s, std::int64_t token);
  void load_token(Role role, const Segment& s, std::int64_t head, std::int64_t token, float* x);
  void normalize(FeatureRows& rows, std::size_t r);
  void normalize_backward(const FeatureRows& rows, std::size_t r, const RowGradient& gradient);

  const LinearSetup& setup_;
  cpu::PhiPlan phi_;
  AttentionCall one_token_;  // what the turner sees: a sequence of the token at hand
  AttentionSetup turner_setup_;
  RowTurner turner_;
  AlignedFloats x_;
};

}  // namespace posenc

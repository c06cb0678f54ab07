// Near-duplicate documents by MinHash and locality-sensitive hashing: documents that share a large part of
// their strings of 32 bytes are found without comparing each pair.
//
//   resemblance  J(a, b) = |A & B| / |A | B|, with A and B the sets of strings of two documents
//
// A signature has 128 minima, made in one pass over the bytes: one permutation, of which each bin keeps its
// least hash, and empty bins take over from others (Broder 1997; Li et al. 2012, arXiv 1208.1259; Shrivastava
// 2017, arXiv 1703.04664). The share of equal minima estimates J with a standard error of at most 0.045.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tasks/document.h"

namespace posenc::tasks {

inline constexpr std::size_t kMinima = 128;
using Signature = std::array<std::uint32_t, kMinima>;

// Documents shorter than 32 bytes are one string.
Signature signature_of(Bytes document);
double resemblance(const Signature& a, const Signature& b);

// Keeps the first of documents that resemble one another.
class NearDuplicates {
 public:
  // threshold in (0, 1]: documents whose estimated resemblance reaches it are duplicates.
  explicit NearDuplicates(double threshold);

  struct Match {
    std::size_t kept = 0;  // number of the document that was kept
    double resemblance = 0.0;
  };
  // The kept document that this one resembles most, or nothing: then it is kept, as the next number.
  std::optional<Match> add(Bytes document);
  [[nodiscard]] std::size_t kept() const { return signatures_.size(); }

 private:
  // Of each band of minima the hash: two documents are compared where they share one.
  [[nodiscard]] std::uint64_t band_hash(const Signature& signature, std::size_t band) const;

  double threshold_;
  std::size_t rows_;   // minima in a band
  std::size_t bands_;  // as many as fit
  std::vector<Signature> signatures_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> buckets_;
};

}  // namespace posenc::tasks

#include "tasks/minhash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "posenc/core/error.h"
#include "tasks/rolling_hash.h"

namespace posenc::tasks {
namespace {

constexpr std::size_t kStringBytes = 32;
constexpr double kFound = 0.99;  // of the pairs at the threshold
constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

// An empty bin takes the minimum of a bin that its number and the attempt choose: the same bin in every
// document that has it empty too, so equal sets give equal signatures.
void fill_empty_bins(Signature& bins) {
  const Signature made = bins;
  for (std::size_t bin = 0; bin < kMinima; ++bin) {
    for (std::uint64_t attempt = 1; bins[bin] == kEmpty; ++attempt) {
      bins[bin] = made[mixed((attempt << 32) | bin) % kMinima];
    }
  }
}

// Most minima in a band for which pairs at the threshold are found: fewer others are compared in vain.
std::size_t rows_for(double threshold) {
  std::size_t rows = 1;
  for (std::size_t r = 2; r <= kMinima; ++r) {
    const double same_band = std::pow(threshold, static_cast<double>(r));
    const double found = 1.0 - std::pow(1.0 - same_band, static_cast<double>(kMinima / r));
    if (found >= kFound) rows = r;
  }
  return rows;
}

}  // namespace

Signature signature_of(Bytes document) {
  Signature bins;
  bins.fill(kEmpty);
  const auto add = [&](std::uint64_t hash) {
    std::uint32_t& least = bins[hash >> 57];  // seven bits: the bin
    least = std::min(least, static_cast<std::uint32_t>(hash) & (kEmpty >> 1));
  };
  for_each_string<kStringBytes>(document, add);
  if (document.size() < kStringBytes) {
    std::uint64_t hash = mixed(document.size());
    for (const std::uint8_t byte : document) hash = mixed(hash ^ byte);
    add(hash);
  }
  fill_empty_bins(bins);
  return bins;
}

double resemblance(const Signature& a, const Signature& b) {
  std::size_t same = 0;
  for (std::size_t i = 0; i < kMinima; ++i) same += a[i] == b[i] ? 1 : 0;
  return static_cast<double>(same) / static_cast<double>(kMinima);
}

NearDuplicates::NearDuplicates(double threshold)
    : threshold_(threshold), rows_(rows_for(threshold)), bands_(kMinima / rows_) {
  if (threshold > 0.0 && threshold <= 1.0) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = "data dedup",
                                       .key = "threshold",
                                       .rule = "must be in (0, 1]",
                                       .value = fmt::format("{}", threshold),
                                       .hint = "0.8 is usual"});
}

std::uint64_t NearDuplicates::band_hash(const Signature& signature, std::size_t band) const {
  std::uint64_t hash = mixed(band);
  for (std::size_t i = 0; i < rows_; ++i) hash = mixed(hash ^ signature[band * rows_ + i]);
  return hash;
}

std::optional<NearDuplicates::Match> NearDuplicates::add(Bytes document) {
  const Signature signature = signature_of(document);
  std::optional<Match> best;
  std::vector<std::uint64_t> hashes;
  for (std::size_t band = 0; band < bands_; ++band) {
    hashes.push_back(band_hash(signature, band));
    const auto bucket = buckets_.find(hashes.back());
    if (bucket == buckets_.end()) continue;
    for (const std::uint32_t other : bucket->second) {
      const double alike = resemblance(signature, signatures_[other]);
      const bool better =
          !best || alike > best->resemblance || (alike == best->resemblance && other < best->kept);
      if (alike >= threshold_ && better) best = Match{other, alike};
    }
  }
  if (best) return best;
  const auto number = static_cast<std::uint32_t>(signatures_.size());
  signatures_.push_back(signature);
  for (const std::uint64_t hash : hashes) buckets_[hash].push_back(number);
  return std::nullopt;
}

}  // namespace posenc::tasks

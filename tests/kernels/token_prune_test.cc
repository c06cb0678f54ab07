// Which tiles the CUDA kernels leave out for fox(prune=true) (device/token_prune.cuh), compiled for the host: against a
// scan of all tiles, and the weight of what is left out.
#include "support/cuda_host.h"
// Device headers come after it.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/device/token_prune.cuh"

namespace posenc::cuda {
namespace {

struct Sums {
  std::vector<double> at_query;
  std::vector<double> at_key;
  AttentionParams p;

  Sums(int queries, int keys, double mean) {
    std::mt19937 rng(3);
    std::exponential_distribution<double> step(1.0 / mean);
    double sum = 0.0;
    for (int j = 0; j < keys; ++j) at_key.push_back(sum -= step(rng));
    for (int i = 0; i < queries; ++i) {
      const int place = i + keys - queries;
      at_query.push_back(place < 0 ? 0.0 : at_key[static_cast<std::size_t>(place)]);
    }
    p.queries = queries;
    p.keys = keys;
    p.tokens.at_query = at_query.data();
    p.tokens.at_key = at_key.data();
  }
  [[nodiscard]] KeptTiles kept(double reach, bool bounded = true) const {
    return {TokenRow(p, sequence_of(p, 0), 0), reach, bounded};
  }
  [[nodiscard]] int query_tiles() const { return (p.queries + 63) / 64; }
  [[nodiscard]] int key_tiles() const { return (p.keys + 63) / 64; }
};

void check(int queries, int keys, double mean) {
  const Sums sums(queries, keys, mean);
  const double largest = 2.0;  // a score is at most so far from 0
  const double reach = prune_reach(4.0, 4.0, largest / 16.0, keys);
  EXPECT_DOUBLE_EQ(reach, 2.0 * largest + std::log(keys) + 10.0);
  const KeptTiles kept = sums.kept(reach);
  std::vector<std::int32_t> first;
  for (int i = 0; i < sums.query_tiles(); ++i) {
    int scan = 0;  // as the CPU does
    const int place = 64 * i + keys - queries;
    while (place >= 0 && scan < place / 64 && kept.leaves_out(i, scan)) ++scan;
    first.push_back(kept.first_of(i));
    ASSERT_EQ(first.back(), scan) << i;
    // The worst case: what is left out has the highest scores, the row's own key the lowest.
    for (int row = 64 * i; row < std::min(64 * i + 64, queries); ++row) {
      double left_out = 0.0;
      for (int j = 0; j < 64 * scan; ++j) {
        left_out += std::exp(2.0 * largest + kept.row.query(row) - kept.row.key(j));
      }
      ASSERT_LT(left_out, std::exp(-10.0)) << row;
    }
  }
  for (int tile = 0; tile < sums.key_tiles(); ++tile) {
    const int end = KeptTiles::end_of(first.data(), sums.query_tiles(), tile);
    for (int i = 0; i < sums.query_tiles(); ++i) {
      ASSERT_EQ(i < end, first[static_cast<std::size_t>(i)] <= tile) << i << " " << tile;
    }
  }
  EXPECT_TRUE(std::is_sorted(first.begin(), first.end()));
  const bool fades = mean > 0.05 && keys > 1000 && queries > 100;
  EXPECT_TRUE(!fades || first.back() > 0);
}

TEST(TokenPrune, TilesAreThoseOfAScan) {
  for (const double mean : {0.001, 0.03, 0.5, 20.0}) {
    check(1500, 1500, mean);
    check(200, 1111, mean);
    check(900, 500, mean);  // the first queries have no token of their own
    check(1, 700, mean);
    check(5, 3, mean);
  }
}

TEST(TokenPrune, NothingIsLeftOutWhereTheBoundDoesNotHold) {
  const Sums sums(1500, 1500, 1.0);
  for (int i = 0; i < sums.query_tiles(); ++i) {
    EXPECT_EQ(sums.kept(20.0, false).first_of(i), 0);
    EXPECT_EQ(sums.kept(INFINITY).first_of(i), 0);
    EXPECT_EQ(sums.kept(NAN).first_of(i), 0);
  }
}

}  // namespace
}  // namespace posenc::cuda

// Tiles of keys that a tile of queries keeps, and the other way round, from sums that fall.
#pragma once

#include "kernels/cuda/device/tokens.cuh"

namespace posenc::cuda {

// Keys are left out where their weights together are below e^-10 of a row's: a row's own key has at least e^-R of what
// its weight could be without fading, and R is the largest norm of a query times that of a key, times the scale.
inline __device__ double prune_reach(double largest_query, double largest_key, double scale,
                                     int keys) {
  return 2.0 * scale * largest_query * largest_key + log(static_cast<double>(keys)) + 10.0;
}

// One head of one sequence.
struct KeptTiles {
  TokenRow row;
  double reach;
  bool bounded;  // whether the bound speaks of this head

  // Whether all queries of a tile may skip a tile of keys: its decay is smallest for the first query.
  [[nodiscard]] __device__ bool leaves_out(int query_tile, int key_tile) const {
    const int last_key = min(key_tile * kTile + kTile, row.keys) - 1;
    return row.query(query_tile * kTile) - row.key(last_key) < -reach;
  }
  // The first tile of keys that a tile of queries keeps; its own at the latest.
  [[nodiscard]] __device__ int first_of(int query_tile) const {
    const int place = query_tile * kTile + row.keys - row.queries;
    if (!bounded || place < 0) return 0;
    int low = 0;
    int high = place / kTile;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (leaves_out(query_tile, middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // The tiles of queries that keep a tile of keys end here; `first` are those of all of them, in order.
  [[nodiscard]] __device__ static int end_of(const std::int32_t* first, int query_tiles,
                                             int key_tile) {
    int low = 0;
    int high = query_tiles;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (first[middle] <= key_tile) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace posenc::cuda

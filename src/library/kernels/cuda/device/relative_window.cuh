// Queries times distances for a block that owns keys: a tile of 64 queries and 64 keys has 127 distances. Two products
// of 64 x 64 x rank give every row its logits at all of them, in shared memory; a pair then reads the one of its
// distance, which shears rows by addressing. If all distances are beyond the end of a clipped table, one logit is enough.
#pragma once

#include "kernels/cuda/device/embedding.cuh"
#include "kernels/cuda/device/general_block.cuh"
#include "kernels/cuda/device/relative.cuh"

namespace posenc::cuda {

template <class Kind, int kDim>
class RelativeWindow {
  using M = MmaOf<Kind>;
  static constexpr int kCount = Planes<Kind>::kCount;
  static constexpr int kTableParts = kFloatPlanes<Kind>;
  static constexpr int kDistances = 127;
  static constexpr int kLogitBytes = 64 * kDistances * 4;
  // Parts of 64 channels and 64 distances of the table: where the weights' tile is too small for them.
  static constexpr bool kOwnScratch = kTableParts > kCount;
  static constexpr int kScratch = (kLogitBytes + 1023) / 1024 * 1024;

 public:
  static constexpr int kBytes =
      kOwnScratch ? kScratch + 1024 + kTableParts * kTileBytes : kLogitBytes;

  // `weights` are tiles that no warp reads while the window is filled.
  __device__ RelativeWindow(std::uint8_t* memory, std::uint8_t* weights, const ThreadRows& mine)
      : logits_(reinterpret_cast<float*>(memory)),
        scratch_(kOwnScratch ? aligned_smem(memory + kLogitBytes) : weights),
        mine_(mine) {}

  // `distance`: of the tile's first query and first key. The rows of u are staged; no warp reads the scratch.
  __device__ void fill(const RelativeLogits& table, const RelativeEntries& entries, int distance,
                       const Stage& stage) const {
    const int blocks = entries.all_clipped(distance - 63, distance + 63) ? 1 : 2;
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      Accum z;
      zero(z);
#pragma unroll 1
      for (int d = 0; 64 * d < table.dim(); ++d) {
        load_columns(table, entries, distance - 64 + 64 * block, d);
        publish_smem();
        __syncthreads();
        mma_begin();
        multiply_planes<M, kCount, kTableParts, false, true>(z, stage.address() + d * kTileBytes,
                                                             kPlaneBytes<kDim>,
                                                             smem_address(scratch_), kTileBytes);
        mma_commit();
        mma_wait();
        pin(z);
        __syncthreads();  // the scratch is overwritten
      }
      store(block, z);
    }
    __syncwarp();  // a warp reads its own rows
  }

  // To the biases of the thread's two rows.
  __device__ void add(const RelativeEntries& entries, int distance, float (&biases)[2][16]) const {
    if (!entries.reaches(distance - 63, distance + 63)) return;
    const bool same = entries.all_clipped(distance - 63, distance + 63);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mine_.row[h];
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        biases[h][j] += logits_[same ? row * kDistances : at(row, row - 16 * mine_.column - j)];
      }
    }
  }

 private:
  // Of a row, at a distance from -63 to 63 from the tile's.
  __device__ static int at(int row, int apart) { return row * kDistances + apart + 63; }

  // Distances from `first` on, 64 channels: parts of [channel][distance]; zeros where there is no entry.
  __device__ void load_columns(const RelativeLogits& table, const RelativeEntries& entries,
                               int first, int d) const {
    const int column = static_cast<int>(threadIdx.x) % 64;
    const int entry = entries.at(first + column);
    const float* from = table.embedding() + max(entry, 0);
    constexpr int kBatch = 8;  // loads under way together
#pragma unroll 1
    for (int start = static_cast<int>(threadIdx.x) / 64; start < 64; start += 2 * kBatch) {
      float x[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int channel = 64 * d + start + 2 * b;
        const bool real = entry >= 0 && channel < table.dim();
        x[b] =
            real ? table.scale() * from[static_cast<std::int64_t>(channel) * table.npos()] : 0.0f;
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        store_parts_of<M, kTableParts, 64>(scratch_, start + 2 * b, column, x[b]);
      }
    }
  }
  // Distance -64 + 64 block + column from the tile's; that of -64 is no pair's.
  __device__ void store(int block, const Accum& z) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int apart = 64 * block - 64 + 8 * (i / 4) + 2 * mine_.column + i % 2;
      if (apart > -64) logits_[at(mine_.row[i / 2 % 2], apart)] = z[i / 4][i % 4];
    }
  }

  float* logits_;
  std::uint8_t* scratch_;
  const ThreadRows& mine_;
};

}  // namespace posenc::cuda

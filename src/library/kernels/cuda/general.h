// The general attention kernels: every element type and chain (attention.h says which calls take them).
// Blocks of one warpgroup, grids of (slots, heads, sequences) whose blocks share the rows of a head, so
// that tables and partial sums per block do not grow with the length.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/backward_space.cuh"

namespace posenc::cuda {

// Whether only the general kernels know what a call asks for.
bool only_general(const AttentionParams& p) noexcept;
// Whether a call goes to them: the above, and tables that leave no room for the tuned ones' tiles.
bool needs_general(const AttentionParams& p) noexcept;

// Translation units of the backward are split by element type: 16 bits, or float32 in parts.
enum class ElementGroup : std::uint8_t { kHalves, kFloats };
inline bool has_halves(const AttentionParams& p) { return p.element != Element::kFloat32; }

template <int kDim>
cudaError_t run_general_forward(const AttentionParams& p, int slots, cudaStream_t stream);
template <int kDim, ElementGroup kGroup>
cudaError_t run_general_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                              cudaStream_t stream);
template <int kDim, ElementGroup kGroup>
cudaError_t run_general_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                            cudaStream_t stream);

// Blocks of 64 rows, or of 64 keys, in which a tuned kernel found numbers that are not finite.
struct MarkedBlocks {
  int sequences = 0;
  int heads = 0;
  int blocks = 0;                        // of a head; keys: times the shares of their channels
  const std::uint32_t* marks = nullptr;  // [sequences, heads, blocks]
};
inline constexpr int kRecheckBlocks = 128;  // blocks of threads of a launch that looks for marks

// Computes marked blocks again. What the tuned kernels serve: halves, and gates from the scores.
template <int kDim>
cudaError_t recheck_forward(const AttentionParams& p, const MarkedBlocks& list,
                            cudaStream_t stream);
template <int kDim>
cudaError_t recheck_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                          const MarkedBlocks& list, cudaStream_t stream);
template <int kDim>
cudaError_t recheck_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                        const MarkedBlocks& list, cudaStream_t stream);

}  // namespace posenc::cuda

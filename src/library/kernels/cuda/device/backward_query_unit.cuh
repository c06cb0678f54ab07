// The kernels of the queries' backward, and what a translation unit of them instantiates.
#pragma once

#include "kernels/cuda/device/backward_query.cuh"
#include "kernels/cuda/device/dispatch_attention.cuh"

namespace posenc::cuda {

template <class T, int kDim, int kMods, int kGroups, int kStages, int kBlocks>
__global__ void __launch_bounds__(kGroups * 128, kBlocks)
    attention_backward_query_kernel(const __grid_constant__ AttentionBackwardParams b,
                                    const __grid_constant__ BackwardSpace space) {
  extern __shared__ std::uint8_t raw_smem[];
  BackwardQuery<T, kDim, kMods, kGroups, kStages, false>(b, space, aligned_smem(raw_smem)).run();
}

template <class T, int kDim, int kMods, int kGroups, int kStages>
__global__ void __launch_bounds__(kQueryStreamThreads<kGroups>, 1)
    attention_query_stream_kernel(const __grid_constant__ AttentionBackwardParams b,
                                  const __grid_constant__ BackwardSpace space) {
#if POSENC_WGMMA
  using Of = StreamRegisters<kGroups>;
  using Layout = QueryLayout<kDim, kMods, kGroups, kStages, true>;
  extern __shared__ std::uint8_t raw_smem[];
  std::uint8_t* smem = aligned_smem(raw_smem);
  const std::uint32_t base = smem_address(smem);
  if (threadIdx.x == 0) QueryBarriers<Layout>{base}.init(kGroups);
  if constexpr ((kMods & kFire) != 0) {
    load_fire_table(b.forward, static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x),
                    reinterpret_cast<FireEntry*>(smem + Layout::kFireTable));
  }
  __syncthreads();
  if (warpgroup() == kGroups) {
    leave_registers<Of::kCopying>();
    QueryCopies<T, kDim, kMods, kGroups, kStages>(b.forward, space, base).run();
  } else {
    take_registers<Of::kComputing>();
    BackwardQuery<T, kDim, kMods, kGroups, kStages, true>(b, space, smem).run();
  }
#endif
}

template <int kDim, int kChain, bool kCompact>
int backward_query_bytes(const AttentionParams& p) {
  constexpr Sizes kSizes = backward_query_sizes(kDim, kChain, kCompact);
  return QueryLayout<kDim, kChain, kSizes.groups, kSizes.stages, false>::bytes(p.cope.npos_max);
}

template <class T, int kDim, int kChain>
cudaError_t launch_query_stream(const AttentionBackwardParams& b, const BackwardSpace& space,
                                dim3 grid, int bytes, cudaStream_t stream) {
  constexpr int kGroups = backward_query_sizes(kDim, kChain, false).groups;
  constexpr int kStages = query_stream_stages(kDim, kChain);
  return launch(attention_query_stream_kernel<T, kDim, kChain, kGroups, kStages>, grid,
                kQueryStreamThreads<kGroups>, bytes, stream, b, space);
}

template <class T, int kDim, int kChain, bool kCompact>
cudaError_t launch_backward_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                                  cudaStream_t stream) {
  constexpr Sizes kSizes = backward_query_sizes(kDim, kChain, kCompact);
  const dim3 grid(static_cast<unsigned>(space.slots), static_cast<unsigned>(b.forward.heads),
                  static_cast<unsigned>(sequences_of(b.forward)));
  const int bytes = backward_query_bytes<kDim, kChain, kCompact>(b.forward);
  if constexpr (kHasStream<kDim, kChain> && !kCompact) {
    const int streamed =
        QueryLayout<kDim, kChain, kSizes.groups, query_stream_stages(kDim, kChain), true>::bytes(
            b.forward.cope.npos_max);
    // The blocks of rows must be those that the workspace was laid out for.
    constexpr bool kInOrder = (kChain & ~kChainSoftcap) == kChainToeplitz || kOnlyStreams<kChain>;
    const bool may = kInOrder ? may_stream(b.forward) : runs_on_90a();
    if (may && streamed <= kMostSharedBytes && bytes <= kMostSharedBytes) {
      return launch_query_stream<T, kDim, kChain>(b, space, grid, streamed, stream);
    }
  }
  if constexpr (!kCompact && (kChain & kChainCope) != 0) {
    if (bytes > kMostSharedBytes) {
      return launch_backward_query<T, kDim, kChain, true>(b, space, stream);
    }
  }
  if constexpr (kOnlyStreams<kChain>) {
    return cudaErrorInvalidConfiguration;
  } else {
    return launch(attention_backward_query_kernel<T, kDim, kChain, kSizes.groups, kSizes.stages,
                                                  kSizes.blocks>,
                  grid, kSizes.groups * 128, bytes, stream, b, space);
  }
}

template <int kDim>
cudaError_t run_backward_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                               cudaStream_t stream) {
  return dispatch_chain(b.forward, [&]<class T, int kChain>() {
    return launch_backward_query<T, kDim, kChain, false>(b, space, stream);
  });
}

template <int kDim>
int backward_query_groups(const AttentionParams& p) {
  int groups = 0;
  static_cast<void>(dispatch_chain(p, [&]<class T, int kChain>() {
    if (backward_query_bytes<kDim, kChain, false>(p) <= kMostSharedBytes) {
      groups = backward_query_sizes(kDim, kChain, false).groups;
    } else if (backward_query_bytes<kDim, kChain, true>(p) <= kMostSharedBytes) {
      groups = backward_query_sizes(kDim, kChain, true).groups;
    }
    return cudaSuccess;
  }));
  return groups;
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim)                                                            \
  template cudaError_t run_backward_query<kDim>(const AttentionBackwardParams&,      \
                                                const BackwardSpace&, cudaStream_t); \
  template int backward_query_groups<kDim>(const AttentionParams&);

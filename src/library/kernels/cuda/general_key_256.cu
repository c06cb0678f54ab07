#include "kernels/cuda/device/general_key_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_general_key<256>(const AttentionBackwardParams&, const BackwardSpace&,
                                          cudaStream_t);
template cudaError_t recheck_key<256>(const AttentionBackwardParams&, const BackwardSpace&,
                                      const MarkedBlocks&, cudaStream_t);

}  // namespace posenc::cuda

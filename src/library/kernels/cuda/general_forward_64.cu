#include "kernels/cuda/device/general_forward_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_general_forward<64>(const AttentionParams&, int, cudaStream_t);
template cudaError_t recheck_forward<64>(const AttentionParams&, const MarkedBlocks&, cudaStream_t);

}  // namespace posenc::cuda

#include "kernels/cuda/device/forward_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_forward<128>(const AttentionParams&, cudaStream_t);

}  // namespace posenc::cuda

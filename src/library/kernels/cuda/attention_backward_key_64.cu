#include "kernels/cuda/device/backward_key_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_backward_key<64>(const AttentionBackwardParams&, const BackwardSpace&,
                                          cudaStream_t);

}  // namespace posenc::cuda

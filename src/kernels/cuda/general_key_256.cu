#include "kernels/cuda/device/general_key_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_general_key<256>(const AttentionBackwardParams&, const BackwardSpace&,
                                          cudaStream_t);

}  // namespace posenc::cuda

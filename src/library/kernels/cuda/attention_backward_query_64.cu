#include "kernels/cuda/device/backward_query_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_backward_query<64>(const AttentionBackwardParams&, const BackwardSpace&,
                                            cudaStream_t);
template int backward_query_groups<64>(const AttentionParams&);

}  // namespace posenc::cuda

#include "kernels/cuda/device/general_query_unit.cuh"

namespace posenc::cuda {

template cudaError_t run_general_query<128>(const AttentionBackwardParams&, const BackwardSpace&,
                                            cudaStream_t);
template cudaError_t recheck_query<128>(const AttentionBackwardParams&, const BackwardSpace&,
                                        const MarkedBlocks&, cudaStream_t);

}  // namespace posenc::cuda

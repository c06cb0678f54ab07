#include "kernels/cuda/device/decode_unit.cuh"

namespace posenc::cuda {

template <>
Status launch_decode<__nv_bfloat16>(const DecodeParams& p, Stream stream) {
  return decode_unit::launch<__nv_bfloat16>(p, stream);
}

}  // namespace posenc::cuda

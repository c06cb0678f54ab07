#include "kernels/cuda/device/decode_unit.cuh"

namespace posenc::cuda {

template <>
Status launch_decode<__half>(const DecodeParams& p, Stream stream) {
  return decode_unit::launch<__half>(p, stream);
}

}  // namespace posenc::cuda

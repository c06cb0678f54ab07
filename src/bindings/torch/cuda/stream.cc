#include "torch/cuda/stream.h"

#ifdef POSENC_TORCH_HAS_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace posenc::ops {

cuda::Stream current_stream(const at::Device& device) {
#ifdef POSENC_TORCH_HAS_CUDA
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
#else
  TORCH_CHECK(false, "[posenc] this build's libtorch has no CUDA, so nothing can be on ", device);
#endif
}

}  // namespace posenc::ops

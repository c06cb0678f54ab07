#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/residual_norm.h"

namespace posenc::cuda {
namespace {

constexpr int kWidth = 4;  // neighbouring numbers of a lane
constexpr int kWarps = 8;
constexpr std::int64_t kRowsOfBlock =
    2 * kWarps;  // of the backward, as long as that gives few enough shares
constexpr std::int64_t kMostShares = 512;

std::int64_t shares_of(const ResidualNorm& p) {
  return std::clamp<std::int64_t>((p.rows + kRowsOfBlock - 1) / kRowsOfBlock, 1, kMostShares);
}

__device__ float warp_sum(float x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, distance);
  }
  return x;
}

// Calls f(part, the first of its four columns) for what a lane has of a row: fours that are 128 columns apart.
template <int kParts, class F>
__device__ void each_four(std::int64_t columns, const F& f) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const std::int64_t column = (part * 32 + static_cast<int>(threadIdx.x)) * kWidth;
    if (column < columns) f(part, column);
  }
}

// A lane's numbers of a row, zeros past its end.
template <int kParts>
struct RowPart {
  float at[kParts][kWidth] = {};

  // f(number, its column)
  template <class F>
  __device__ void each(std::int64_t columns, const F& f) {
    each_four<kParts>(columns, [&](int part, std::int64_t column) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) f(at[part][i], column + i);
    });
  }
  // Over all lanes.
  [[nodiscard]] __device__ float sum() const {
    float total = 0.0f;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) total += at[part][i];
    }
    return warp_sum(total);
  }
  template <class T>
  __device__ void add(const T* row, std::int64_t columns) {
    each_four<kParts>(columns, [&](int part, std::int64_t column) {
      const auto four = load_elements<T, kWidth>(row + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) at[part][i] += to_float(four.at[i]);
    });
  }
  template <class T>
  __device__ void store(T* row, std::int64_t columns) const {
    each_four<kParts>(columns, [&](int part, std::int64_t column) {
      Elements<T, kWidth> four;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) four.at[i] = from_float<T>(at[part][i]);
      *reinterpret_cast<Elements<T, kWidth>*>(row + column) = four;
    });
  }
};

template <class T, int kParts>
__global__ void __launch_bounds__(32 * kWarps)
    forward_kernel(const __grid_constant__ ResidualNorm p) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (row >= p.rows) return;
  const std::int64_t first = row * p.columns;
  RowPart<kParts> x;
  x.add(p.x + first, p.columns);
  if (p.branch != nullptr) {
    x.add(static_cast<const T*>(p.branch) + first, p.columns);
    x.store(p.sum + first, p.columns);
  }
  const auto columns = static_cast<float>(p.columns);
  const float mean = x.sum() / columns;
  RowPart<kParts> squares = x;
  squares.each(p.columns,
               [&](float& value, std::int64_t) { value = (value - mean) * (value - mean); });
  const float inverse = rsqrtf(squares.sum() / columns + p.epsilon);
  x.each(p.columns, [&](float& value, std::int64_t c) {
    value = fmaf((value - mean) * inverse, p.weight[c], p.bias[c]);
  });
  x.store(static_cast<T*>(p.y) + first, p.columns);
  if (threadIdx.x != 0) return;
  p.mean[row] = mean;
  p.inverse[row] = inverse;
}

// Over the warps of a block, in their order.
template <int kParts>
__device__ void store_block_sum(const RowPart<kParts>& mine, float* to, std::int64_t columns) {
  __shared__ float parts[kWarps][kParts * 32 * kWidth];
  __syncthreads();
  mine.store(parts[threadIdx.y], kParts * 32 * kWidth);
  __syncthreads();
  for (std::int64_t c = threadIdx.y * 32 + threadIdx.x; c < columns; c += 32 * kWarps) {
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][c];
    to[c] = sum;
  }
}

// The gradients of weight and bias, added up over the rows that a warp has.
template <class T, int kParts>
struct WarpGradients {
  const ResidualNormGradients& g;
  RowPart<kParts> dbias, dweight;

  // Turns d into weight d and x into the normalized x; their products, number by number.
  __device__ RowPart<kParts> normalize(RowPart<kParts>& d, RowPart<kParts>& x, std::int64_t row) {
    const float mean = g.forward.mean[row];
    const float inverse = g.forward.inverse[row];
    RowPart<kParts> products;
    each_four<kParts>(g.forward.columns, [&](int part, std::int64_t column) {
      const auto weight = load_elements<float, kWidth>(g.forward.weight + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        float& dy = d.at[part][i];
        float& normal = x.at[part][i];
        normal = (normal - mean) * inverse;
        dbias.at[part][i] += dy;
        dweight.at[part][i] = fmaf(dy, normal, dweight.at[part][i]);
        dy *= weight.at[i];
        products.at[part][i] = dy * normal;
      }
    });
    return products;
  }

  __device__ void add_row(std::int64_t row) {
    const std::int64_t columns = g.forward.columns;
    const std::int64_t first = row * columns;
    RowPart<kParts> d, x, dsum;
    d.add(static_cast<const T*>(g.dy) + first, columns);
    x.add(g.forward.x + first, columns);
    if (g.dsum != nullptr) dsum.add(g.dsum + first, columns);
    const float along = normalize(d, x, row).sum() / static_cast<float>(columns);
    const float level = d.sum() / static_cast<float>(columns);
    const float inverse = g.forward.inverse[row];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float inner = d.at[part][i] - level - x.at[part][i] * along;
        dsum.at[part][i] = fmaf(inverse, inner, dsum.at[part][i]);
      }
    }
    dsum.store(g.dx + first, columns);
    if (g.dbranch != nullptr) dsum.store(static_cast<T*>(g.dbranch) + first, columns);
  }
};

// partial[share][0: of bias, 1: of weight][column]
template <class T, int kParts>
__global__ void __launch_bounds__(32 * kWarps)
    backward_kernel(const __grid_constant__ ResidualNormGradients g, float* partial) {
  const std::int64_t rows = g.forward.rows;
  const std::int64_t columns = g.forward.columns;
  const std::int64_t share = (rows + gridDim.x - 1) / gridDim.x;
  const std::int64_t end = min(share * (blockIdx.x + 1), rows);
  WarpGradients<T, kParts> warp{g, {}, {}};
  for (std::int64_t row = share * blockIdx.x + threadIdx.y; row < end; row += kWarps) {
    warp.add_row(row);
  }
  float* mine = partial + blockIdx.x * 2 * columns;
  store_block_sum(warp.dbias, mine, columns);
  store_block_sum(warp.dweight, mine + columns, columns);
}

// Calls body<T, kParts>().
template <class Body>
void with_row(const ResidualNorm& p, const Body& body) {
  with_type(p.type, [&]<class T>(T) {
    if (p.columns <= 128) return body.template operator()<T, 1>();
    if (p.columns <= 256) return body.template operator()<T, 2>();
    if (p.columns <= 512) return body.template operator()<T, 4>();
    return body.template operator()<T, 8>();
  });
}

}  // namespace

Status residual_norm(const ResidualNorm& p, Stream stream) noexcept {
  if (p.rows == 0) return {};
  const auto blocks = static_cast<unsigned>((p.rows + kWarps - 1) / kWarps);
  with_row(p, [&]<class T, int kParts>() {
    forward_kernel<T, kParts>
        <<<blocks, dim3(32, kWarps), 0, static_cast<cudaStream_t>(stream)>>>(p);
  });
  return launch_status("residual_norm");
}

std::size_t residual_norm_bytes(const ResidualNorm& p) {
  return static_cast<std::size_t>(shares_of(p) * 2 * p.columns) * sizeof(float);
}

Status residual_norm_backward(const ResidualNormGradients& g, Stream stream) noexcept {
  const std::int64_t shares = shares_of(g.forward);
  auto* partial = static_cast<float*>(g.workspace);
  with_row(g.forward, [&]<class T, int kParts>() {
    backward_kernel<T, kParts>
        <<<static_cast<unsigned>(shares), dim3(32, kWarps), 0, static_cast<cudaStream_t>(stream)>>>(
            g, partial);
  });
  return sum_shares(partial, shares, 2 * g.forward.columns, g.dvectors, stream);
}

}  // namespace posenc::cuda

#include "torch/device/paths.h"

#include "kernels/cuda/decode.h"

namespace posenc::ops {
namespace {

constexpr std::int64_t kMostChannels = 256;

std::string cope_obstacle(const Cope& cope) {
  if (cope.gate_source != Cope::GateSource::kKey) return "cope with gates that are not the scores'";
  if (cope.npos_max > cuda::kTunedPositions) return "cope with a longer table than the kernels keep";
  return "";
}

}  // namespace

std::string cuda_obstacle(const AttentionPlan::State& state, const CudaProblem& problem) {
  if (!state.obstacle.empty()) return state.obstacle;
  if (!problem.half) return "the type is neither bfloat16 nor float16";
  if (problem.head_dim % 8 != 0 || problem.head_dim > kMostChannels) {
    return "head_dim is not a multiple of 8 up to 256";
  }
  if (state.fire) return "fire";
  if (!state.biases.empty() && problem.explicit_positions) return "biases with explicit positions";
  return state.cope ? cope_obstacle(std::get<Cope>(state.spec.encodings[*state.cope])) : "";
}

std::string explain_cuda(const AttentionPlan::State& state, const CudaProblem& problem) {
  const std::string obstacle = cuda_obstacle(state, problem);
  if (!obstacle.empty()) return "composed on cuda, scores as tensors: " + obstacle;
  const auto names = [&](const std::vector<std::size_t>& indices) {
    std::string joined;
    for (const std::size_t i : indices) {
      joined += (joined.empty() ? "" : " + ") + std::string(traits(state.spec.encodings[i]).name);
    }
    return joined;
  };
  std::string text =
      problem.queries <= cuda::kMostDecodeQueries ? "decode on cuda" : "fused on cuda";
  if (!state.rotary.empty()) text += ", " + names(state.rotary) + " in a pass of its own";
  if (!state.biases.empty()) text += ", toeplitz table (" + names(state.biases) + ")";
  if (state.cope) text += ", cope";
  return text;
}

}  // namespace posenc::ops

// Estimates data-parallel training on many GPUs (memory, communication, time and efficiency) from a config and a few
// figures of the machine, without running anything.
//
// With P parameters, n GPUs, R = batch / n rows of T positions per GPU, bandwidth B per GPU and direction:
//
//   weights     4 P bytes, and 2 P more for the rounded copy of bfloat16 training
//   gradients   4 P
//   optimizer   8 P for Adam (two moments), 4 P for SGD with momentum; with ZeRO-1 the n-th part of it
//   activations step_bytes of config/memory.h at R rows; with checkpoints the two
//               tensors that a block starts from, for each block, and one block in full
//   compute     R T (6 P' + 6 L w T) / (share x peak), P' the parameters of products, w the width of all heads;
//               8 and 8 with checkpoints, which repeat the forward pass; or R T / tokens per second
//   wire        ring all-reduce 2 (n - 1) / n x 4 P; with ZeRO-1 also the gathering of weights, (n - 1) / n x 4 P
//   network     wire / B + 2 ceil(log2 n) latencies per bucket of 25 MB
//   exposed     max(one bucket, network of the all-reduce - backward pass), and the gathering, which follows the update
//   efficiency  compute / (compute + exposed)
//
// The backward pass is 2/3 of the compute (3/4 with checkpoints). With accumulation only that of the last part overlaps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/memory.h"
#include "core/value.h"

namespace posenc::config {

// Measured on one H200 in bfloat16 (docs/lab.md): 8 layers, d 512, T 1,024, batch 32 with rope train at 1.74 M tokens/s,
// which is this share of the 989 TFLOP/s that NVIDIA states for dense bfloat16. Larger models have larger shares.
inline constexpr double kMeasuredShare = 0.31;

struct Cluster {
  std::int64_t gpus = 1;
  double network = 50e9;       // bytes per second of one GPU in each direction: 400 Gbit/s
  double network_share = 0.8;  // of it that an all-reduce reaches
  double latency = 10e-6;      // seconds of one hop
  double memory = 141e9;       // bytes of one GPU
  double peak = 989e12;        // operations per second of one GPU
  double share = kMeasuredShare;
  std::optional<double> tokens_per_second;  // of one GPU, measured: in place of share x peak
};

// One way to train: which of the two savings are on.
struct ScaleVariant {
  bool sharded = false;       // the optimizer's state (ZeRO-1)
  bool checkpointed = false;  // blocks
  double memory = 0.0;        // bytes of one GPU
  bool fits = false;
  double wire = 0.0;     // bytes that one GPU sends in a step
  double compute = 0.0;  // seconds of a step, as the rest
  double network = 0.0;
  double exposed = 0.0;  // of the network, not hidden behind the backward pass
  double step = 0.0;
  double efficiency = 0.0;
  double tokens_per_second = 0.0;  // of all GPUs
  double seconds = 0.0;            // of the whole training
};

struct ScalePlan {
  double parameters = 0.0;
  std::int64_t batch = 0;   // rows of a step
  std::int64_t length = 0;  // positions of a row
  double flops_per_token = 0.0;
  double weights = 0.0;  // bytes of one GPU, as the next
  double rounded_weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double sharded_optimizer = 0.0;
  double activations = 0.0;
  double checkpointed_activations = 0.0;
  std::array<ScaleVariant, 4> variants;  // plain, sharded, checkpointed, both
};

// Of the stage with the most positions per step. An Error where the batch cannot be divided among the GPUs.
ScalePlan plan_scale(const LabConfig& config, const DataShape& data, const Cluster& cluster);

Value scale_value(const ScalePlan& plan, const Cluster& cluster);

// "400Gbit" or "50GB": bytes, of a bandwidth per second. An Error names the option where the text is neither.
double parse_amount(const std::string& text, const std::string& option);
// "141GB", in bytes alone.
double parse_bytes(const std::string& text, const std::string& option);

}  // namespace posenc::config

// How a model is trained and evaluated, as configs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/field_use.h"
#include "posenc/core/fields.h"

namespace posenc::config {

enum class OptimizerKind { kAdamW, kAdam, kSgd };
constexpr std::array<std::string_view, 3> enum_names(OptimizerKind /*tag*/) {
  return {"adamw", "adam", "sgd"};
}

enum class RateSchedule { kCosine, kLinear, kConstant };
constexpr std::array<std::string_view, 3> enum_names(RateSchedule /*tag*/) {
  return {"cosine", "linear", "constant"};
}

// Positions of training samples: 0, 1, ...; shifted together by a random offset; or a sorted random
// subset of a longer range (Ruoss et al. 2023). The last two read position_range.
enum class PositionPolicy { kAsIs, kShift, kSubset };
constexpr std::array<std::string_view, 3> enum_names(PositionPolicy /*tag*/) {
  return {"as_is", "shift", "subset"};
}

// Of matrix products on a GPU: float32 throughout; float32 with operands rounded to 10 bits after the point (tf32);
// operands and activations in bfloat16. Weights, their sums and the optimizer are float32 in all three.
enum class TrainPrecision { kFloat32, kTf32, kBfloat16 };
constexpr std::array<std::string_view, 3> enum_names(TrainPrecision /*tag*/) {
  return {"float32", "tf32", "bfloat16"};
}

// How the gradients of several processes are added: in the order that the transport has (fast), or as a fixed tree over
// train.chunks parts of the batch, whose bits do not depend on the number of processes.
enum class Reduction { kFast, kDeterministic };
constexpr std::array<std::string_view, 2> enum_names(Reduction /*tag*/) {
  return {"fast", "deterministic"};
}

enum class Device { kCpu, kCuda };
constexpr std::array<std::string_view, 2> enum_names(Device /*tag*/) { return {"cpu", "cuda"}; }

// A part of the training with its own length and batch size.
struct Stage {
  std::int64_t length = 0;
  std::int64_t batch = 0;
  std::int64_t steps = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("length", self.length,
          FieldRule{.doc = "positions of a sample", .min = 2, .max = 1e7, .required = true});
    visit("batch", self.batch,
          FieldRule{.doc = "samples of a step", .min = 1, .max = 1e6, .required = true});
    visit("steps", self.steps, FieldRule{.doc = "steps", .min = 1, .max = 1e9, .required = true});
  }
  bool operator==(const Stage&) const = default;
};

// One condition of an evaluation.
struct EvalCondition {
  std::string axis;
  std::int64_t length = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("axis", self.axis, FieldRule{.doc = "of the task", .required = true});
    visit("length", self.length,
          FieldRule{
              .doc = "positions of a row; 0: what the axis has by itself", .min = 0, .max = 1e8});
  }
  bool operator==(const EvalCondition&) const = default;
};

struct TrainConfig {
  std::int64_t length = 64;
  std::int64_t batch = 64;
  std::int64_t steps = 1000;
  std::vector<Stage> stages;
  std::string init_from;
  std::int64_t dataset = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double lr = 1e-3;
  double encoding_lr = 1.0;
  double min_lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0.0;
  RateSchedule schedule = RateSchedule::kCosine;
  double warmup = 0.1;
  double clip = 1.0;
  std::int64_t accumulate = 1;
  TrainPrecision precision = TrainPrecision::kFloat32;
  Device device = Device::kCpu;
  bool onednn = false;
  PositionPolicy positions = PositionPolicy::kAsIs;
  std::int64_t position_range = 0;
  double stop_at = 0.0;
  std::int64_t patience = 0;
  double explosion = 10.0;
  std::int64_t log_every = 10;
  std::int64_t eval_every = 0;
  std::int64_t eval_samples = 256;
  std::vector<EvalCondition> eval_conditions;
  std::int64_t checkpoint_every = 0;
  std::int64_t keep_last = 2;
  Reduction reduction = Reduction::kFast;
  std::int64_t chunks = 8;
  bool shard_optimizer = false;
  bool checkpoint_blocks = false;
  double timeout = 600.0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit_size(self, visit);
    visit_optimizer(self, visit);
    visit_positions(self, visit);
    visit_watch(self, visit);
    visit_parallel(self, visit);
  }
  bool operator==(const TrainConfig&) const = default;

 private:
  static constexpr std::string_view kOfAdam = "optimizer=adamw,adam";

  template <class Self, class Visitor>
  static void visit_size(Self& self, Visitor& visit) {
    visit("length", self.length,
          ReadIf{{.doc = "positions of a sample", .min = 2, .max = 1e7}, "stages=[]"});
    visit("batch", self.batch,
          ReadIf{{.doc = "samples of a step", .min = 1, .max = 1e6}, "stages=[]"});
    visit("steps", self.steps,
          ReadIf{{.doc = "steps of the optimiser", .min = 1, .max = 1e9}, "stages=[]"});
    visit("stages", self.stages,
          FieldRule{.doc = "a curriculum: lengths and batches one after another, in place of "
                           "length, batch and steps"});
    visit("init_from", self.init_from,
          FieldRule{.doc = "take the initial weights from a run, a safetensors file or a Hugging "
                           "Face folder; empty: draw them"});
    visit(
        "dataset", self.dataset,
        FieldRule{
            .doc = "number of fixed samples, reshuffled in each epoch; 0: no sample is drawn twice",
            .min = 0,
            .max = 1e12});
  }
  template <class Self, class Visitor>
  static void visit_optimizer(Self& self, Visitor& visit) {
    visit("optimizer", self.optimizer, FieldRule{.doc = "update rule"});
    visit("lr", self.lr, FieldRule{.doc = "highest rate", .min = 0, .max = 100, .open_min = true});
    visit("encoding_lr", self.encoding_lr,
          FieldRule{.doc = "times the rate, for parameters of encodings", .min = 0, .max = 1e6});
    visit("min_lr", self.min_lr,
          ReadIf{{.doc = "rate at the end", .min = 0, .max = 100}, "schedule=cosine,linear"});
    visit("beta1", self.beta1,
          ReadIf{{.doc = "of the gradient's mean", .min = 0, .max = 0.9999}, kOfAdam});
    visit("beta2", self.beta2,
          ReadIf{{.doc = "of the gradient's square", .min = 0, .max = 0.999999}, kOfAdam});
    visit(
        "epsilon", self.epsilon,
        ReadIf{{.doc = "added to the root of it", .min = 0, .max = 1, .open_min = true}, kOfAdam});
    visit("weight_decay", self.weight_decay,
          FieldRule{.doc = "of matrices; vectors and encodings have none", .min = 0, .max = 10});
    visit("momentum", self.momentum,
          ReadIf{{.doc = "of sgd", .min = 0, .max = 0.9999}, "optimizer=sgd"});
    visit("schedule", self.schedule, FieldRule{.doc = "of the rate, after the warm-up"});
    visit("warmup", self.warmup,
          FieldRule{.doc = "steps, or below 1 their share of all", .min = 0, .max = 1e9});
    visit("clip", self.clip,
          FieldRule{.doc = "longest gradient; 0: as it is", .min = 0, .max = 1e9});
    visit("accumulate", self.accumulate,
          FieldRule{.doc = "parts that a step's batch is computed in", .min = 1, .max = 1e6});
    visit("precision", self.precision,
          FieldRule{.doc = "of products; tf32 and bfloat16 are for cuda"});
    visit("device", self.device, FieldRule{.doc = "where"});
    visit(
        "onednn", self.onednn,
        FieldRule{.doc = "oneDNN for libtorch's products on a CPU: other last bits, and faster or "
                         "slower depending on the CPU"});
  }
  template <class Self, class Visitor>
  static void visit_positions(Self& self, Visitor& visit) {
    visit("positions", self.positions, FieldRule{.doc = "of training samples"});
    visit("position_range", self.position_range,
          ReadIf{{.doc = "what shift and subset draw from", .min = 0, .max = 1e9},
                 "positions=shift,subset"});
  }
  template <class Self, class Visitor>
  static void visit_watch(Self& self, Visitor& visit) {
    visit("stop_at", self.stop_at,
          FieldRule{.doc = "accuracy at which training ends early; 0: never", .min = 0, .max = 1});
    visit("patience", self.patience,
          FieldRule{.doc = "evaluations without a better one before training ends; 0: all",
                    .min = 0,
                    .max = 1e9});
    visit(
        "explosion", self.explosion,
        FieldRule{.doc = "times the first loss that ends training as diverged; 0: any", .min = 0});
    visit("log_every", self.log_every, FieldRule{.doc = "steps per row", .min = 1, .max = 1e9});
    visit("eval_every", self.eval_every,
          FieldRule{.doc = "steps per evaluation in domain; 0: at the end", .min = 0, .max = 1e9});
    visit("eval_samples", self.eval_samples,
          FieldRule{.doc = "samples of it", .min = 1, .max = 1e9});
    visit("eval_conditions", self.eval_conditions,
          FieldRule{.doc = "further conditions to evaluate then, for curves; they choose nothing"});
    visit("checkpoint_every", self.checkpoint_every,
          FieldRule{.doc = "steps per checkpoint; 0: at the end", .min = 0, .max = 1e9});
    visit("keep_last", self.keep_last,
          FieldRule{.doc = "checkpoints kept in addition to the best", .min = 1, .max = 1e6});
  }
  template <class Self, class Visitor>
  static void visit_parallel(Self& self, Visitor& visit) {
    visit(
        "reduction", self.reduction,
        FieldRule{.doc = "how gradients are added; deterministic: the same bits for any number of "
                         "processes on a CPU"});
    visit("chunks", self.chunks,
          ReadIf{{.doc = "parts of a batch whose gradients are added as a tree, a power of two",
                  .min = 1,
                  .max = 65536},
                 "reduction=deterministic"});
    visit("shard_optimizer", self.shard_optimizer,
          FieldRule{.doc = "each process keeps a part of the optimizer's state (ZeRO-1)"});
    visit("checkpoint_blocks", self.checkpoint_blocks,
          FieldRule{.doc = "compute each block again in the backward pass instead of keeping its "
                           "activations"});
    visit("timeout", self.timeout,
          FieldRule{.doc = "seconds after which processes that miss one of them give up",
                    .min = 1,
                    .max = 1e6});
  }
};

// The stages, or the one that length, batch and steps make.
std::vector<Stage> stages(const TrainConfig& train);
std::int64_t total_steps(const TrainConfig& train);
// What factors of length are counted from: the longest length trained on.
std::int64_t train_length(const TrainConfig& train);

// RoPE schedules that an evaluation can stretch to a length (lab/schedules.h).
inline constexpr std::array<std::string_view, 5> kStretchSchedules = {"linear", "ntk", "dynamic",
                                                                      "yarn", "longrope"};

struct EvalConfig {
  std::vector<EvalCondition> conditions;
  std::vector<std::int64_t> factors = {1, 2, 4, 8};
  std::vector<std::int64_t> lengths = {0};
  std::vector<std::string> axes = {"all"};
  std::vector<std::string> schedules = {"none"};
  std::int64_t samples = 512;
  std::int64_t free_running = 64;
  std::int64_t seed = 1000003;
  double threshold = 0.9;
  std::int64_t tokens_per_batch = 32768;
  std::int64_t attention_samples = 1;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("conditions", self.conditions,
          FieldRule{.doc = "axes and lengths one by one, in place of factors, lengths and axes"});
    visit("factors", self.factors,
          FieldRule{.doc = "lengths, as multiples of the axis's own length", .min = 1, .max = 1e6});
    visit("lengths", self.lengths,
          FieldRule{.doc = "lengths in positions, in place of factors; 0: by factors",
                    .min = 0,
                    .max = 1e8});
    visit("axes", self.axes, FieldRule{.doc = "of the task; all: every one"});
    visit("schedules", self.schedules,
          FieldRule{.doc = "RoPE schedules that longer rows are also evaluated under, each "
                           "stretched to the length; none: no other"});
    visit("samples", self.samples,
          FieldRule{.doc = "samples per axis and length", .min = 1, .max = 1e9});
    visit("free_running", self.free_running,
          FieldRule{.doc = "of them, those whose answers of several tokens are also generated",
                    .min = 0,
                    .max = 1e9});
    visit("seed", self.seed, FieldRule{.doc = "of the samples", .min = 0, .max = 9e15});
    visit("threshold", self.threshold,
          FieldRule{.doc = "accuracy that the effective length asks for", .min = 0, .max = 1});
    visit("tokens_per_batch", self.tokens_per_batch,
          FieldRule{.doc = "how much is evaluated at once", .min = 1, .max = 1e9});
    visit("attention_samples", self.attention_samples,
          FieldRule{.doc = "samples in domain whose attention is kept", .min = 0, .max = 1000});
  }
  bool operator==(const EvalConfig&) const = default;
};

// eval.schedules without the word none.
std::vector<std::string> stretch_schedules(const EvalConfig& eval);

// Throws an Error signed `scope` where fields contradict each other.
void validate(const TrainConfig& train, const std::string& scope);
void validate(const EvalConfig& eval, const std::string& scope);

}  // namespace posenc::config

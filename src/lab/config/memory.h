// Estimates the memory of a run from its config, before anything is allocated.
//
// The figures count the tensors that are alive at the peak, so they are a little below what a process
// takes. tests/train/memory_test.cc compares them with the peak of real runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/load.h"

namespace posenc::config {

// What the estimate must know of the task.
struct DataShape {
  std::int64_t vocabulary = 0;
  double scored_share = 1.0;  // of the positions of a row
};

// Numbers of all parameters, those of the encodings included.
double parameter_count(const ModelConfig& model, std::int64_t vocabulary);

// Bytes of weights, gradients and the optimizer's state, in one of so many processes.
double state_bytes(const LabConfig& config, const DataShape& data, std::int64_t processes = 1);
// Bytes of the activations of one part of a training step, on top of the state.
double step_bytes(const LabConfig& config, const DataShape& data, const Stage& stage);
// Bytes of evaluating one batch at a length, and of its chance level.
double evaluation_bytes(const LabConfig& config, const DataShape& data, std::int64_t length);

enum class Work { kTraining, kEvaluation };

// Throws an Error of kind kResource that names the field to change and both figures where the work does not
// fit into the available bytes. `lengths` are those of the evaluation, none: it is left out. The bytes are those of one of
// so many processes.
void require_memory(const LabConfig& config, const DataShape& data,
                    std::span<const std::int64_t> lengths, double available, Work work,
                    std::int64_t processes = 1);

}  // namespace posenc::config

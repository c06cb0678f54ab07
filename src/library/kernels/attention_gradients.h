// Gradients to which several blocks of queries contribute: one buffer per task, summed in the order of tasks.
#pragma once

#include <vector>

#include "core/aligned.h"
#include "kernels/pair_terms.h"

namespace posenc {

class TaskGradients {
 public:
  TaskGradients(const AttentionSetup& setup, const Segment& segment, std::int64_t kv_head);

  // Where the kernel adds what a block of queries of this head asks for.
  cpu::BackwardOutputs outputs(const AttentionSetup& setup, std::int64_t head);
  // Folds the row sums of the block just done into the gradients of FIRE's row scale.
  void finish_rows(const AttentionSetup& setup, const cpu::QueryBlock& block);
  // Adds what the sinks of a head get from a row: `delta` is SUM over channels of grad_out * out.
  void add_sinks(const AttentionSetup& setup, std::int64_t head, float lse, float delta);
  // Adds the gradient of a head's trained temperatures: `turned` is the query after the rotations, `gradient` the gradient
  // of the row that scores are made of.
  void add_temperatures(const AttentionSetup& setup, std::int64_t head, std::int64_t query,
                        const float* turned, const float* gradient);
  [[nodiscard]] bool trains_temperatures() const { return !dtemperatures.empty(); }
  // Adds what RelativeQuery's vectors of a head get from a query: the gradients of the product with keys and of the one
  // with the table, before they are added up.
  void add_vectors(const AttentionSetup& setup, std::int64_t head, const float* of_content,
                   const float* of_position);
  [[nodiscard]] bool trains_vectors() const { return !dvectors.empty(); }
  // Adds what the terms of pairs get from a block: `dpairs` is [keys][kQueryBlock].
  void add_pairs(const AttentionSetup& setup, const PairBlock& block, const AlignedFloats& dpairs);
  // One per rotation, null where frequencies are constants.
  std::vector<double*>& frequencies() { return frequency_pointers_; }

  std::int64_t kv_head;
  Segment segment;
  std::size_t segment_index;  // among those of the setup
  AlignedFloats dk;           // [keys][padded_dim]
  AlignedFloats dv;           // [keys][padded_value_dim]
  AlignedFloats dgate_keys;
  AlignedFloats dchain_keys;   // of a chain: as dk, of the keys of its tiles
  AlignedFloats dchain_tiles;  // of its matrices
  AlignedFloats dsteps;
  AlignedFloats dfactors;
  std::vector<double> dtoken_sums;   // [heads of the group][keys]
  std::vector<double> dtoken_rows;   // [heads of the group][queries] of a slice; else empty
  AlignedFloats dtoeplitz;           // [heads of the group][span]
  std::vector<double> dfire_slopes;  // [heads of the group][segments]
  std::vector<double> dfire_intercepts;
  std::vector<double> dfire_rows;  // c and the threshold, summed over rows
  AlignedFloats dfire_psi;         // of the block at hand
  AlignedFloats dfire_scale;
  std::vector<double> dsinks;         // [sinks][heads]
  std::vector<double> dtemperatures;  // [temperatures][heads]; empty where none trains
  std::vector<double> dvectors;       // [2][heads][dim]: content and position; empty without them
  std::vector<PairGradients> pairs;
  AlignedFloats
      dk_plain;  // [keys][padded_dim], of keys before site 2, where a pair term reads them
  AlignedFloats drelative;  // [channels][stride], or of every head of the group
  AlignedFloats dcope;      // [dim][stride], or [heads of the group][stride]
  std::vector<std::vector<double>> dfrequencies;  // [groups x pairs] per site-2 encoding

 private:
  std::vector<double*> frequency_pointers_;
};

// Sums the tasks of each key head, rotates gradients of keys back, and writes dk, dv and dinputs.
void write_key_gradients(const AttentionBackwardCall& call, const AttentionSetup& setup,
                         std::size_t splits, std::vector<TaskGradients>& tasks);
// Adds the gradients of a slice's sums, once the tasks of each key head are summed.
void add_slice_sums(const AttentionSetup& setup, std::size_t splits,
                    const std::vector<TaskGradients>& tasks, const SliceGradients& to);

// Each encoding's own map from table and frequency gradients to its parameters.
void sum_parameter_gradients(const AttentionSetup& setup, const std::vector<TaskGradients>& tasks,
                             std::vector<Parameters>& gradients);

}  // namespace posenc

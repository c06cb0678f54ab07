// The two backward scans of linear attention over the chunks of a head.
#pragma once

#include <vector>

#include "core/aligned.h"
#include "kernels/linear_attention_rows.h"

namespace posenc {

// Gradients of trained frequencies: one set of buffers per task, summed in the order of the tasks.
class FrequencyGradients {
 public:
  FrequencyGradients(const LinearSetup& setup, std::size_t tasks);
  // Per site-2 encoding groups x pairs entries, null where frequencies are constants.
  [[nodiscard]] const std::vector<double*>& of_task(std::size_t task) const {
    return pointers_[task];
  }
  // dalpha[p] = SUM over groups of inv_freq * dinv_freq; every other parameter gets 0.
  void write(const LinearSetup& setup, std::vector<Parameters>& gradients) const;

 private:
  std::vector<std::vector<double>> buffers_;  // per encoding: [tasks][groups x pairs]
  std::vector<std::vector<double*>> pointers_;
};

// What one thread works with.
class LinearBackward {
 public:
  LinearBackward(const LinearAttentionBackwardCall& call, const LinearSetup& setup);

  // dq of a query head: from the first key to the last.
  void run_queries(const Segment& s, std::int64_t head, const std::vector<double*>& dfrequencies);
  // dk and dv of a key head, over its group of query heads: from the last query to the first.
  void run_keys(const Segment& s, std::int64_t kv_head, const std::vector<double*>& dfrequencies);

 private:
  // Sums over queries for one query head: g q'^T, q' g^T and e times the denominator's rows.
  struct QuerySums {
    AlignedFloats for_keys;
    AlignedFloats for_values;
    AlignedFloats for_sums;
  };

  void read_keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk);
  void add_keys(const PlaceChunk& chunk);
  void write_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                     const std::vector<double*>& dfrequencies);
  void read_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk);
  void read_outputs(const Segment& s, std::int64_t head, const PlaceChunk& chunk);
  void sum_queries(const PlaceChunk& chunk, QuerySums& sums);
  void add_queries(const PlaceChunk& chunk, QuerySums& sums);
  void add_key_gradients(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                         const QuerySums& sums, const std::vector<double*>& dfrequencies);
  void write_keys(const Segment& s, std::int64_t kv_head, const PlaceChunk& chunk);

  const LinearAttentionBackwardCall& call_;
  const LinearSetup& setup_;
  std::size_t capacity_;
  std::size_t stride_;          // of rows of channels
  cpu::ScanShape to_features_;  // dim to features, for dq' and dk'
  cpu::ScanShape to_values_;    // features to dim, for dv
  TokenReader reader_;
  FeatureRows queries_;
  FeatureRows keys_;
  cpu::ScanScratch scratch_;
  AlignedFloats values_;
  AlignedFloats g_;
  AlignedFloats e_;
  AlignedFloats row_;       // of the saved output
  AlignedFloats running_;   // sums of the denominator's rows
  AlignedFloats dfeature_;  // dq' or dk'
  AlignedFloats dvalue_;
  AlignedFloats dk_;  // over the heads of a group
  AlignedFloats dv_;
  AlignedFloats key_outer_;  // SUM_j v_j k'_j^T
  AlignedFloats key_sums_;
  std::vector<QuerySums> query_sums_;  // per head of a group
};

}  // namespace posenc

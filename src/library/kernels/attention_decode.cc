// Decoding: a few queries against a cache of any length. The cache is read once, in its storage type and
// split over threads along the keys; a row of scores per query is all that is kept.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/thread_pool.h"
#include "kernels/attention_cache.h"
#include "kernels/attention_chain.h"
#include "kernels/attention_reference.h"
#include "kernels/cpu/decode_simd.h"
#include "kernels/decode_row.h"
#include "kernels/paged_cache.h"
#include "kernels/path_trace.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr std::int64_t kChunk = kDecodeChunk;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The queries that read the same key head of a segment: heads of its group times tokens.
struct Group {
  const Segment* segment;
  std::int64_t kv_head;
  std::size_t first_row;  // of all rows of the call
  std::size_t rows;
};

class Decoder {
 public:
  explicit Decoder(const AttentionSetup& setup) : setup_(setup) {
    const AttentionPlan::State& state = *setup.state;
    per_head_ = state.shape.heads / state.kv_heads;
    std::size_t rows = 0;
    for (const Segment& s : setup.segments) {
      keys_ = std::max(keys_, static_cast<std::size_t>(s.keys));
      for (std::int64_t h = 0; h < state.kv_heads; ++h) {
        groups_.push_back({&s, h, rows, static_cast<std::size_t>(per_head_ * s.queries)});
        rows += groups_.back().rows;
      }
    }
    chunks_ = (static_cast<std::int64_t>(keys_) + kChunk - 1) / kChunk;
    queries_.resize(rows * setup.padded_dim);
    plain_.resize(setup.reads_plain() ? queries_.size() : 0);
    scores_.resize(rows * keys_);
    gates_.resize(setup.cope() != nullptr ? scores_.size() : 0);
    partial_.assign(static_cast<std::size_t>(chunks_) * rows * setup.padded_value_dim, 0.0f);
    softmax_.resize(rows);
    rows_ = rows;
    for (int t = 0; t < num_threads(); ++t) turners_.emplace_back(setup);
    key_rows_.assign(turners_.size(),
                     AlignedFloats(std::max(setup.padded_dim, setup.padded_value_dim)));
    step_rows_ = key_rows_;
    const bool paged = setup.call->block_table.given();
    row_offsets_.assign(turners_.size(), RowOffsets(paged ? kChunk + cpu::kRowsAhead : 0));
    tables_.assign(turners_.size(), AlignedFloats(setup.cope_stride));
    products_.assign(turners_.size(), AlignedFloats(setup.relative_form.stride));
    relative_.resize(rows * setup.relative_form.channel_stride);
  }

  void run() {
    read_all_queries();
    for_each_chunk(
        [this](const Group& g, std::int64_t chunk, int worker) { score(g, chunk, worker); });
    parallel_for(static_cast<std::int64_t>(rows_), [this](std::int64_t row, int worker) {
      finish_row(static_cast<std::size_t>(row), worker);
    });
    for_each_chunk(
        [this](const Group& g, std::int64_t chunk, int worker) { weigh(g, chunk, worker); });
    write_all();
  }

 private:
  // Heads in the inner loop where they are near each other: their rows share pages of memory.
  template <class Body>
  void for_each_chunk(const Body& body) {
    const AttentionCall& call = *setup_.call;
    const std::int64_t heads = setup_.state->kv_heads;
    const bool near = call.block_table.given() || call.k.stride[1] < call.k.stride[2];
    parallel_for(std::ssize(groups_) * chunks_, [&](std::int64_t task, int worker) {
      const std::int64_t segment = task / heads / chunks_;
      const std::int64_t of_segment = task % (heads * chunks_);
      const std::int64_t head = near ? of_segment % heads : of_segment / chunks_;
      const std::int64_t chunk = near ? of_segment / heads : of_segment % chunks_;
      const Group& g = groups_[segment * heads + head];
      if (chunk * kChunk < g.segment->keys) body(g, chunk, worker);
    });
  }

  // Row r of a group: which head and token.
  [[nodiscard]] std::int64_t head_of(const Group& g, std::size_t r) const {
    return g.kv_head * per_head_ + static_cast<std::int64_t>(r) / g.segment->queries;
  }
  [[nodiscard]] std::int64_t query_of(const Group& g, std::size_t r) const {
    return static_cast<std::int64_t>(r) % g.segment->queries;
  }

  void read_all_queries() {
    for (const Group& g : groups_) {
      for (std::size_t r = 0; r < g.rows; ++r) {
        float* row = queries_.data() + (g.first_row + r) * setup_.padded_dim;
        const std::int64_t token = g.segment->first_query + query_of(g, r);
        read_row(setup_.call->q, g.segment->batch, head_of(g, r), token, setup_.padded_dim, row);
        if (!plain_.empty()) {
          std::copy_n(row, setup_.padded_dim,
                      plain_.data() + (g.first_row + r) * setup_.padded_dim);
        }
        turners_[0].forward(Role::kQuery, head_of(g, r), setup_.state->shape.heads,
                            g.segment->batch, token, row);
        const float scale = setup_.scale_of(g.segment->batch, head_of(g, r), token);
        for (std::size_t c = 0; c < setup_.dim; ++c) row[c] *= scale;
        read_relative(g, r);
      }
    }
  }

  // What RelativeQuery's table is multiplied with.
  void read_relative(const Group& g, std::size_t r) {
    const RelativeQuery* config = setup_.relative_query();
    if (config == nullptr) return;
    const std::size_t width = setup_.relative_form.channel_stride;
    float* to = relative_.data() + (g.first_row + r) * width;
    if (!config->reads_input()) {
      std::copy_n(plain_.data() + (g.first_row + r) * setup_.padded_dim, width, to);
      return;
    }
    const std::int64_t place = g.segment->place_offset() + query_of(g, r);
    if (place < 0) return;  // before the first key: zeros
    const AttentionPlan::State& state = *setup_.state;
    read_key_row(setup_.call->block_table,
                 setup_.call->inputs[first_input(state.inputs, *state.relative_query)],
                 g.segment->batch, head_of(g, r), g.segment->first_key + place, width, to);
  }

  // Valid until the worker asks for another chunk.
  cpu::CacheRows cache(const ConstTensorView& x, const Group& g, std::int64_t chunk, int worker) {
    const BlockTable& table = setup_.call->block_table;
    const std::int64_t batch = g.segment->batch;
    const std::int64_t key = g.segment->first_key + chunk * kChunk;
    const std::int64_t left = g.segment->keys - chunk * kChunk;
    const bool paged = table.given();
    return {
        x.dtype,
        static_cast<const std::byte*>(x.data) +
            (paged ? x.row_offset(0, g.kv_head, 0) : x.row_offset(batch, g.kv_head, key)),
        static_cast<std::ptrdiff_t>(x.stride[2]) * static_cast<std::ptrdiff_t>(dtype_size(x.dtype)),
        static_cast<std::size_t>(std::min(kChunk, left)),
        static_cast<std::size_t>(x.channels()),
        paged ? row_offsets_[worker].find(table, x, batch, key, left) : nullptr};
  }

  void score(const Group& g, std::int64_t chunk, int worker) {
    const cpu::CacheRows keys = cache(setup_.call->k, g, chunk, worker);
    float* scores = scores_.data() + g.first_row * keys_ + static_cast<std::size_t>(chunk * kChunk);
    const float* queries = queries_.data() + g.first_row * setup_.padded_dim;
    if (setup_.state->chain) {
      // The steps of a query follow each other: its row is scored in finish_row.
    } else if (setup_.tables.empty() || setup_.call->keys_are_turned) {
      cpu::dot_rows(keys, queries, setup_.padded_dim, g.rows, scores, keys_);
    } else {
      score_turned(g, chunk, keys.count, queries, scores, worker);
    }
    if (!setup_.state->chain) scale_rows(setup_.call->k, setup_.call->k_scales, g, chunk, scores);
    if (gates_.empty() || !has_gate_vectors(*setup_.cope())) return;
    float* gates = gates_.data() + g.first_row * keys_ + static_cast<std::size_t>(chunk * kChunk);
    cpu::dot_rows(cache(setup_.gate_vectors(), g, chunk, worker),
                  plain_.data() + g.first_row * setup_.padded_dim, setup_.padded_dim, g.rows, gates,
                  keys_);
    if (setup_.cope()->gate_source == Cope::GateSource::kValue) {
      scale_rows(setup_.call->v, setup_.call->v_scales, g, chunk, gates);
    }
  }

  // Numbers [rows of the group][keys_] of a chunk, times the scales of an int8 cache.
  void scale_rows(const ConstTensorView& x, const ConstTensorView& scales, const Group& g,
                  std::int64_t chunk, float* numbers) const {
    const RowScales of_rows = scales_of(*setup_.call, x, scales, g.segment->batch, g.kv_head,
                                        g.segment->first_key + chunk * kChunk);
    const std::int64_t count = std::min(kChunk, g.segment->keys - chunk * kChunk);
    for (std::size_t r = 0; r < g.rows && of_rows; ++r) {
      of_rows.apply(numbers + r * keys_, static_cast<std::size_t>(count));
    }
  }

  // A cache of unrotated keys: each is rotated when it is read.
  void score_turned(const Group& g, std::int64_t chunk, std::size_t count, const float* queries,
                    float* scores, int worker) {
    AlignedFloats& row = key_rows_[worker];
    for (std::size_t j = 0; j < count; ++j) {
      const std::int64_t key = g.segment->first_key + chunk * kChunk + static_cast<std::int64_t>(j);
      read_key_row(setup_.call->block_table, setup_.call->k, g.segment->batch, g.kv_head, key,
                   setup_.padded_dim, row.data());
      turners_[worker].forward(Role::kKey, g.kv_head, setup_.state->kv_heads, g.segment->batch, key,
                               row.data());
      cpu::dot_rows(
          {DType::kFloat32, reinterpret_cast<const std::byte*>(row.data()), 0, 1, setup_.dim},
          queries, setup_.padded_dim, g.rows, scores + j, keys_);
    }
  }

  // Biases, CoPE, masks and softmax of one query.
  void finish_row(std::size_t row, int worker) {
    const auto after = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const Group& g) { return row < g.first_row + g.rows; });
    const Group& g = *after;
    const std::size_t r = row - g.first_row;
    const cpu::HeadProblem p = setup_.problem(*g.segment, head_of(g, r));
    const std::int64_t place = p.place_offset + query_of(g, r);
    const std::int64_t first = std::clamp<std::int64_t>(place - p.window_left, 0, g.segment->keys);
    const std::int64_t end =
        std::clamp<std::int64_t>(place + p.window_right + 1, first, g.segment->keys);
    float* scores = scores_.data() + row * keys_;
    std::fill(scores, scores + first, -kInfinity);
    std::fill(scores + end, scores + g.segment->keys, -kInfinity);
    if (setup_.state->chain && first < end) {
      chain_scores(setup_, *g.segment, g.kv_head, place, first,
                   {queries_.data() + row * setup_.padded_dim, key_rows_[worker].data(),
                    step_rows_[worker].data()},
                   scores);
      if (const RowScales of_keys =
              scales_of(*setup_.call, setup_.call->k, setup_.call->k_scales, g.segment->batch,
                        g.kv_head, g.segment->first_key + first)) {
        of_keys.apply(scores + first, static_cast<std::size_t>(end - first));
      }
      std::fill(scores + end, scores + g.segment->keys, -kInfinity);
    }
    if (p.cope.npos > 0) read_gates(p, row, place, first, end, scores);
    if (p.toeplitz != nullptr) {
      for (std::int64_t m = first; m < end; ++m) scores[m] += p.toeplitz[place - m];
    }
    if (p.fire.segments > 0) decode::add_fire(p, place, first, end, scores);
    if (p.cope.npos > 0) add_cope(p, row, first, end, worker, scores);
    if (p.relative.channels > 0) {
      const float* u = relative_.data() + row * p.relative.channel_stride;
      decode::add_relative(p, u, place, first, end, products_[worker], scores);
    }
    for (std::int64_t m = first; p.token_key != nullptr && m < end; ++m) {
      scores[m] += static_cast<float>(p.token_sum(place) - p.token_key[m]);
    }
    for (std::int64_t m = first; p.softcap > 0.0f && m < end; ++m) {
      scores[m] = p.softcap * std::tanh(scores[m] / p.softcap);
    }
    for (std::int64_t m = first; p.key_mask != nullptr && m < end; ++m) {
      if (p.key_mask[m] == 0) scores[m] = -kInfinity;
    }
    if (p.breaks_sticks) {
      softmax_[row] = decode::break_stick(p, place, first, end, scores);
      if (p.dropout.active()) decode::drop(p, query_of(g, r), first, end, scores);
      return scale_weights(p, g, first, end, scores);
    }
    softmax_[row] = cpu::softmax_row(scores, static_cast<std::size_t>(g.segment->keys));
    if (softmax_[row].sum == 0.0f && decode::sees_any(p, place, first, end))
      softmax_[row].sum = kNaN;
    if (p.dropout.active()) decode::drop(p, query_of(g, r), first, end, scores);
    scale_weights(p, g, first, end, scores);
  }

  // Weights times the scales of int8 values. Hidden keys keep a weight of 0, whatever their scale is.
  void scale_weights(const cpu::HeadProblem& p, const Group& g, std::int64_t first,
                     std::int64_t end, float* weights) const {
    const ConstTensorView& v = setup_.call->v;
    if (v.dtype != DType::kInt8) return;
    scales_of(*setup_.call, v, setup_.call->v_scales, g.segment->batch, g.kv_head,
              g.segment->first_key + first)
        .apply(weights + first, static_cast<std::size_t>(end - first));
    for (std::int64_t m = first; p.key_mask != nullptr && m < end; ++m) {
      if (p.key_mask[m] == 0) weights[m] = 0.0f;
    }
  }

  // Gates of a row from raw scores or from the products with gate keys.
  void read_gates(const cpu::HeadProblem& p, std::size_t row, std::int64_t place,
                  std::int64_t first, std::int64_t end, const float* scores) {
    float* gates = gates_.data() + row * keys_;
    for (std::int64_t m = first; m < end; ++m) {
      float logit = gates_have_products() ? gates[m] * p.cope.gate_scale : scores[m];
      if (p.cope.sees_bias && p.toeplitz != nullptr) logit += p.toeplitz[place - m];
      if (p.cope.sees_bias && p.fire.segments > 0) logit += decode::fire_bias(p, place, m);
      gates[m] = logit;
    }
    if (p.cope.open) {
      std::fill(gates + first, gates + end, 1.0f);
    } else {
      cpu::sigmoid_row(gates + first, static_cast<std::size_t>(end - first));
    }
    for (std::int64_t m = first; p.key_mask != nullptr && m < end; ++m) {
      if (p.key_mask[m] == 0) gates[m] = 0.0f;
    }
  }
  [[nodiscard]] bool gates_have_products() const { return has_gate_vectors(*setup_.cope()); }

  void add_cope(const cpu::HeadProblem& p, std::size_t row, std::int64_t first, std::int64_t end,
                int worker, float* scores) {
    AlignedFloats& table = tables_[worker];
    const float* q = p.cope.shared != nullptr ? nullptr : plain_.data() + row * setup_.padded_dim;
    decode::fill_positions(p, q, table);
    decode::add_positions(p, gates_.data() + row * keys_, table, first, end, scores);
  }

  void weigh(const Group& g, std::int64_t chunk, int worker) {
    const std::size_t width = setup_.padded_value_dim;
    float* sums = partial_.data() + (static_cast<std::size_t>(chunk) * rows_ + g.first_row) * width;
    const float* weights =
        scores_.data() + g.first_row * keys_ + static_cast<std::size_t>(chunk * kChunk);
    cpu::add_weighted_rows(cache(setup_.call->v, g, chunk, worker), weights, keys_, g.rows, sums,
                           width);
    for (std::size_t r = 0; r < g.rows; ++r) {
      float* sum = sums + r * width;
      const bool finite =
          std::all_of(sum, sum + setup_.value_dim, [](float x) { return std::isfinite(x); });
      if (!finite) weigh_seen(g, r, chunk, sum);
    }
  }

  // A NaN may come from a value that the query does not see, times a weight of 0: sums again, without
  // those.
  void weigh_seen(const Group& g, std::size_t r, std::int64_t chunk, float* sum) const {
    const cpu::HeadProblem p = setup_.problem(*g.segment, head_of(g, r));
    const float* weights = scores_.data() + (g.first_row + r) * keys_;
    AlignedFloats value(setup_.padded_value_dim);
    std::fill_n(sum, setup_.value_dim, 0.0f);
    const std::int64_t end = std::min((chunk + 1) * kChunk, g.segment->keys);
    for (std::int64_t m = chunk * kChunk; m < end; ++m) {
      if (!p.sees(p.place_offset + query_of(g, r), m)) continue;
      read_key_row(setup_.call->block_table, setup_.call->v, g.segment->batch, g.kv_head,
                   g.segment->first_key + m, setup_.padded_value_dim, value.data());
      for (std::size_t c = 0; c < setup_.value_dim; ++c) sum[c] += weights[m] * value[c];
    }
  }

  // Sums the chunks in their order, divides, and writes.
  void write_all() {
    const AttentionCall& call = *setup_.call;
    AlignedFloats& row_out = key_rows_[0];
    for (const Group& g : groups_) {
      for (std::size_t r = 0; r < g.rows; ++r) {
        const std::size_t row = g.first_row + r;
        std::fill(row_out.begin(), row_out.end(), 0.0f);
        for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
          const float* from = partial_.data() + (static_cast<std::size_t>(chunk) * rows_ + row) *
                                                    setup_.padded_value_dim;
          for (std::size_t c = 0; c < setup_.value_dim; ++c) row_out[c] += from[c];
        }
        const cpu::SoftmaxRow& s = softmax_[row];
        const float scale = s.sum != 0.0f ? 1.0f / s.sum : 0.0f;
        for (std::size_t c = 0; c < setup_.value_dim; ++c) row_out[c] *= scale;
        float lse = s.sum != 0.0f ? s.maximum + std::log(s.sum) : -kInfinity;
        setup_.share_with_sinks(head_of(g, r), row_out.data(), lse);
        const std::int64_t token = g.segment->first_query + query_of(g, r);
        write_row(call.out, g.segment->batch, head_of(g, r), token, row_out.data());
        if (call.lse.empty()) continue;
        const std::int64_t at =
            (g.segment->batch * call.q.heads() + head_of(g, r)) * call.q.tokens() + token;
        call.lse[at] = lse;
      }
    }
  }

  const AttentionSetup& setup_;
  std::int64_t per_head_ = 1;
  std::size_t keys_ = 0;
  std::size_t rows_ = 0;
  std::int64_t chunks_ = 0;
  std::vector<Group> groups_;
  AlignedFloats queries_;
  AlignedFloats plain_;
  AlignedFloats scores_;  // [rows][keys]
  AlignedFloats gates_;
  AlignedFloats partial_;  // [chunks][rows][padded_value_dim]
  std::vector<cpu::SoftmaxRow> softmax_;
  std::vector<RowTurner> turners_;
  std::vector<AlignedFloats> key_rows_;
  std::vector<AlignedFloats> step_rows_;  // of a chain
  std::vector<RowOffsets> row_offsets_;   // of a chunk of a paged cache
  std::vector<AlignedFloats> tables_;
  AlignedFloats relative_;  // [rows][channels of RelativeQuery]
  std::vector<AlignedFloats> products_;
};

}  // namespace

Status decode_attention(const AttentionCall& call) {
  path_trace().forward = AttentionPath::kDecode;
  AttentionSetup setup;
  if (Status s = prepare_attention(call, setup, false); !s.ok()) return s;
  Decoder(setup).run();
  return {};
}

}  // namespace posenc

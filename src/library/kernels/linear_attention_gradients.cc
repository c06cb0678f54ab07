#include "kernels/linear_attention_gradients.h"

#include <algorithm>

#include "kernels/linear_attention_forward.h"

namespace posenc {
namespace {

void clear(AlignedFloats& values) { std::fill(values.begin(), values.end(), 0.0f); }

}  // namespace

FrequencyGradients::FrequencyGradients(const LinearSetup& setup, std::size_t tasks)
    : pointers_(tasks) {
  for (std::size_t r = 0; r < setup.tables.size(); ++r) {
    const Rotary& rotary = setup.tables[r]->rotary();
    const bool learnable = is_learnable(setup.state->spec.encodings[setup.state->rotary[r]]);
    const auto entries =
        learnable ? static_cast<std::size_t>(rotary.groups() * rotary.pairs()) : std::size_t{0};
    buffers_.emplace_back(tasks * entries, 0.0);
    for (std::size_t t = 0; t < tasks; ++t) {
      pointers_[t].push_back(learnable ? buffers_.back().data() + t * entries : nullptr);
    }
  }
}

void FrequencyGradients::write(const LinearSetup& setup, std::vector<Parameters>& gradients) const {
  const AttentionPlan::State& state = *setup.state;
  gradients.clear();
  for (const Encoding& encoding : state.spec.encodings) {
    gradients.push_back(zero_parameters(parameters(encoding, state.shape)));
  }
  for (std::size_t r = 0; r < buffers_.size(); ++r) {
    const Rotary& rotary = setup.tables[r]->rotary();
    const auto pairs = static_cast<std::size_t>(rotary.pairs());
    const auto groups = static_cast<std::size_t>(rotary.groups());
    for (std::size_t i = 0; i < buffers_[r].size(); ++i) {
      gradients[state.rotary[r]][0][i % pairs] +=
          rotary.inv_freq[i / pairs % groups][i % pairs] * buffers_[r][i];
    }
  }
}

LinearBackward::LinearBackward(const LinearAttentionBackwardCall& call, const LinearSetup& setup)
    : call_(call),
      setup_(setup),
      capacity_(chunk_capacity(setup)),
      stride_(cpu::row_floats(setup.dim)),
      to_features_{setup.dim, setup.features()},
      to_values_{setup.features(), setup.dim},
      reader_(setup),
      queries_(setup, capacity_),
      keys_(setup, capacity_),
      scratch_(setup.features()),
      values_(capacity_ * stride_),
      g_(values_.size()),
      e_(capacity_),
      row_(stride_),
      running_(capacity_ * keys_.stride),
      dfeature_(running_.size()),
      dvalue_(values_.size()),
      dk_(values_.size()),
      dv_(values_.size()),
      key_outer_(to_features_.state_floats()),
      key_sums_(keys_.stride),
      query_sums_(static_cast<std::size_t>(setup.group()),
                  {AlignedFloats(to_features_.state_floats()),
                   AlignedFloats(to_values_.state_floats()), AlignedFloats(keys_.stride)}) {}

// g and e of a chunk; zero where there is no query, or where it sees no key.
void LinearBackward::read_outputs(const Segment& s, std::int64_t head, const PlaceChunk& chunk) {
  const LinearAttentionCall& forward = call_.forward;
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t query = reader_.query_at(s, chunk, r);
    const float sum = query < 0 ? 0.0f : forward.denominator[setup_.row_of(s, head, query)];
    float* g = g_.data() + r * stride_;
    e_[r] = 0.0f;
    if (sum == 0.0f) {
      std::fill_n(g, stride_, 0.0f);
      queries_.clear(r);  // a query that sees no key may be NaN
      continue;
    }
    read_row(call_.grad_out, s.batch, head, s.first_query + query, stride_, g);
    read_row(forward.out, s.batch, head, s.first_query + query, stride_, row_.data());
    e_[r] = -cpu::dot_rows(g, row_.data(), setup_.dim) / sum;
    cpu::scale_row(1.0f / sum, g, setup_.dim, g);
  }
}

void LinearBackward::read_keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk) {
  reader_.keys(s, head, chunk, keys_);
  reader_.values(s, head, chunk, values_.data());
}

void LinearBackward::add_keys(const PlaceChunk& chunk) {
  cpu::scan_accumulate(to_features_, {nullptr, values_.data(), keys_.rotated.data()}, chunk.count,
                       scratch_, key_outer_.data());
}

void LinearBackward::write_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                                   const std::vector<double*>& dfrequencies) {
  reader_.queries(s, head, chunk, queries_);
  read_outputs(s, head, chunk);
  cpu::scan_apply(to_features_, {g_.data(), values_.data(), keys_.rotated.data()}, chunk.count,
                  setup_.sees(cpu::Sees::kEarlier), key_outer_.data(), scratch_, dfeature_.data());
  const bool causal = call_.forward.mask.causal;
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t query = reader_.query_at(s, chunk, r);
    if (query < 0) continue;
    float* sums = running_.data() + r * keys_.stride;
    cpu::scale_row(e_[r], causal ? sums : key_sums_.data(), setup_.features(), sums);
    float* row = dfeature_.data() + r * keys_.stride;
    reader_.backward(Role::kQuery, s, head, query, queries_, r, {row, sums, &dfrequencies});
    write_row(call_.dq, s.batch, head, s.first_query + query, row);
  }
}

void LinearBackward::run_queries(const Segment& s, std::int64_t head,
                                 const std::vector<double*>& dfrequencies) {
  const PlaceChunks chunks(s);
  const bool causal = call_.forward.mask.causal;
  clear(key_outer_);
  clear(key_sums_);
  const auto read = [&](const PlaceChunk& chunk) {
    read_keys(s, head, chunk);
    cpu::running_sums(keys_.sums_rows(), nullptr, chunk.count, setup_.features(),
                      cpu::Sees::kEarlier, key_sums_.data(), running_.data());
  };
  for (std::int64_t c = 0; !causal && c < chunks.size(); ++c) {
    read(chunks.at(c));
    add_keys(chunks.at(c));
  }
  for (std::int64_t c = 0; c < chunks.size(); ++c) {
    const PlaceChunk chunk = chunks.at(c);
    if (causal) read(chunk);
    if (has_queries(s, chunk)) write_queries(s, head, chunk, dfrequencies);
    if (causal) add_keys(chunk);
  }
}

void LinearBackward::read_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk) {
  reader_.queries(s, head, chunk, queries_);
  read_outputs(s, head, chunk);
}

void LinearBackward::sum_queries(const PlaceChunk& chunk, QuerySums& sums) {
  cpu::running_sums(queries_.sums_rows(), e_.data(), chunk.count, setup_.features(),
                    cpu::Sees::kLater, sums.for_sums.data(), running_.data());
}

void LinearBackward::add_queries(const PlaceChunk& chunk, QuerySums& sums) {
  cpu::scan_accumulate(to_features_, {nullptr, g_.data(), queries_.rotated.data()}, chunk.count,
                       scratch_, sums.for_keys.data());
  cpu::scan_accumulate(to_values_, {nullptr, queries_.rotated.data(), g_.data()}, chunk.count,
                       scratch_, sums.for_values.data());
}

void LinearBackward::add_key_gradients(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                                       const QuerySums& sums,
                                       const std::vector<double*>& dfrequencies) {
  const cpu::Sees sees = setup_.sees(cpu::Sees::kLater);
  cpu::scan_apply(to_features_, {values_.data(), g_.data(), queries_.rotated.data()}, chunk.count,
                  sees, sums.for_keys.data(), scratch_, dfeature_.data());
  cpu::scan_apply(to_values_, {keys_.rotated.data(), queries_.rotated.data(), g_.data()},
                  chunk.count, sees, sums.for_values.data(), scratch_, dvalue_.data());
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t key = reader_.key_at(s, chunk, r);
    if (key < 0) continue;
    const bool causal = call_.forward.mask.causal;
    const float* dsums = causal ? running_.data() + r * keys_.stride : sums.for_sums.data();
    float* row = dfeature_.data() + r * keys_.stride;
    reader_.backward(Role::kKey, s, head, key, keys_, r, {row, dsums, &dfrequencies});
    cpu::add_scaled_row(1.0f, row, setup_.dim, dk_.data() + r * stride_);
    cpu::add_scaled_row(1.0f, dvalue_.data() + r * stride_, setup_.dim, dv_.data() + r * stride_);
  }
}

// Every key of the chunk, padding too: its gradients are the zeros that nothing was added to.
void LinearBackward::write_keys(const Segment& s, std::int64_t kv_head, const PlaceChunk& chunk) {
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t key = chunk.first + static_cast<std::int64_t>(r);
    if (key < 0) continue;
    write_row(call_.dk, s.batch, kv_head, s.first_key + key, dk_.data() + r * stride_);
    write_row(call_.dv, s.batch, kv_head, s.first_key + key, dv_.data() + r * stride_);
  }
}

void LinearBackward::run_keys(const Segment& s, std::int64_t kv_head,
                              const std::vector<double*>& dfrequencies) {
  const PlaceChunks chunks(s);
  const bool causal = call_.forward.mask.causal;
  const std::int64_t first = kv_head * setup_.group();
  for (QuerySums& sums : query_sums_) {
    for (auto* values : {&sums.for_keys, &sums.for_values, &sums.for_sums}) clear(*values);
  }
  const auto for_each_head = [&](const auto& body) {
    for (std::int64_t h = 0; h < setup_.group(); ++h) {
      body(first + h, query_sums_[h]);
    }
  };
  for (std::int64_t c = chunks.size(); !causal && c-- > 0;) {
    for_each_head([&](std::int64_t head, QuerySums& sums) {
      if (!has_queries(s, chunks.at(c))) return;
      read_queries(s, head, chunks.at(c));
      sum_queries(chunks.at(c), sums);
      add_queries(chunks.at(c), sums);
    });
  }
  for (std::int64_t c = chunks.size(); c-- > 0;) {
    const PlaceChunk chunk = chunks.at(c);
    clear(dk_);
    clear(dv_);
    for_each_head([&](std::int64_t head, QuerySums& sums) {
      read_keys(s, head, chunk);
      if (causal) read_queries(s, head, chunk);
      if (causal) sum_queries(chunk, sums);
      add_key_gradients(s, head, chunk, sums, dfrequencies);
      if (causal) add_queries(chunk, sums);
    });
    write_keys(s, kv_head, chunk);
  }
}

}  // namespace posenc

#include "kernels/linear_attention_forward.h"

#include <algorithm>

namespace posenc {

std::size_t chunk_capacity(const LinearSetup& setup) {
  const auto longest = static_cast<std::size_t>(
      std::max({setup.call->q.tokens(), setup.call->k.tokens(), std::int64_t{1}}));
  return std::min(cpu::kTokenChunk, longest);
}

bool has_queries(const Segment& s, const PlaceChunk& chunk) {
  return s.queries > 0 && chunk.first + static_cast<std::int64_t>(chunk.count) > s.place_offset();
}

LinearForward::LinearForward(const LinearSetup& setup)
    : setup_(setup),
      capacity_(chunk_capacity(setup)),
      reader_(setup),
      queries_(setup, capacity_),
      keys_(setup, capacity_),
      scratch_(setup.features()),
      values_(capacity_ * cpu::row_floats(setup.dim)),
      running_(capacity_ * keys_.stride),
      out_(values_.size()) {}

void LinearForward::read_keys(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                              const HeadSums& sums) {
  reader_.keys(s, head, chunk, keys_);
  reader_.values(s, head, chunk, values_.data());
  cpu::running_sums(keys_.sums_rows(), nullptr, chunk.count, setup_.features(), cpu::Sees::kEarlier,
                    sums.keys, running_.data());
}

void LinearForward::write_queries(const Segment& s, std::int64_t head, const PlaceChunk& chunk,
                                  const HeadSums& sums) {
  const LinearAttentionCall& call = *setup_.call;
  const std::size_t stride = cpu::row_floats(setup_.dim);
  reader_.queries(s, head, chunk, queries_);
  cpu::scan_apply(forward_shape(setup_),
                  {queries_.rotated.data(), keys_.rotated.data(), values_.data()}, chunk.count,
                  setup_.sees(cpu::Sees::kEarlier), sums.outer, scratch_, out_.data());
  for (std::size_t r = 0; r < chunk.count; ++r) {
    const std::int64_t query = reader_.query_at(s, chunk, r);
    if (query < 0) continue;
    const float* keys = call.mask.causal ? running_.data() + r * keys_.stride : sums.keys;
    float sum = cpu::dot_rows(queries_.sums_rows() + r * queries_.stride, keys, setup_.features());
    float* row = out_.data() + r * stride;
    // Without a key the sums are zeros, which a NaN in the query must not reach.
    const bool blind =
        std::all_of(keys, keys + setup_.features(), [](float x) { return x == 0.0f; });
    if (blind) sum = 0.0f;
    if (sum == 0.0f) std::fill_n(row, setup_.dim, 0.0f);
    if (sum != 0.0f) cpu::scale_row(1.0f / sum, row, setup_.dim, row);
    write_row(call.out, s.batch, head, s.first_query + query, row);
    if (!call.denominator.empty()) call.denominator[setup_.row_of(s, head, query)] = sum;
  }
}

void LinearForward::run(const Segment& s, std::int64_t head, std::int64_t sharing,
                        const HeadSums& sums) {
  const PlaceChunks chunks(s);
  const bool causal = setup_.call->mask.causal;
  const cpu::ScanShape shape = forward_shape(setup_);
  const auto add_keys = [&](const PlaceChunk& chunk) {
    cpu::scan_accumulate(shape, {nullptr, keys_.rotated.data(), values_.data()}, chunk.count,
                         scratch_, sums.outer);
  };
  for (std::int64_t c = 0; !causal && c < chunks.size(); ++c) {
    read_keys(s, head, chunks.at(c), sums);
    add_keys(chunks.at(c));
  }
  for (std::int64_t c = 0; c < chunks.size(); ++c) {
    const PlaceChunk chunk = chunks.at(c);
    if (causal) read_keys(s, head, chunk, sums);
    for (std::int64_t h = head; has_queries(s, chunk) && h < head + sharing; ++h) {
      write_queries(s, h, chunk, sums);
    }
    if (causal) add_keys(chunk);
  }
}

}  // namespace posenc

// Backward of the terms of a score: from the gradient of a tile's scores to their tables, sums and parameters. Included
// once per target.
#if defined(POSENC_KERNELS_CPU_TERM_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_TERM_GRADIENTS_INL_H_
#undef POSENC_KERNELS_CPU_TERM_GRADIENTS_INL_H_
#else
#define POSENC_KERNELS_CPU_TERM_GRADIENTS_INL_H_
#endif

#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

using cpu::BackwardOutputs;

inline void add_diagonals(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                          const float* values, float* dtoeplitz) {
  const Df d;
  for (std::size_t j = 0; j < tile.count; ++j) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first);
    float* at = dtoeplitz + (place - static_cast<std::int64_t>(tile.first + j));
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      const auto sum = hn::Add(hn::LoadU(d, at + v), hn::LoadU(d, values + j * kQueryBlock + v));
      hn::StoreU(sum, d, at + v);
    }
  }
}

// Of every query, over the keys of a tile.
inline PerQuery row_sums(const Tile& tile, const float* values) {
  const Df d;
  PerQuery sums{};
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (std::size_t j = 0; j < tile.count; ++j) {
      sum = hn::Add(sum, hn::LoadU(d, values + j * kQueryBlock + v));
    }
    hn::StoreU(sum, d, sums.data() + v);
  }
  return sums;
}

// The gradient of a token term's sums: minus a key's column, and plus a query's row. Rows sum to zero only up to the
// rounding of the output, which would add up over the tokens.
inline void add_token_sums(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                           const float* dscores, double* dsums, double* dqueries) {
  const Df d;
  for (std::size_t j = 0; j < tile.count; ++j) {
    auto sum = hn::Zero(d);
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      sum = hn::Add(sum, hn::LoadU(d, dscores + j * kQueryBlock + v));
    }
    dsums[tile.first + j] -= static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  if (!p.token_running) return;
  const PerQuery rows = row_sums(tile, dscores);
  for (std::size_t i = 0; i < b.count; ++i) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first + i);
    if (place >= p.token_first) dqueries[place] += static_cast<double>(rows[i]);
  }
}

// The gradient of products with distances, by rows of lanes as they are read.
inline void add_products_gradient(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                                  Workspace& w) {
  const Df d;
  const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first);
  for (std::size_t j = 0; j < tile.count; ++j) {
    const std::size_t row = p.relative.row(place - static_cast<std::int64_t>(tile.first + j));
    float* to = w.dsheared.data() + row * kQueryBlock;
    const float* from = w.dscores.data() + j * kQueryBlock;
    for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
      hn::StoreU(hn::Add(hn::LoadU(d, to + v), hn::LoadU(d, from + v)), d, to + v);
    }
  }
}

// From the gradient of the products to that of the queries' vectors and of the table.
inline void finish_products(const HeadProblem& p, const QueryBlock& b, Workspace& w,
                            const BackwardOutputs& out) {
  const cpu::RelativeProblem& relative = p.relative;
  const auto entries = static_cast<std::int64_t>(relative.entries());
  std::fill(w.products.begin(), w.products.end(), 0.0f);
  for (std::size_t m = 0; m < relative.rows(); ++m) {
    for (std::size_t r = 0; r < b.count; ++r) {
      const auto entry = static_cast<std::int64_t>(m + r) - static_cast<std::int64_t>(kQueryBlock);
      const std::int64_t near = std::clamp<std::int64_t>(entry, 0, entries - 1);
      if (near != entry && !relative.clips) continue;
      w.products[r * relative.stride + static_cast<std::size_t>(near)] +=
          w.dsheared[m * kQueryBlock + r];
    }
  }
  multiply<true>({b.relative, 1, relative.channel_stride}, {w.products.data(), relative.stride},
                 {out.drelative_table, relative.stride}, relative.channels, relative.stride,
                 kQueryBlock);
  if (relative.finite) {
    multiply<true>({w.products.data(), relative.stride, 1},
                   {relative.transposed, relative.channel_stride},
                   {out.drelative_rows, relative.channel_stride}, kQueryBlock,
                   relative.channel_stride, static_cast<std::size_t>(entries));
    return;
  }
  for (std::size_t r = 0; r < b.count; ++r) {
    for (std::size_t n = 0; n < static_cast<std::size_t>(entries); ++n) {
      const float factor = w.products[r * relative.stride + n];
      if (factor == 0.0f) continue;  // an entry that is not read may be NaN
      add_scaled(factor, relative.transposed + n * relative.channel_stride, relative.channel_stride,
                 out.drelative_rows + r * relative.channel_stride);
    }
  }
}

// FIRE's part of the backward of a tile, from the gradient at its biases.
inline void fire_backward_tile(const HeadProblem& p, const QueryBlock& b, const Tile& tile,
                               const float* dbias, const BackwardOutputs& out) {
  const Df d;
  const hn::RebindToSigned<Df> di;
  constexpr std::size_t kMostLanes = kQueryBlock;
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const std::int64_t place = p.place_offset + static_cast<std::int64_t>(b.first + v);
    FireLanes fire(p.fire, hn::LoadU(d, p.fire.row_scale + place));
    auto slope_sum = hn::Zero(d);  // of the segments the lanes are in
    auto intercept_sum = hn::Zero(d);
    auto psi_sum = hn::LoadU(d, out.dfire_psi + v);
    auto scale_sum = hn::LoadU(d, out.dfire_scale + v);
    const auto flush = [&]() HWY_ATTR {
      std::array<float, kMostLanes> slopes;
      std::array<float, kMostLanes> intercepts;
      std::array<std::int32_t, kMostLanes> segments;
      hn::StoreU(slope_sum, d, slopes.data());
      hn::StoreU(intercept_sum, d, intercepts.data());
      hn::StoreU(fire.segment(), di, segments.data());
      for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {  // lanes may share a segment
        out.dfire_slopes[segments[lane]] += static_cast<double>(slopes[lane]);
        out.dfire_intercepts[segments[lane]] += static_cast<double>(intercepts[lane]);
      }
      slope_sum = intercept_sum = hn::Zero(d);
    };
    for (std::size_t j = tile.count; j-- > 0;) {
      const std::int64_t distance = place - static_cast<std::int64_t>(tile.first + j);
      const auto u = fire.input(p.fire.psi + distance);
      if (fire.leaves(u)) {
        flush();
        fire.enter(u);
      }
      const auto db = hn::LoadU(d, dbias + j * kQueryBlock + v);
      slope_sum = hn::MulAdd(db, u, slope_sum);
      intercept_sum = hn::Add(intercept_sum, db);
      const auto du = hn::Mul(db, fire.slope());
      psi_sum = hn::MulAdd(du, hn::LoadU(d, p.fire.dpsi + distance), psi_sum);
      scale_sum = hn::MulAdd(du, hn::LoadU(d, p.fire.psi + distance), scale_sum);
    }
    flush();
    hn::StoreU(psi_sum, d, out.dfire_psi + v);
    hn::StoreU(scale_sum, d, out.dfire_scale + v);
  }
}

// CoPE's part of the backward of a tile, from its first key to its last: the gradient of the tables,
// and through the positions (a prefix sum, carried in `prefix`) that of the gates' logits, which is
// left in gate_logits.
inline void cope_backward_tile(const HeadProblem& p, const Tile& tile, Workspace& w,
                               float* prefix) {
  const Df d;
  const hn::RebindToSigned<Df> di;
  const std::size_t stride = p.cope.stride;
  const auto last = hn::Set(d, static_cast<float>(p.cope.npos - 1));
  const auto one = hn::Set(d, 1.0f);
  const auto rows = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<std::int32_t>(stride)));
  for (std::size_t v = 0; v < kQueryBlock; v += hn::Lanes(d)) {
    const float* tables = w.tables.data() + v * stride;
    float* dtables = w.dtables.data() + v * stride;
    auto segment = hn::Set(d, -1.0f);
    auto slope = hn::Zero(d);
    auto low_sum = hn::Zero(d);  // gradients of the two ends of the segment, until it changes
    auto high_sum = hn::Zero(d);
    auto index = hn::Zero(di);
    auto sum = hn::LoadU(d, prefix + v);
    const auto flush = [&]() HWY_ATTR {
      hn::ScatterIndex(hn::Add(hn::GatherIndex(d, dtables, index), low_sum), d, dtables, index);
      hn::ScatterIndex(hn::Add(hn::GatherIndex(d, dtables + 1, index), high_sum), d, dtables + 1,
                       index);
    };
    bool open = false;
    for (std::size_t j = 0; j < tile.count; ++j) {
      const std::size_t at = j * kQueryBlock + v;
      const auto f = hn::LoadU(d, w.segments.data() + at);
      const auto fraction = hn::LoadU(d, w.fractions.data() + at);
      const auto gate = hn::LoadU(d, w.gates.data() + at);
      const auto ds = hn::LoadU(d, w.dscores.data() + at);
      if (!hn::AllTrue(d, hn::Eq(f, segment))) {
        if (open) flush();
        open = true;
        segment = f;
        index = hn::Add(rows, hn::ConvertTo(di, f));
        slope = hn::Sub(hn::GatherIndex(d, tables + 1, index), hn::GatherIndex(d, tables, index));
        low_sum = high_sum = hn::Zero(d);
      }
      const auto share = hn::Mul(fraction, ds);
      high_sum = hn::Add(high_sum, share);
      low_sum = hn::Add(low_sum, hn::Sub(ds, share));
      const auto moves = hn::Lt(f, last);
      sum = hn::Add(sum, hn::IfThenElseZero(moves, hn::Mul(ds, slope)));
      const auto dlogit = hn::Mul(sum, hn::Mul(gate, hn::Sub(one, gate)));
      hn::StoreU(dlogit, d, w.gate_logits.data() + at);
    }
    if (open) flush();
    hn::StoreU(sum, d, prefix + v);
  }
}

// Saturated tiles: only the last entry of each table was read.
inline void add_last_entries(const HeadProblem& p, const Tile& tile, Workspace& w) {
  const PerQuery sums = row_sums(tile, w.dscores.data());
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    w.dtables[r * p.cope.stride + p.cope.npos - 1] += sums[r];
  }
}

// SUM_n e[n] dz[n] over entries with a gradient: one that is not read may be NaN.
inline float dot_of_read(const float* e, const float* dz, std::size_t count) {
  const Df d;
  auto sum = hn::Zero(d);
  for (std::size_t n = 0; n < count; n += hn::Lanes(d)) {
    const auto gradient = hn::LoadU(d, dz + n);
    const auto read = hn::Ne(gradient, hn::Zero(d));
    sum = hn::MulAdd(hn::IfThenElseZero(read, hn::LoadU(d, e + n)), gradient, sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// From the gradient of the tables to that of the plain queries and of the embedding.
inline void finish_tables(const HeadProblem& p, const QueryBlock& b, Workspace& w,
                          const BackwardOutputs& out) {
  const std::size_t stride = p.cope.stride;
  for (std::size_t r = 0; r < kQueryBlock; ++r) {
    float* row = w.dtables.data() + r * stride;
    if (r >= b.count) std::fill_n(row, stride, 0.0f);
    // The entry past the end stood for the last.
    row[p.cope.npos - 1] += row[p.cope.npos];
    row[p.cope.npos] = 0.0f;
    if (out.dshared == nullptr) continue;
    for (std::size_t n = 0; n < p.cope.npos; ++n) out.dshared[n] += row[n];
  }
  if (p.cope.embedding == nullptr) return;
  multiply<true>({b.plain, 1, p.padded_dim}, {w.dtables.data(), stride}, {out.dembedding, stride},
                 p.dim, stride, kQueryBlock);
  for (std::size_t r = 0; r < b.count; ++r) {
    for (std::size_t c = 0; c < p.dim; ++c) {
      out.dq_plain[r * p.padded_dim + c] +=
          dot_of_read(p.cope.embedding + c * stride, w.dtables.data() + r * stride, stride);
    }
  }
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

#include "posenc/kernels/embedding.h"

#include <algorithm>
#include <span>

#include "core/thread_pool.h"
#include "kernels/attention_plan.h"
#include "kernels/guarded.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr const char* kOp = "add_embeddings";
using Long = long long;

// E of one position into a row of float64, added to what is there.
void add_vector(const Learned& /*learned*/, std::span<const double> table, std::int64_t position,
                std::vector<double>& /*scratch*/, std::vector<double>& row) {
  const double* entry = table.data() + static_cast<std::size_t>(position) * row.size();
  for (std::size_t c = 0; c < row.size(); ++c) row[c] += entry[c];
}
void add_vector(const Sinusoidal& sinusoidal, std::span<const double> frequencies,
                std::int64_t position, std::vector<double>& scratch, std::vector<double>& row) {
  embedding(sinusoidal, frequencies, position, scratch);
  for (std::size_t c = 0; c < row.size(); ++c) row[c] += scratch[c];
}

// The checks that both directions share; what the parameters and positions must be, too.
Status check(const char* name, const Spec* spec, const std::vector<Parameters>* values,
             const ConstTensorView& x, const PositionsView& positions) {
  if (spec == nullptr)
    return {StatusCode::kInvalidArgument, "[add_embeddings] spec must not be null"};
  if (Status s = check_view(kOp, name, x); !s.ok()) return s;
  if (x.heads() != 1 && !x.empty()) {
    return Status::format(
        StatusCode::kInvalidArgument,
        "[add_embeddings] %s must be [batch, 1, tokens, model_dim] but got %lld heads", name,
        static_cast<Long>(x.heads()));
  }
  if (Status s = positions.check(kOp, x.batch(), x.tokens()); !s.ok()) return s;
  if (Status s = positions.check_values(kOp, "positions", x.batch(), x.tokens(), 1); !s.ok()) {
    return s;
  }
  if (values == nullptr || values->size() != spec->encodings.size()) {
    return Status::format(
        StatusCode::kInvalidArgument,
        "[add_embeddings] parameters must have %zu entries, one per encoding, but got "
        "%zu",
        spec->encodings.size(), values == nullptr ? 0 : values->size());
  }
  const ModelShape shape{.head_dim = x.channels(), .heads = 1, .model_dim = x.channels()};
  for (std::size_t e = 0; e < spec->encodings.size(); ++e) {
    const auto* learned = std::get_if<Learned>(&spec->encodings[e]);
    if (traits(spec->encodings[e]).site == Site::kInput) validate(spec->encodings[e], shape);
    if (learned == nullptr) continue;
    const auto wanted = static_cast<std::size_t>(learned->max_positions * x.channels());
    if ((*values)[e].size() != 1 || (*values)[e][0].size() != wanted) {
      return Status::format(StatusCode::kInvalidArgument,
                            "[add_embeddings] learned weight must have %zu entries but got %zu",
                            wanted, (*values)[e].empty() ? 0 : (*values)[e][0].size());
    }
    for (std::int64_t b = 0; b < x.batch(); ++b) {
      for (std::int64_t t = 0; t < x.tokens(); ++t) {
        const std::int64_t n = positions.at(b, t, 0);
        if (n >= 0 && n < learned->max_positions) continue;
        return Status::format(StatusCode::kOutOfRange,
                              "[learned] position must be in [0, %lld] but got %lld",
                              static_cast<Long>(learned->max_positions - 1), static_cast<Long>(n));
      }
    }
  }
  return {};
}

struct Mine {
  explicit Mine(std::size_t dim) : scratch(dim), sum(dim), row(dim) {}
  std::vector<double> scratch;
  std::vector<double> sum;
  AlignedFloats row;
  std::int64_t position = -1;  // whose vector `sum` holds
  bool filled = false;
};

// What the vectors of each encoding are made of: a learned table, or frequencies.
using Sources = std::vector<std::span<const double>>;

void fill_sum(const EmbeddingCall& call, const Sources& sources, std::int64_t position,
              Mine& mine) {
  if (mine.filled && mine.position == position) return;  // the same token of another batch entry
  mine.filled = true;
  mine.position = position;
  std::fill(mine.sum.begin(), mine.sum.end(), 0.0);
  for (std::size_t e = 0; e < call.spec->encodings.size(); ++e) {
    std::visit(
        [&]<class E>(const E& encoding) {
          if constexpr (E::kTraits.site == Site::kInput) {
            add_vector(encoding, sources[e], position, mine.scratch, mine.sum);
          }
        },
        call.spec->encodings[e]);
  }
}

Status run(const EmbeddingCall& call) {
  const auto dim = static_cast<std::size_t>(call.x.channels());
  std::vector<Mine> all(num_threads(), Mine(dim));
  std::vector<std::vector<double>> frequencies(call.spec->encodings.size());
  Sources sources(frequencies.size());
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const Encoding& encoding = call.spec->encodings[e];
    if (std::holds_alternative<Learned>(encoding)) sources[e] = (*call.parameters)[e][0];
    if (const auto* sinusoidal = std::get_if<Sinusoidal>(&encoding)) {
      frequencies[e] = sinusoidal_frequencies(*sinusoidal, call.x.channels());
      sources[e] = frequencies[e];
    }
  }
  parallel_for(call.x.tokens(), [&](std::int64_t t, int worker) {
    Mine& mine = all[worker];
    for (std::int64_t b = 0; b < call.x.batch(); ++b) {
      fill_sum(call, sources, call.positions.at(b, t, 0), mine);
      read_row(call.x, b, 0, t, dim, mine.row.data());
      for (std::size_t c = 0; c < dim; ++c) mine.row[c] += static_cast<float>(mine.sum[c]);
      write_row(call.y, b, 0, t, mine.row.data());
    }
  });
  return {};
}

Status run_gradient(const EmbeddingGradientCall& call) {
  const auto dim = static_cast<std::size_t>(call.dy.channels());
  std::vector<Parameters> gradients;
  for (const Parameters& values : *call.parameters) {
    gradients.emplace_back();
    for (const auto& list : values) gradients.back().emplace_back(list.size(), 0.0);
  }
  AlignedFloats row(dim);
  for (std::size_t e = 0; e < call.spec->encodings.size(); ++e) {
    static_assert(encodings_at(Site::kInput) == 2, "of the inputs, Learned alone has parameters");
    if (!std::holds_alternative<Learned>(call.spec->encodings[e])) continue;
    for (std::int64_t b = 0; b < call.dy.batch(); ++b) {
      for (std::int64_t t = 0; t < call.dy.tokens(); ++t) {
        read_row(call.dy, b, 0, t, dim, row.data());
        double* entry =
            gradients[e][0].data() + static_cast<std::size_t>(call.positions.at(b, t, 0)) * dim;
        for (std::size_t c = 0; c < dim; ++c) entry[c] += static_cast<double>(row[c]);
      }
    }
  }
  *call.dparameters = std::move(gradients);
  return {};
}

}  // namespace

Status add_embeddings(const EmbeddingCall& call) noexcept {
  return guarded(kOp, [&]() -> Status {
    if (Status s = check("x", call.spec, call.parameters, call.x, call.positions); !s.ok())
      return s;
    if (Status s = check_same_shape(kOp, "y", call.y, "x", call.x); !s.ok()) return s;
    if (Status s = check_view(kOp, "y", call.y); !s.ok()) return s;
    if (Status s = check_output(kOp, "y", call.y, call.x); !s.ok()) return s;
    return call.x.empty() ? Status() : run(call);
  });
}

Status add_embeddings_gradient(const EmbeddingGradientCall& call) noexcept {
  return guarded(kOp, [&]() -> Status {
    if (Status s = check("dy", call.spec, call.parameters, call.dy, call.positions); !s.ok())
      return s;
    if (call.dparameters == nullptr) {
      return {StatusCode::kInvalidArgument, "[add_embeddings] dparameters must not be null"};
    }
    return run_gradient(call);
  });
}

}  // namespace posenc

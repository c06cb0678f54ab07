#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "bench/measure.h"
#include "bench/memory.h"
#include "cases/compare.h"
#include "cases/rope_problem.h"
#include "posenc/core/threads.h"

namespace posenc::bench {
namespace {

using cases::Case;
using cases::RopeProblem;

constexpr std::int64_t kChunk = 512;  // tokens

// A new tensor, as a function that returns one makes it.
struct Fresh {
  explicit Fresh(const TensorView& like)
      : size(static_cast<std::size_t>(like.shape[0] * like.stride[0]) * dtype_size(like.dtype)),
        bytes(std::make_unique_for_overwrite<std::byte[]>(size)),
        view(like) {
    view.data = bytes.get();
  }
  std::size_t size;
  std::unique_ptr<std::byte[]> bytes;
  TensorView view;
};

Fresh turned(const RotaryCache& tables, const TensorView& x) {
  Fresh out(x);
  RopeCall call;
  call.q = x;
  call.q_out = out.view;
  call.tables = &tables;
  rope(call).throw_if_error();
  return out;
}

RotaryCache table_of(const RopeProblem& p, const CachePolicy& policy) {
  return {make_rotary(std::get<Rope>(p.spec.encodings[0]), p.shape, {p.c.queries}), policy};
}

void basic(RopeProblem& p) {
  const RotaryCache tables =
      table_of(p, {.mode = CachePolicy::Mode::kPrecomputed, .length = p.c.queries});
  const Fresh q = turned(tables, p.q.view());
  const Fresh k = turned(tables, p.k.view());
}

void cached(RopeProblem& p) {
  const Fresh q = turned(p.tables, p.q.view());
  const Fresh k = turned(p.tables, p.k.view());
}

TensorView tokens_of(TensorView view, std::int64_t first, std::int64_t count) {
  view.data = static_cast<std::byte*>(view.data) + view.row_offset(0, 0, first);
  view.shape[2] = count;
  return view;
}

// In place, a piece of the sequence at a time, as it would arrive.
void chunked(RopeProblem& p, const RotaryCache& on_demand) {
  for (std::int64_t first = 0; first < p.c.queries; first += kChunk) {
    const std::int64_t count = std::min(kChunk, p.c.queries - first);
    const std::vector<std::int64_t> offsets(p.c.batch, first);
    RopeCall call;
    call.q_out = tokens_of(p.q.view(), first, count);
    call.k_out = tokens_of(p.k.view(), first, count);
    call.q = call.q_out;
    call.k = call.k_out;
    call.tables = &on_demand;
    call.positions.offsets = offsets;
    rope(call).throw_if_error();
  }
}

struct Step {
  const char* name;
  const char* path;
  std::int64_t table_bytes;
  std::function<void()> run;
};

std::vector<Step> steps_of(RopeProblem& p, const RotaryCache& on_demand) {
  const std::int64_t table = p.tables.bytes();
  return {
      {"basic", "angles computed per call, new tensors", table, [&p] { basic(p); }},
      {"cached", "kept table, new tensors", table, [&p] { cached(p); }},
      {"chunked", "no table, in place, 512 tokens at a time", on_demand.bytes(),
       [&p, &on_demand] { chunked(p, on_demand); }},
      {"fused", "kept table, queries and keys in one pass, in place", table, [&p] { p.forward(); }},
  };
}

// All steps on a small sequence give what the reference gives.
std::string check_steps(const Case& c) {
  Case small = cases::small_twin(c);
  small.queries = small.keys = kChunk + 3;
  small.policy.length = small.queries;
  RopeProblem fused(small);
  const auto want = fused.expected(false);
  const Fresh q = turned(fused.tables, fused.q.view());
  RopeProblem pieces(small);
  chunked(pieces, table_of(pieces, {.mode = CachePolicy::Mode::kOnDemand}));
  fused.forward();
  for (const auto& got : {fused.results(false), pieces.results(false)}) {
    const cases::Comparison found = cases::compare(c.dtype, got, want);
    if (!found.fine()) return found.mismatch;
  }
  cases::Tensor copy = fused.q;
  std::memcpy(copy.storage().data(), q.bytes.get(), q.size);
  return cases::compare(c.dtype, {{"q_out", cases::ResultKind::kValue, copy.values()}}, {want[0]})
      .mismatch;
}

std::vector<Row> measure(const Case& c, const Options& options) {
  const std::string mismatch = check_steps(c);
  RopeProblem problem(c);
  const RotaryCache on_demand = table_of(problem, {.mode = CachePolicy::Mode::kOnDemand});
  const std::vector<Step> steps = steps_of(problem, on_demand);
  std::vector<Row> rows;
  for (const Step& step : steps) {
    Row row;
    row.name = fmt::format("rope/ladder/{}/B{}/T{}/D{}", step.name, c.batch, c.queries, c.head_dim);
    row.c = c;
    row.pass = "forward";
    row.threads = num_threads();
    row.ms = std::numeric_limits<double>::infinity();
    row.path = step.path;
    row.table_bytes = step.table_bytes;
    row.checked = mismatch.empty();
    row.problem = mismatch;
    row.peak_bytes = peak_bytes_of(step.run);
    rows.push_back(row);
  }
  repeat(options.effort, [&] {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      rows[s].ms = std::min(rows[s].ms, 1e3 * seconds_of(steps[s].run));
    }
  });
  for (Row& row : rows) row.baseline_ms = rows[0].ms;
  for (Row& row : rows) row.baseline_peak_bytes = rows[0].peak_bytes;
  return rows;
}

}  // namespace

std::vector<Job> rope_ladder_jobs() {
  std::vector<Job> jobs;
  for (const auto& [b, t, d] :
       {std::array<std::int64_t, 3>{8, 512, 64}, {8, 1024, 128}, {8, 2048, 256}, {4, 8192, 128}}) {
    const Case c{.op = cases::Operation::kRope,
                 .spec = "rope",
                 .batch = b,
                 .heads = 32,
                 .kv_heads = 32,
                 .queries = t,
                 .keys = t,
                 .head_dim = d,
                 .in_place = true,
                 .policy = {.mode = CachePolicy::Mode::kPrecomputed, .length = t}};
    jobs.push_back({fmt::format("rope/ladder/B{}/T{}/D{}", b, t, d),
                    [c](const Options& options) { return measure(c, options); }});
  }
  return jobs;
}

}  // namespace posenc::bench

#include <algorithm>
#include <limits>

#include "core/thread_pool.h"
#include "kernels/attention_gradients.h"
#include "kernels/attention_reference.h"
#include "kernels/guarded.h"
#include "kernels/pair_terms.h"
#include "kernels/path_trace.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"
#include "posenc/kernels/attention_slices.h"

namespace posenc {
namespace {

constexpr const char* kOp = "attention_backward";

// A key head of a sequence and every how-many-th block of its queries. Their number depends on the
// shapes alone, never on the threads, and so do the sums.
struct Task {
  std::size_t segment;
  std::int64_t kv_head;
  std::int64_t split;
};

constexpr std::int64_t kFewestTasks = 8;

// `may_widen`: the gradient may be float32 whatever the tensor is.
Status check_gradient(const char* name, const ConstTensorView& gradient, const char* of,
                      const ConstTensorView& tensor, bool may_widen) noexcept {
  if (!tensor.present() && !gradient.present()) return {};
  ConstTensorView like = tensor;
  if (may_widen && gradient.dtype == DType::kFloat32) like.dtype = DType::kFloat32;
  if (Status s = check_same_shape(kOp, name, gradient, of, like); !s.ok()) return s;
  return check_view(kOp, name, gradient);
}

}  // namespace

Status check_backward(const AttentionBackwardCall& call, bool may_widen) noexcept {
  if (Status s = check_attention(call.forward); !s.ok()) return s;
  const std::int64_t rows =
      call.forward.q.batch() * call.forward.q.heads() * call.forward.q.tokens();
  if (std::ssize(call.forward.lse) != rows) {
    return {StatusCode::kInvalidArgument, "[attention_backward] lse of the forward must be kept"};
  }
  struct Pair {
    const char* name;
    ConstTensorView gradient;
    const char* of;
    ConstTensorView tensor;
    bool may_widen;
  };
  const AttentionCall& f = call.forward;
  const std::array<Pair, 4> pairs = {{{"grad_out", call.grad_out, "out", f.out, false},
                                      {"dq", call.dq, "q", f.q, may_widen},
                                      {"dk", call.dk, "k", f.k, may_widen},
                                      {"dv", call.dv, "v", f.v, may_widen}}};
  for (const Pair& pair : pairs) {
    if (Status s = check_gradient(pair.name, pair.gradient, pair.of, pair.tensor, pair.may_widen);
        !s.ok()) {
      return s;
    }
  }
  const std::vector<SpecInput>& inputs = f.plan->state().inputs;
  if (call.dinputs.size() != inputs.size()) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[attention_backward] dinputs must be those of %s but got %zu tensors",
                          f.plan->state().input_names.c_str(), call.dinputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (Status s = check_gradient("dinputs", call.dinputs[i], inputs[i].info.name.c_str(),
                                  f.inputs[i], may_widen);
        !s.ok()) {
      return s;
    }
  }
  return {};
}

namespace {

// What one thread works with.
struct Mine {
  explicit Mine(const AttentionSetup& setup)
      : space(setup.workspace(setup.call->k.tokens(), true)),
        turner(setup),
        rows(cpu::kQueryBlock * setup.padded_dim),
        plain(rows.size()),
        grad_out(cpu::kQueryBlock * setup.padded_value_dim),
        out_row(std::max(setup.padded_dim, setup.padded_value_dim)),
        sum_row(out_row.size()),
        dq(rows.size()),
        dq_plain(rows.size()),
        relative(cpu::kQueryBlock * setup.relative_form.channel_stride),
        drelative(relative.size()) {}

  cpu::Workspace space;
  RowTurner turner;
  AlignedFloats rows;
  AlignedFloats plain;
  AlignedFloats grad_out;
  AlignedFloats out_row;
  AlignedFloats sum_row;
  AlignedFloats dq;
  AlignedFloats dq_plain;
  AlignedFloats relative;
  AlignedFloats drelative;
  std::array<float, cpu::kQueryBlock> lse{};
  std::array<float, cpu::kQueryBlock> delta{};
};

// From the gradient of an output to that of the sum of rotated values, which the output rotated back is.
void output_backward(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                     std::int64_t query, TaskGradients& gradients, float* row, Mine& mine) {
  const std::int64_t heads = setup.state->shape.heads;
  mine.sum_row = mine.out_row;
  // Forwards again: values at the query's own angles.
  std::vector<double*> nothing(gradients.frequencies().size(), nullptr);
  mine.turner.value_backward(Role::kQuery, head, heads, s.batch, query, nullptr,
                             mine.sum_row.data(), nothing, 0);
  mine.turner.value_backward(Role::kQuery, head, heads, s.batch, query, mine.sum_row.data(), row,
                             gradients.frequencies(), s.first_key);
}

// Output gradients of a block, its log-sum-exps, and SUM over channels of grad_out * out, which is all that sinks need.
void read_outputs(const AttentionBackwardCall& call, const AttentionSetup& setup, const Segment& s,
                  std::int64_t head, const cpu::QueryBlock& block, TaskGradients& gradients,
                  bool with_sinks, Mine& mine) {
  std::fill(mine.grad_out.begin(), mine.grad_out.end(), 0.0f);
  for (std::size_t r = 0; r < block.count; ++r) {
    const std::int64_t query = s.first_query + static_cast<std::int64_t>(block.first + r);
    const std::size_t width = setup.padded_value_dim;
    float* row = mine.grad_out.data() + r * width;
    read_row(call.grad_out, s.batch, head, query, width, row);
    read_row(call.forward.out, s.batch, head, query, width, mine.out_row.data());
    float sum = 0.0f;
    for (std::size_t c = 0; c < setup.value_dim; ++c) sum += row[c] * mine.out_row[c];
    mine.delta[r] = sum;
    const std::int64_t at =
        (s.batch * call.forward.q.heads() + head) * call.forward.q.tokens() + query;
    mine.lse[r] = call.forward.lse[at];
    if (mine.lse[r] != -std::numeric_limits<float>::infinity()) {
      if (with_sinks) gradients.add_sinks(setup, head, mine.lse[r], sum);
      if (setup.state->rotates_values) output_backward(setup, s, head, query, gradients, row, mine);
      continue;
    }
    // A query that sees no key has no gradient, and may be NaN.
    mine.delta[r] = 0.0f;
    std::fill_n(row, width, 0.0f);
    for (AlignedFloats* rows : {&mine.rows, &mine.plain}) {
      std::fill_n(rows->data() + r * setup.padded_dim, setup.padded_dim, 0.0f);
    }
    const std::size_t channels = setup.relative_form.channel_stride;
    std::fill_n(mine.relative.data() + r * channels, channels, 0.0f);
  }
}

// The gradient of the rows of RelativeQuery's input.
void write_relative(const AttentionBackwardCall& call, const AttentionSetup& setup,
                    const Segment& s, std::int64_t head, const cpu::QueryBlock& block, Mine& mine) {
  const RelativeQuery* config = setup.relative_query();
  if (config == nullptr || !config->reads_input()) return;
  const TensorView& to =
      call.dinputs[first_input(setup.state->inputs, *setup.state->relative_query)];
  for (std::size_t r = 0; r < block.count; ++r) {
    const std::int64_t place = s.place_offset() + static_cast<std::int64_t>(block.first + r);
    if (place < 0) continue;
    write_row(to, s.batch, head, s.first_key + place,
              mine.drelative.data() + r * setup.relative_form.channel_stride);
  }
}

// From the gradients of a block's rows to those of its queries.
void write_queries(const AttentionBackwardCall& call, const AttentionSetup& setup, const Segment& s,
                   std::int64_t head, const cpu::QueryBlock& block, TaskGradients& gradients,
                   Mine& mine) {
  const bool has_plain = setup.reads_plain();
  for (std::size_t r = 0; r < block.count; ++r) {
    const std::int64_t query = s.first_query + static_cast<std::int64_t>(block.first + r);
    float* row = mine.dq.data() + r * setup.padded_dim;
    float* plain = mine.plain.data() + r * setup.padded_dim;
    add_content(setup, head, plain);  // as it was rotated
    if (gradients.trains_temperatures()) {
      std::copy_n(plain, setup.padded_dim, mine.out_row.data());
      mine.turner.forward(Role::kQuery, head, setup.state->shape.heads, s.batch, query,
                          mine.out_row.data());
      gradients.add_temperatures(setup, head, query, mine.out_row.data(), row);
    }
    const float scale = setup.scale_of(s.batch, head, query);
    for (std::size_t c = 0; c < setup.dim; ++c) row[c] *= scale;
    mine.turner.backward(Role::kQuery, head, setup.state->shape.heads, s.batch, query, plain, row,
                         gradients.frequencies(), s.first_key);
    if (gradients.trains_vectors()) {
      const float* of_position = mine.drelative.data() + r * setup.padded_dim;
      gradients.add_vectors(setup, head, row, of_position);
      for (std::size_t c = 0; c < setup.dim; ++c) row[c] += of_position[c];
    }
    for (std::size_t c = 0; has_plain && c < setup.dim; ++c) {
      row[c] += mine.dq_plain[r * setup.padded_dim + c];
    }
    write_row(call.dq, s.batch, head, query, row);
  }
}

// What the rows of a block carry into a slice and out of it; rows past the block's have none.
struct SliceBlock {
  SliceBlock(const AttentionSetup& setup, const SliceGradients& gradients, const Segment& s,
             std::int64_t head, const cpu::QueryBlock& block)
      : count(block.count) {
    if (gradients.prefix.empty()) return;
    const AttentionCall& call = *setup.call;
    first = static_cast<std::size_t>((s.batch * call.q.heads() + head) * call.q.tokens() +
                                     s.first_query) +
            block.first;
    all = gradients.prefix;
    carry = cpu::idle_carry(setup.problem(s, head));
    std::copy_n(gradients.carry.begin() + static_cast<std::ptrdiff_t>(first), count, carry.begin());
    std::copy_n(gradients.carry.begin() + static_cast<std::ptrdiff_t>(all.size() + first), count,
                carry.begin() + cpu::kQueryBlock);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first), count, prefix.begin());
  }
  void add_to(cpu::BackwardInputs& in) {
    if (all.empty()) return;
    in.carry = carry.data();
    in.prefix = prefix.data();
  }
  void keep() const {
    if (all.empty()) return;
    std::copy_n(prefix.begin(), count, all.begin() + static_cast<std::ptrdiff_t>(first));
  }

  std::size_t count;
  std::size_t first = 0;
  std::span<float> all;
  std::array<float, cpu::kCarry> carry{};
  std::array<float, cpu::kQueryBlock> prefix{};
};

void run_block(const AttentionBackwardCall& call, const AttentionSetup& setup, const Segment& s,
               std::int64_t head, std::size_t first, const SliceGradients& slice,
               TaskGradients& gradients, Mine& mine) {
  cpu::QueryBlock block;
  block.first = first;
  block.count = std::min(cpu::kQueryBlock, static_cast<std::size_t>(s.queries) - first);
  read_queries(setup, s, head, mine.turner, {mine.rows, mine.plain, mine.relative}, block);
  read_outputs(call, setup, s, head, block, gradients, slice.with_sinks, mine);
  cpu::BackwardOutputs out = gradients.outputs(setup, head);
  out.dq = mine.dq.data();
  out.dq_plain = setup.reads_plain() ? mine.dq_plain.data() : nullptr;
  const RelativeQuery* relative = setup.relative_query();
  if (relative != nullptr) {
    out.drelative_rows = (relative->has_own_rows() ? mine.drelative : mine.dq_plain).data();
  }
  fill_pairs(setup, s, head, block, mine.space.pairs);
  cpu::BackwardInputs in{mine.grad_out.data(), mine.lse.data(), mine.delta.data()};
  SliceBlock carried(setup, slice, s, head, block);
  carried.add_to(in);
  cpu::attention_backward_block(setup.problem(s, head), block, in, mine.space, out);
  carried.keep();
  gradients.finish_rows(setup, block);
  if (!setup.pairs.empty()) {
    gradients.add_pairs(setup, pair_block(setup, s, head, block), mine.space.dpairs);
  }
  write_relative(call, setup, s, head, block, mine);
  write_queries(call, setup, s, head, block, gradients, mine);
}

void run_task(const AttentionBackwardCall& call, const AttentionSetup& setup, const Task& task,
              std::int64_t splits, const SliceGradients& slice, TaskGradients& gradients,
              Mine& mine) {
  const Segment& s = setup.segments[task.segment];
  const std::int64_t group = setup.state->shape.heads / setup.state->kv_heads;
  const auto block = static_cast<std::int64_t>(cpu::kQueryBlock);
  for (std::int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
    for (std::int64_t first = task.split * block; first < s.queries; first += splits * block) {
      run_block(call, setup, s, h, static_cast<std::size_t>(first), slice, gradients, mine);
    }
  }
}

// Rows of the input that belong to no query.
void clear_unread(const AttentionBackwardCall& call, const AttentionSetup& setup) {
  const RelativeQuery* config = setup.relative_query();
  if (config == nullptr || !config->reads_input()) return;
  const TensorView& to =
      call.dinputs[first_input(setup.state->inputs, *setup.state->relative_query)];
  const AlignedFloats zeros(setup.relative_form.channel_stride);
  for (const Segment& s : setup.segments) {
    for (std::int64_t h = 0; h < to.heads(); ++h) {
      for (std::int64_t key = 0; key < std::min(s.place_offset(), s.keys); ++key) {
        write_row(to, s.batch, h, s.first_key + key, zeros.data());
      }
    }
  }
}

}  // namespace

Status run_backward(const AttentionBackwardCall& call, const AttentionSlice* slice,
                    const SliceGradients& carried) {
  path_trace().backward = AttentionPath::kFused;
  AttentionSetup setup;
  if (Status s = prepare_attention(call.forward, setup, true, slice); !s.ok()) return s;
  clear_unread(call, setup);
  const std::int64_t splits = backward_splits(call.forward, setup.segments.size());
  std::vector<Task> tasks;
  for (std::size_t s = 0; s < setup.segments.size(); ++s) {
    for (std::int64_t h = 0; h < setup.state->kv_heads; ++h) {
      for (std::int64_t split = 0; split < splits; ++split) tasks.push_back({s, h, split});
    }
  }
  std::vector<TaskGradients> gradients;
  for (const Task& task : tasks) {
    gradients.emplace_back(setup, setup.segments[task.segment], task.kv_head);
  }
  std::vector<Mine> all;
  for (int t = 0; t < num_threads(); ++t) all.emplace_back(setup);
  parallel_for(std::ssize(tasks), [&](std::int64_t task, int worker) {
    const auto index = static_cast<std::size_t>(task);
    run_task(call, setup, tasks[index], splits, carried, gradients[index], all[worker]);
  });
  write_key_gradients(call, setup, static_cast<std::size_t>(splits), gradients);
  if (slice != nullptr) {
    add_slice_sums(setup, static_cast<std::size_t>(splits), gradients, carried);
  }
  if (call.dparameters != nullptr) sum_parameter_gradients(setup, gradients, *call.dparameters);
  return {};
}

std::int64_t backward_splits(const AttentionCall& call, std::size_t segments) {
  const std::int64_t heads = static_cast<std::int64_t>(segments) * call.plan->state().kv_heads;
  const auto block = static_cast<std::int64_t>(cpu::kQueryBlock);
  const std::int64_t blocks = (call.q.tokens() + block - 1) / block;
  return std::clamp<std::int64_t>((kFewestTasks + heads - 1) / std::max<std::int64_t>(heads, 1), 1,
                                  std::max<std::int64_t>(blocks, 1));
}

Status attention_backward(const AttentionBackwardCall& call) noexcept {
  if (Status s = check_backward(call, false); !s.ok()) return s;
  return guarded(kOp, [&]() -> Status {
    const std::string obstacle = obstacle_of(call.forward);
    if (Status s = check_path(kOp, call.forward, obstacle); !s.ok()) return s;
    if (!obstacle.empty()) return reference_attention_backward(call);
    return run_backward(call, nullptr, {.with_sinks = true});
  });
}

}  // namespace posenc

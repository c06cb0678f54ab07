#include "posenc/kernels/linear_attention.h"

#include <algorithm>
#include <memory>

#include "core/thread_pool.h"
#include "kernels/guarded.h"
#include "kernels/linear_attention_forward.h"
#include "posenc/core/error.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr const char* kOp = "linear_attention";

std::vector<std::unique_ptr<LinearForward>> one_per_thread(const LinearSetup& setup) {
  std::vector<std::unique_ptr<LinearForward>> all;
  for (int t = 0; t < num_threads(); ++t) all.push_back(std::make_unique<LinearForward>(setup));
  return all;
}

Status run_forward(const LinearAttentionCall& call) {
  LinearSetup setup;
  if (Status s = prepare_linear(call, setup); !s.ok()) return s;
  const auto workers = one_per_thread(setup);
  const std::size_t outer = forward_shape(setup).state_floats();
  const std::size_t floats = outer + cpu::row_floats(setup.features());
  AlignedFloats sums(workers.size() * floats);
  const std::int64_t heads = setup.heads();
  const auto tasks = std::ssize(setup.segments) * heads;
  parallel_for(tasks, [&](std::int64_t task, int worker) {
    const auto mine = static_cast<std::size_t>(worker);
    float* state = sums.data() + mine * floats;
    std::fill_n(state, floats, 0.0f);
    workers[mine]->run(setup.segments[task / heads], task % heads, 1, {state, state + outer});
  });
  return {};
}

}  // namespace

Status linear_attention(const LinearAttentionCall& call) noexcept {
  if (Status s = check_linear(call); !s.ok()) return s;
  if (call.q.empty()) return {};
  return guarded(kOp, [&] { return run_forward(call); });
}

LinearAttentionState::LinearAttentionState(const AttentionPlan& plan,
                                           const std::vector<Parameters>* parameters,
                                           std::int64_t batch, LinearAttentionOptions options)
    : plan_(&plan),
      parameters_(parameters),
      batch_(batch),
      options_(options),
      heads_(sum_heads(plan.state())) {
  check_linear_options(plan, options).throw_if_error();
  if (batch < 0) {
    throw Error(ErrorKind::kOutOfRange, {.scope = "linear_attention",
                                         .key = "batch",
                                         .rule = "must be >= 0",
                                         .value = std::to_string(batch),
                                         .hint = ""});
  }
  LinearAttentionCall call;
  call.options = options;
  LinearSetup setup;
  setup.call = &call;
  setup.dim = static_cast<std::size_t>(plan.state().shape.head_dim);
  const auto count = static_cast<std::size_t>(batch * heads_);
  sums_.assign(count * forward_shape(setup).state_floats(), 0.0f);
  key_sums_.assign(count * cpu::row_floats(setup.features()), 0.0f);
}

void LinearAttentionState::reset() noexcept {
  std::fill(sums_.begin(), sums_.end(), 0.0f);
  std::fill(key_sums_.begin(), key_sums_.end(), 0.0f);
  tokens_ = 0;
}

LinearAttentionCall LinearAttentionState::call_of(const Step& step,
                                                  const std::vector<std::int64_t>& offsets) const {
  LinearAttentionCall call;
  call.plan = plan_;
  call.parameters = parameters_;
  call.q = step.q;
  call.k = step.k;
  call.v = step.v;
  call.out = step.out;
  call.mask.causal = true;
  call.options = options_;
  call.q_positions = step.positions;
  if (!step.positions.given()) call.q_positions.offsets = offsets;
  call.k_positions = call.q_positions;
  return call;
}

Status LinearAttentionState::step(const Step& step) noexcept {
  return guarded(kOp, [&]() -> Status {
    const std::vector<std::int64_t> offsets(batch_, tokens_);
    const LinearAttentionCall call = call_of(step, offsets);
    if (step.q.batch() != batch_ || step.k.tokens() != step.q.tokens()) {
      const bool batch = step.q.batch() != batch_;
      return Status::format(StatusCode::kInvalidArgument,
                            "[linear_attention] %s must be %lld, as the %s, but got %lld",
                            batch ? "batch of q" : "tokens of k",
                            static_cast<long long>(batch ? batch_ : step.q.tokens()),
                            batch ? "state has" : "queries have",
                            static_cast<long long>(batch ? step.q.batch() : step.k.tokens()));
    }
    if (Status s = check_linear(call); !s.ok()) return s;
    if (step.q.empty()) return {};
    LinearSetup setup;
    if (Status s = prepare_linear(call, setup); !s.ok()) return s;
    const auto workers = one_per_thread(setup);
    const std::int64_t sharing = setup.heads() / heads_;
    const std::size_t outer = forward_shape(setup).state_floats();
    const std::size_t keys = cpu::row_floats(setup.features());
    parallel_for(batch_ * heads_, [&](std::int64_t task, int worker) {
      const auto at = static_cast<std::size_t>(task);
      workers[worker]->run(setup.segments[at / static_cast<std::size_t>(heads_)],
                           task % heads_ * sharing, sharing,
                           {sums_.data() + at * outer, key_sums_.data() + at * keys});
    });
    tokens_ += step.q.tokens();
    return {};
  });
}

}  // namespace posenc

// With Z_i the denominator, g_i = grad_out_i / Z_i and e_i = -<grad_out_i, o_i> / Z_i:
//
//   dq'_i = SUM_j <g_i, v_j> k'_j    dk'_j = SUM_i <g_i, v_j> q'_i    dv_j = SUM_i <q'_i, k'_j> g_i
//
// and at the denominator's rows e_i SUM_j of those of the keys, and SUM_i e_i of those of the
// queries. dq needs sums over earlier keys, dk and dv over later queries: two walks that share
// nothing, so they are separate tasks.
#include <algorithm>
#include <array>
#include <memory>

#include "core/thread_pool.h"
#include "kernels/guarded.h"
#include "kernels/linear_attention_forward.h"
#include "kernels/linear_attention_gradients.h"
#include "kernels/view_checks.h"
#include "posenc/core/threads.h"

namespace posenc {
namespace {

constexpr const char* kOp = "linear_attention_backward";

struct NamedView {
  const char* name;
  ConstTensorView view;
};

Status check_gradient(const NamedView& gradient, const NamedView& of) noexcept {
  if (Status s = check_same_shape(kOp, gradient.name, gradient.view, of.name, of.view); !s.ok()) {
    return s;
  }
  return check_view(kOp, gradient.name, gradient.view);
}

// Tasks write gradients while others read: no output may touch anything else.
Status check_apart(const char* name, const TensorView& out, std::span<const NamedView> others) {
  for (const NamedView& other : others) {
    if (out.empty() || other.view.empty()) continue;
    if (out.data == other.view.data) {
      return Status::format(StatusCode::kInvalidArgument, "[%s] %s must not be %s", kOp, name,
                            other.name);
    }
    if (Status s = check_output(kOp, name, out, other.view); !s.ok()) return s;
  }
  return {};
}

Status check_call(const LinearAttentionBackwardCall& call) noexcept {
  const LinearAttentionCall& f = call.forward;
  if (Status s = check_linear(f); !s.ok()) return s;
  const std::int64_t rows = f.q.batch() * f.q.heads() * f.q.tokens();
  if (std::ssize(f.denominator) != rows) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] denominator of the forward must be kept", kOp);
  }
  if (Status s = check_gradient({"grad_out", call.grad_out}, {"q", f.q}); !s.ok()) return s;
  if (Status s = check_gradient({"dq", call.dq}, {"q", f.q}); !s.ok()) return s;
  if (Status s = check_gradient({"dk", call.dk}, {"k", f.k}); !s.ok()) return s;
  if (Status s = check_gradient({"dv", call.dv}, {"v", f.v}); !s.ok()) return s;
  const std::array<NamedView, 7> others = {{{"q", f.q},
                                            {"k", f.k},
                                            {"v", f.v},
                                            {"out", f.out},
                                            {"grad_out", call.grad_out},
                                            {"dk", call.dk},
                                            {"dv", call.dv}}};
  const std::span<const NamedView> all(others);
  if (Status s = check_apart("dq", call.dq, all); !s.ok()) return s;
  if (Status s = check_apart("dk", call.dk, all.first(5)); !s.ok()) return s;
  if (Status s = check_apart("dk", call.dk, all.last(1)); !s.ok()) return s;
  return check_apart("dv", call.dv, all.first(5));
}

Status run_backward(const LinearAttentionBackwardCall& call) {
  LinearSetup setup;
  if (Status s = prepare_linear(call.forward, setup); !s.ok()) return s;
  // Per segment: first its query heads, each with its dq, then its key heads with dk and dv.
  const std::int64_t heads = setup.heads();
  const std::int64_t per_segment = heads + setup.state->kv_heads;
  const auto tasks = std::ssize(setup.segments) * per_segment;
  FrequencyGradients frequencies(setup, static_cast<std::size_t>(tasks));
  std::vector<std::unique_ptr<LinearBackward>> workers;
  for (int t = 0; t < num_threads(); ++t) {
    workers.push_back(std::make_unique<LinearBackward>(call, setup));
  }
  parallel_for(tasks, [&](std::int64_t task, int worker) {
    LinearBackward& mine = *workers[worker];
    const Segment& s = setup.segments[task / per_segment];
    const std::int64_t head = task % per_segment;
    const auto& dfrequencies = frequencies.of_task(static_cast<std::size_t>(task));
    if (head < heads) {
      mine.run_queries(s, head, dfrequencies);
    } else {
      mine.run_keys(s, head - heads, dfrequencies);
    }
  });
  if (call.dparameters != nullptr) frequencies.write(setup, *call.dparameters);
  return {};
}

}  // namespace

Status linear_attention_backward(const LinearAttentionBackwardCall& call) noexcept {
  if (Status s = check_call(call); !s.ok()) return s;
  return guarded(kOp, [&] { return run_backward(call); });
}

}  // namespace posenc

#include "model/recompute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <mutex>

#include "torch/torch_version.h"

namespace posenc::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where the generator of a device stands; restore() puts it back there.
class GeneratorState {
 public:
  explicit GeneratorState(at::Device device) : device_(device) {
    at::Generator generator = current();
    const std::lock_guard lock(generator.mutex());
    state_ = generator.get_state();
  }
  void restore() const {
    at::Generator generator = current();
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state_);
  }

 private:
  [[nodiscard]] at::Generator current() const {
    return at::globalContext().defaultGenerator(device_);
  }
  at::Device device_;
  at::Tensor state_;
};

// Of this thread: a backward pass on a GPU runs on another one.
struct Autocast {
  bool on = false;
  at::ScalarType type = at::kFloat;

  static Autocast current() {
#if POSENC_TORCH_AT_LEAST(2, 4)
    return {at::autocast::is_autocast_enabled(at::kCUDA),
            at::autocast::get_autocast_dtype(at::kCUDA)};
#else
    return {at::autocast::is_enabled(), at::autocast::get_autocast_gpu_dtype()};
#endif
  }
  void set() const {
#if POSENC_TORCH_AT_LEAST(2, 4)
    at::autocast::set_autocast_dtype(at::kCUDA, type);
    at::autocast::set_autocast_enabled(at::kCUDA, on);
#else
    at::autocast::set_autocast_gpu_dtype(type);
    at::autocast::set_enabled(on);
#endif
  }
};

class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& wanted) : before_(Autocast::current()) { wanted.set(); }
  ~AutocastScope() { before_.set(); }
  AutocastScope(AutocastScope&&) = delete;
  AutocastScope& operator=(AutocastScope&&) = delete;

 private:
  Autocast before_;
};

// One run of a block: what it was given, and what it drew from.
struct BlockRun : torch::CustomClassHolder {
  Block block{nullptr};
  at::Tensor key_mask, positions;
  std::int64_t calls = 0;
  bool has_branch = false, has_scale = false;  // among its inputs, after x
  BatchRows::Range rows = BatchRows::current();
  Autocast autocast = Autocast::current();
  std::unique_ptr<GeneratorState> draws;

  [[nodiscard]] variable_list run(at::TensorList inputs) const {
    Block here = block;
    if (!here->attention.is_empty()) here->attention->set_calls(calls);
    const at::Tensor branch = has_branch ? inputs[1] : at::Tensor();
    const at::Tensor scale = has_scale ? inputs.back() : at::Tensor();
    const Residual out = here->forward({inputs[0], branch}, key_mask, positions, scale);
    return out.branch.defined() ? variable_list{out.x, out.branch} : variable_list{out.x};
  }
};

// With gradients kept, from the same draws.
variable_list run_again(const BlockRun& run, const variable_list& inputs) {
  const GeneratorState now(inputs[0].device());
  const at::AutoGradMode keep(true);
  const BatchRows rows(run.rows);
  const AutocastScope precision(run.autocast);
  run.draws->restore();
  variable_list outputs = run.run(inputs);
  now.restore();
  return outputs;
}

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<BlockRun>& run) {
    context->save_for_backward(inputs.vec());
    context->saved_data["run"] = c10::IValue::make_capsule(run);
    run->draws = std::make_unique<GeneratorState>(inputs[0].device());
    return run->run(inputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto run =
        c10::static_intrusive_pointer_cast<BlockRun>(context->saved_data["run"].toCapsule());
    variable_list inputs;
    for (const at::Tensor& x : context->get_saved_variables()) {
      inputs.push_back(x.detach().requires_grad_(x.requires_grad()));
    }
    torch::autograd::backward(run_again(*run, inputs), gradients);
    variable_list results;
    for (const at::Tensor& x : inputs) results.push_back(x.grad());
    results.emplace_back();  // of the run
    return results;
  }
};

}  // namespace

Residual recomputed(const Block& block, const Residual& in, const at::Tensor& key_mask,
                    const at::Tensor& positions, const at::Tensor& query_scale,
                    std::int64_t calls) {
  auto run = c10::make_intrusive<BlockRun>();
  run->block = block;
  run->key_mask = key_mask;
  run->positions = positions;
  run->calls = calls;
  run->has_branch = in.branch.defined();
  run->has_scale = query_scale.defined();
  variable_list inputs = {in.x};
  if (run->has_branch) inputs.push_back(in.branch);
  if (run->has_scale) inputs.push_back(query_scale);
  const variable_list out = Recompute::apply(at::TensorList(inputs), run);
  return {out[0], out.size() > 1 ? out[1] : at::Tensor()};
}

}  // namespace posenc::model

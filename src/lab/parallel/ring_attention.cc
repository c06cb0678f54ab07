#include "parallel/ring_attention.h"

#include "parallel/ring_call.h"
#include "torch/autograd.h"

namespace posenc::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using RingPointer = c10::intrusive_ptr<RingCall>;

enum Tag : int { kForwardKeys = 1, kBackwardKeys, kGradients };

// This rank's keys on their way to all ranks that visit them. A message leaves when its receiver is ready for it.
class KeySender {
 public:
  KeySender(RingCall& ring, Tag tag) : ring_(ring) {
    const int world = ring.schedule->world();
    for (int step = 0; step < world; ++step) {
      const int at = tag == kForwardKeys ? step : world - 1 - step;
      for (const int rank : ring.schedule->visitors(ring.ranks.rank(), at)) {
        if (!packet_.defined()) packet_ = packed(ring.own.tensors());
        sent_.push_back(ring.ranks.start_send(packet_, rank, tag));
      }
    }
  }
  [[nodiscard]] std::int64_t bytes() const {
    return packet_.defined() ? static_cast<std::int64_t>(sent_.size()) * packet_.numel() : 0;
  }
  void wait() {
    for (const auto& sent : sent_) ring_.ranks.wait(*sent);
  }

 private:
  RingCall& ring_;
  at::Tensor packet_;
  std::vector<std::unique_ptr<Exchange>> sent_;
};

// The slices of keys in the order in which this rank visits them; the next one arrives while one is worked on.
class KeyReceiver {
 public:
  KeyReceiver(RingCall& ring, Tag tag) : ring_(ring), tag_(tag) {
    const int world = ring.schedule->world();
    for (int step = 0; step < world; ++step) {
      const int at = tag == kForwardKeys ? step : world - 1 - step;
      const int slice = ring.schedule->slice(ring.ranks.rank(), at);
      if (slice >= 0) visits_.push_back(slice);
    }
    request();
  }
  // The keys of the rank, which must be the next one.
  KeySlice take() {
    const int rank = visits_[next_++];
    at::Tensor packet = std::exchange(packet_, {});
    const std::unique_ptr<Exchange> arriving = std::exchange(arriving_, nullptr);
    request();
    if (!packet.defined()) return ring_.own;
    ring_.ranks.wait(*arriving);
    return ring_.unpack(packet, rank);
  }

 private:
  void request() {
    if (next_ == visits_.size() || visits_[next_] == ring_.ranks.rank()) return;
    packet_ = ring_.empty_keys(visits_[next_]);
    arriving_ = ring_.ranks.start_receive(packet_, visits_[next_], tag_);
  }

  RingCall& ring_;
  Tag tag_;
  std::vector<int> visits_;
  std::size_t next_ = 0;
  at::Tensor packet_;
  std::unique_ptr<Exchange> arriving_;
};

// Gradients of this rank's keys that others have computed, added up in the order of the steps, one at a time.
class GradientReceiver {
 public:
  GradientReceiver(RingCall& ring, KeyGradients& sum) : ring_(ring), sum_(sum) {
    const int world = ring.schedule->world();
    for (int step = 0; step < world; ++step) {
      for (const int rank : ring.schedule->visitors(ring.ranks.rank(), world - 1 - step)) {
        expected_.push_back({step, rank});
      }
    }
    if (!expected_.empty()) part_ = ring.empty_gradients(ring.ranks.rank());
    request();
  }
  // Adds those that were computed in steps up to this one.
  void add_until(int step) {
    while (next_ < expected_.size() && expected_[next_].step <= step) {
      ring_.ranks.wait(*arriving_);
      sum_ += part_;
      ++next_;
      request();
    }
  }

 private:
  struct Part {
    int step;
    int rank;
  };
  void request() {
    if (next_ == expected_.size()) return;
    arriving_ = ring_.ranks.start_receive(part_.packet, expected_[next_].rank, kGradients);
  }

  RingCall& ring_;
  KeyGradients& sum_;
  KeyGradients part_;
  std::vector<Part> expected_;
  std::size_t next_ = 0;
  std::unique_ptr<Exchange> arriving_;
};

// Gradients of others' keys on their way home: one is sent while the next one is computed.
class GradientSender {
 public:
  explicit GradientSender(RingCall& ring) : ring_(ring) {}
  void send(const KeyGradients& gradients, int rank) {
    wait();
    packet_ = gradients.packet;
    sent_ = ring_.ranks.start_send(packet_, rank, kGradients);
    bytes_ += packet_.numel();
  }
  void wait() {
    if (sent_ != nullptr) ring_.ranks.wait(*sent_);
    sent_ = nullptr;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  RingCall& ring_;
  at::Tensor packet_;
  std::unique_ptr<Exchange> sent_;
  std::int64_t bytes_ = 0;
};

variable_list run_forward(RingCall& ring) {
  const at::Tensor out = ops::empty_output(ring.q, ring.own.v);
  const at::Tensor lse =
      at::empty({out.size(0), out.size(1), out.size(2)}, out.options().dtype(at::kFloat));
  SliceRows rows = ring.first_rows(out);
  KeySender sender(ring, kForwardKeys);
  KeyReceiver keys(ring, kForwardKeys);
  for (int step = 0; step < ring.schedule->world(); ++step) {
    const int rank = ring.schedule->slice(ring.ranks.rank(), step);
    if (rank >= 0) ring.add_keys(rank, keys.take(), out, rows);
  }
  ring.finish(rows, out, lse);
  sender.wait();
  if (ring.ring.traffic) ring.ring.traffic->forward += sender.bytes();
  return {out, lse};
}

// The steps of the forward, the last one first.
KeyGradients run_backward(RingCall& ring, RingCall::Sums& sums) {
  KeyGradients own = ring.empty_gradients(ring.ranks.rank());
  KeySender sender(ring, kBackwardKeys);
  KeyReceiver keys(ring, kBackwardKeys);
  GradientReceiver arriving(ring, own);
  GradientSender leaving(ring);
  const int world = ring.schedule->world();
  for (int step = 0; step < world; ++step) {
    const int rank = ring.schedule->slice(ring.ranks.rank(), world - 1 - step);
    if (rank >= 0) {
      const KeyGradients part = ring.empty_gradients(rank);
      ring.add_gradients(rank, keys.take(), sums, part);
      if (rank == ring.ranks.rank()) {
        own += part;
      } else {
        leaving.send(part, rank);
      }
    }
    arriving.add_until(step - 1);
  }
  arriving.add_until(world);
  leaving.wait();
  sender.wait();
  ring.finish_sums(sums, own);
  if (ring.ring.traffic) ring.ring.traffic->backward += sender.bytes() + leaving.bytes();
  return own;
}

at::Tensor parameter_gradient(RingCall& ring, const RingCall::Sums& sums,
                              const at::Tensor& parameters) {
  if (!sums.wants_parameters || parameters.numel() == 0) return at::zeros_like(parameters);
  at::Tensor gradient =
      ops::join_parameters(*ring.prepared, sums.dparameters, parameters.to(at::kDouble));
  if (ring.ring.sum_parameters) ring.ranks.sum(gradient);
  return gradient.to(parameters.scalar_type());
}

class RingFunction : public torch::autograd::Function<RingFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& parameters,
                               at::TensorList inputs, const RingPointer& ring) {
    ring->bind(q, k, v, parameters, inputs);
    variable_list results = run_forward(*ring);
    ring->release();
    variable_list kept = {q, k, v, parameters, results[0], results[1]};
    kept.insert(kept.end(), inputs.begin(), inputs.end());
    ops::save_tensors(*ctx, kept);
    ctx->saved_data["ring"] = c10::IValue::make_capsule(ring);
    ctx->mark_non_differentiable({results[1]});
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) ops::refuse_double_backward("ring_attention");
    constexpr std::size_t kSaved = 6;
    const variable_list t = ctx->get_saved_variables();
    auto ring = c10::static_intrusive_pointer_cast<RingCall>(ctx->saved_data["ring"].toCapsule());
    const at::TensorList inputs = at::TensorList(t).slice(kSaved);
    ring->bind(t[0], t[1], t[2], t[3], inputs);
    RingCall::Sums sums;
    sums.out = t[4];
    sums.lse = t[5];
    sums.grad_out = gradients[0].to(t[0].scalar_type()).contiguous();
    sums.wants_parameters = ctx->needs_input_grad(3);
    ring->clear(sums);
    const KeyGradients own = run_backward(*ring, sums);
    variable_list all = {sums.dq.to(t[0].scalar_type()), own.dk.to(t[1].scalar_type()),
                         own.dv.to(t[2].scalar_type()), parameter_gradient(*ring, sums, t[3])};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      all.push_back(own.dinputs[i].to(inputs[i].scalar_type()));
    }
    all.emplace_back();  // of the ring itself
    ring->release();
    return all;
  }
};

}  // namespace

at::Tensor ring_attention(Ranks& ranks, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const std::string& spec, at::TensorList parameters,
                          const ops::AttentionOptions& options, const RingOptions& ring) {
  const auto call = c10::make_intrusive<RingCall>(ranks, q, k, v, spec, options, ring);
  return RingFunction::apply(q, k, v, ops::joined(parameters, q), at::TensorList(options.inputs),
                             call)[0];
}

}  // namespace posenc::parallel

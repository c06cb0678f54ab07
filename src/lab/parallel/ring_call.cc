#include "parallel/ring_call.h"

#include <algorithm>
#include <array>
#include <functional>

#include "kernels/terms.h"

namespace posenc::parallel {
namespace {

constexpr const char* kRing = "ring_attention";

std::vector<double> values_in(const at::Tensor& x) {
  return {x.data_ptr<double>(), x.data_ptr<double>() + x.numel()};
}

std::span<double> span_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {x.data_ptr<double>(), static_cast<std::size_t>(x.numel())};
}

// What must be the same on all ranks, as numbers; the tokens come first and may differ.
constexpr std::array<const char*, 7> kNames = {
    "batch", "heads", "key heads", "channels", "channels of v", "type", "spec or options"};

void refuse(const char* name, bool given) {
  TORCH_CHECK(!given, "[", kRing, "] ", name,
              " is not supported over several ranks; leave it out, or use attention() on one "
              "process");
}

void check_tensors(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  ops::check_rows(kRing, "q", q, q);
  ops::check_rows(kRing, "k", k, q);
  ops::check_rows(kRing, "v", v, q);
  TORCH_CHECK(q.is_cpu(), "[", kRing, "] q must be on the CPU but is on ", q.device(),
              "; the ring runs over Gloo");
  TORCH_CHECK(ops::storage_type(q.scalar_type()), "[", kRing,
              "] q must be float32, bfloat16 or float16 but got ", q.scalar_type());
  TORCH_CHECK(q.size(2) == k.size(2), "[", kRing,
              "] q and k must be slices of the same tokens but ", "got ", q.size(2), " and ",
              k.size(2));
  TORCH_CHECK(q.size(2) > 0, "[", kRing,
              "] every rank needs at least one token but got 0; use fewer ranks");
}

// Adds where there is something; takes over where there is nothing yet.
void add_parameters(const std::vector<Parameters>& from, std::vector<Parameters>& to) {
  if (to.empty()) {
    to = from;
    return;
  }
  for (std::size_t e = 0; e < from.size(); ++e) {
    for (std::size_t n = 0; n < from[e].size(); ++n) {
      std::transform(from[e][n].begin(), from[e][n].end(), to[e][n].begin(), to[e][n].begin(),
                     std::plus<>());
    }
  }
}

}  // namespace

std::vector<at::Tensor> KeySlice::tensors() const {
  std::vector<at::Tensor> all = {k, v};
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (mask.defined()) all.push_back(mask);
  if (sums.defined()) all.push_back(sums);
  return all;
}

KeyGradients& KeyGradients::operator+=(const KeyGradients& other) {
  dk += other.dk;
  dv += other.dv;
  for (std::size_t i = 0; i < dinputs.size(); ++i) dinputs[i] += other.dinputs[i];
  if (dsums.defined()) dsums += other.dsums;
  return *this;
}

// A call of the kernels, and what its views point into.
struct RingCall::Views {
  std::vector<ConstTensorView> inputs;
  AttentionCall call;
};

RingCall::RingCall(Ranks& of, const at::Tensor& queries, const at::Tensor& k, const at::Tensor& v,
                   const std::string& spec, const ops::AttentionOptions& options,
                   RingOptions of_ring)
    : ranks(of), ring(std::move(of_ring)) {
  check_tensors(queries, k, v);
  refuse("cu_queries", options.cu_queries.defined());
  refuse("cu_keys", options.cu_keys.defined());
  refuse("q_positions", options.q_positions.defined());
  refuse("k_positions", options.k_positions.defined());
  refuse("keys_are_turned", options.keys_are_turned);
  agree(queries, k, v, spec, options);
  const std::int64_t length =
      schedule->first(ranks.world() - 1) + schedule->length(ranks.world() - 1);
  const ModelShape shape{.head_dim = queries.size(3), .heads = queries.size(1)};
  prepared = ops::prepare(spec, shape, k.size(1), length);
  // Tables of all positions would grow with the whole length.
  plan_.emplace(prepared->spec, shape, k.size(1), Lengths{length},
                CachePolicy{.mode = CachePolicy::Mode::kOnDemand});
  const std::string obstacle = slice_obstacle(*plan_);
  TORCH_CHECK(obstacle.empty(), "[", kRing, "] ", obstacle);
  mask_.causal = options.causal;
  mask_.window_left = options.window_left;
  mask_.window_right = options.window_right;
  scale_ = options.scale;
  dropout_ = {options.dropout, static_cast<std::uint64_t>(options.seed)};
  key_mask_ = ops::key_mask_on(
      at::kCPU, kRing,
      options.key_mask.defined() ? ops::OptionalTensor(options.key_mask) : ops::OptionalTensor(),
      k);
  std::vector<std::int64_t> lengths;
  for (int r = 0; r < ranks.world(); ++r) lengths.push_back(schedule->length(r));
  const bool causal = options.causal || plan_->terms().breaks_sticks;
  schedule.emplace(std::move(lengths), RingMask{causal, options.window_left, options.window_right},
                   carries_sum(*plan_));
  carries_.resize(static_cast<std::size_t>(ranks.world()));
}

// All ranks find the same difference, and say the same.
void RingCall::agree(const at::Tensor& queries, const at::Tensor& k, const at::Tensor& v,
                     const std::string& spec, const ops::AttentionOptions& o) {
  std::string text = spec;
  for (const double x : {o.causal ? 1.0 : 0.0, static_cast<double>(o.window_left),
                         static_cast<double>(o.window_right), o.scale.value_or(-1.0), o.dropout,
                         static_cast<double>(o.seed), o.key_mask.defined() ? 1.0 : 0.0}) {
    text += " " + std::to_string(x);
  }
  const std::vector<std::int64_t> mine = {
      queries.size(2),
      queries.size(0),
      queries.size(1),
      k.size(1),
      queries.size(3),
      v.size(3),
      static_cast<std::int64_t>(queries.scalar_type()),
      static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1)};
  const std::vector<at::Tensor> all = ranks.gather(at::tensor(mine, at::kLong));
  const auto number = [&](std::size_t rank, std::size_t i) {
    return all[rank].data_ptr<std::int64_t>()[i];
  };
  std::vector<std::int64_t> lengths;
  for (std::size_t r = 0; r < all.size(); ++r) {
    lengths.push_back(number(r, 0));
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      TORCH_CHECK(number(r, i + 1) == number(0, i + 1), "[", kRing, "] ", kNames[i], " of rank ", r,
                  " and of rank 0 differ; call it with the same on all ranks");
    }
  }
  schedule.emplace(std::move(lengths), RingMask{}, false);
}

void RingCall::bind(const at::Tensor& queries, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& parameters, at::TensorList inputs) {
  q = queries.contiguous();
  own.k = k.contiguous();
  own.v = v.contiguous();
  own.mask = key_mask_;
  const std::vector<SpecInput>& wanted = plan_->terms().inputs;
  TORCH_CHECK(inputs.size() == wanted.size(), "[", kRing, "] inputs must be ",
              plan_->terms().input_names, " but got ", inputs.size(), " tensors");
  own.inputs.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ops::check_rows(kRing, wanted[i].info.name.c_str(), inputs[i], q, wanted[i].info.float32);
    own.inputs.push_back(inputs[i].contiguous());
  }
  values_ = ops::split_parameters(*prepared, parameters);
  if (has_token_sums(*plan_)) find_sums();
}

void RingCall::release() {
  q.reset();
  own = {};
}

// Totals [B, H] of the ranks before this one, or of those after it, added up.
at::Tensor RingCall::shared_totals(const std::vector<double>& mine, bool before) const {
  const std::vector<at::Tensor> all = ranks.gather(at::tensor(mine, at::kDouble));
  at::Tensor sum = at::zeros_like(all[0]);
  for (int r = 0; r < ranks.world(); ++r) {
    if (before ? r < ranks.rank() : r > ranks.rank()) sum += all[static_cast<std::size_t>(r)];
  }
  return sum;
}

void RingCall::find_sums() {
  const Views views = call(own, q);
  const at::Tensor before = shared_totals(slice_totals(views.call), true);
  const SliceSums sums = slice_sums(views.call, span_of(before));
  query_sums_ = sums.at_query;
  own.sums = at::tensor(sums.at_key, at::kDouble).view({q.size(0), q.size(1), q.size(2)});
}

PacketLayout RingCall::key_layout(int rank) const {
  const std::int64_t tokens = schedule->length(rank);
  PacketLayout layout;
  for (const at::Tensor& x : own.tensors()) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[x.dim() == 2 ? 1 : 2] = tokens;
    layout.add(sizes, x.scalar_type());
  }
  return layout;
}

KeySlice RingCall::unpack(const at::Tensor& packet, int rank) const {
  const std::vector<at::Tensor> parts = key_layout(rank).parts(packet);
  KeySlice keys{parts[0], parts[1], {}, {}, {}};
  std::size_t at = 2;
  for (std::size_t i = 0; i < own.inputs.size(); ++i) keys.inputs.push_back(parts[at++]);
  if (own.mask.defined()) keys.mask = parts[at++];
  if (own.sums.defined()) keys.sums = parts[at++];
  return keys;
}

KeyGradients RingCall::empty_gradients(int rank) const {
  PacketLayout layout;
  const auto add = [&](const at::Tensor& x, at::ScalarType type) {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes[2] = schedule->length(rank);
    layout.add(sizes, type);
  };
  add(own.k, at::kFloat);
  add(own.v, at::kFloat);
  for (const at::Tensor& x : own.inputs) add(x, at::kFloat);
  if (own.sums.defined()) add(own.sums, at::kDouble);
  KeyGradients made{layout.allocate(), {}, {}, {}, {}};
  const std::vector<at::Tensor> parts = layout.parts(made.packet);
  made.dk = parts[0];
  made.dv = parts[1];
  const auto inputs = static_cast<std::ptrdiff_t>(own.inputs.size());
  made.dinputs.assign(parts.begin() + 2, parts.begin() + 2 + inputs);
  if (own.sums.defined()) made.dsums = parts.back();
  return made;
}

RingCall::Views RingCall::call(const KeySlice& keys, const at::Tensor& out) const {
  Views views;
  for (const at::Tensor& x : keys.inputs) views.inputs.emplace_back(ops::view_of(x));
  AttentionCall& made = views.call;
  made.plan = &*plan_;
  made.parameters = &values_;
  made.q = ops::view_of(q);
  made.k = ops::view_of(keys.k);
  made.v = ops::view_of(keys.v);
  made.inputs = views.inputs;
  made.out = ops::view_of(out);
  made.mask = mask_;
  if (keys.mask.defined()) made.mask.key_mask = keys.mask.data_ptr<std::uint8_t>();
  made.scale = scale_;
  made.dropout = dropout_;
  return views;
}

AttentionSlice RingCall::slice(int rank, const KeySlice& keys) const {
  return {schedule->first(ranks.rank()), schedule->first(rank), query_sums_, span_of(keys.sums)};
}

SliceRows RingCall::first_rows(const at::Tensor& out) const {
  return SliceRows(call(own, out).call);
}

void RingCall::add_keys(int rank, const KeySlice& keys, const at::Tensor& out, SliceRows& rows) {
  if (carries_sum(*plan_)) carries_[static_cast<std::size_t>(rank)] = rows.carry;
  attention_slice(call(keys, out).call, slice(rank, keys), rows).throw_if_error();
}

void RingCall::finish(SliceRows& rows, const at::Tensor& out, const at::Tensor& lse) const {
  Views views = call(own, out);
  views.call.lse = {lse.data_ptr<float>(), static_cast<std::size_t>(lse.numel())};
  finish_slices(views.call, slice(ranks.rank(), own), rows).throw_if_error();
}

void RingCall::clear(Sums& sums) const {
  sums.dq = at::zeros(q.sizes(), at::kFloat);
  const auto rows = static_cast<std::size_t>(sums.lse.numel());
  sums.prefix.assign(carries_sum(*plan_) ? rows : 0, 0.0f);
  sums.dqueries.assign(has_token_sums(*plan_) ? rows : 0, 0.0);
}

void RingCall::add_gradients(int rank, const KeySlice& keys, Sums& sums,
                             const KeyGradients& to) const {
  Views views = call(keys, sums.out);
  views.call.lse = {sums.lse.data_ptr<float>(), static_cast<std::size_t>(sums.lse.numel())};
  const at::Tensor dq = at::empty_like(sums.dq);
  std::vector<TensorView> dinputs;
  for (const at::Tensor& x : to.dinputs) dinputs.push_back(ops::view_of(x));
  std::vector<Parameters> dparameters;
  AttentionBackwardCall backward;
  backward.forward = views.call;
  backward.grad_out = ops::view_of(sums.grad_out);
  backward.dq = ops::view_of(dq);
  backward.dk = ops::view_of(to.dk);
  backward.dv = ops::view_of(to.dv);
  backward.dinputs = dinputs;
  if (sums.wants_parameters) backward.dparameters = &dparameters;
  SliceGradients carried;
  carried.prefix = sums.prefix;
  if (!sums.prefix.empty()) carried.carry = carries_[static_cast<std::size_t>(rank)];
  carried.dquery_sums = sums.dqueries;
  carried.dkey_sums = span_of(to.dsums);
  carried.with_sinks = rank == ranks.rank();
  attention_slice_backward(backward, slice(rank, keys), carried).throw_if_error();
  sums.dq += dq;
  if (sums.wants_parameters) add_parameters(dparameters, sums.dparameters);
}

void RingCall::finish_sums(const Sums& sums, const KeyGradients& to) {
  if (!own.sums.defined()) return;
  const at::Tensor all = to.dsums + at::tensor(sums.dqueries, at::kDouble).view(to.dsums.sizes());
  const at::Tensor after = shared_totals(values_in(all.sum(2).reshape({-1})), false);
  slice_sums_backward(call(own, q).call, span_of(all), span_of(after),
                      ops::view_of(to.dinputs[token_input(*plan_)]));
}

}  // namespace posenc::parallel

// Queries times distances of a case on the GPU: the table and the vectors u there, and their gradients brought back.
#pragma once

#include <cmath>
#include <optional>

#include "cases/attention_data.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.h"

namespace posenc::cuda::testing {

class RelativeDevice {
 public:
  // `index`: of the encoding.
  RelativeDevice(cases::AttentionData& data, std::size_t index, AttentionBackwardParams& params)
      : d_(data), index_(index), params_(params) {
    const auto& config = std::get<RelativeQuery>(d_.spec.encodings[index]);
    const std::vector<double>& values = d_.parameters[index][0];
    table_ = Bytes(std::vector<float>(values.begin(), values.end()));
    dtable_ = Bytes(std::vector<float>(values.size(), NAN));
    RelativeTable& to = params.forward.relative;
    to.entries = static_cast<int>(config.entries());
    to.lowest = static_cast<int>(config.lowest());
    to.clips = config.beyond == RelativeQuery::Beyond::kClip;
    to.rank = static_cast<int>(config.channels(d_.c.head_dim));
    to.table = table_.as<float>();
    to.head_stride = config.table_of(1, d_.c.head_dim);
    to.factor = static_cast<float>(config.factor(static_cast<double>(params.forward.scale)));
    params.drelative_table = dtable_.as<float>();
    if (config.reads_input()) fill_input(to);
  }

  void bring_back() {
    const std::vector<float> gradient = dtable_.values<float>();
    d_.dparameters[index_][0].assign(gradient.begin(), gradient.end());
    if (!du_) return;
    du_->bring_back();
    const std::vector<double> from = host_du_.values();
    std::vector<double> to(d_.dinputs[input_].values().size(), 0.0);
    each_row([&](std::int64_t head, std::int64_t query, std::int64_t token) {
      const std::int64_t row = (head * d_.c.queries + query) * channels_;
      for (std::int64_t c = 0; c < rank_; ++c) {
        to[static_cast<std::size_t>((head * d_.c.keys + token) * rank_ + c)] =
            from[static_cast<std::size_t>(row + c)];
      }
    });
    d_.dinputs[input_].assign(to);
  }

 private:
  // Rows of queries at their own tokens, with zeros up to a multiple of eight channels.
  void fill_input(RelativeTable& to) {
    input_ = first_input(d_.token_inputs, index_);
    rank_ = to.rank;
    channels_ = (rank_ + 7) / 8 * 8;
    const std::array<std::int64_t, 4> shape = {d_.c.batch, d_.c.heads, d_.c.queries, channels_};
    host_u_ = cases::Tensor(shape, d_.c.dtype);
    host_du_ = cases::Tensor(shape, d_.c.dtype);
    host_du_.fill(NAN);
    const std::vector<double> from = d_.inputs[input_].values();
    std::vector<double> u(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.0);
    each_row([&](std::int64_t head, std::int64_t query, std::int64_t token) {
      const std::int64_t row = (head * d_.c.queries + query) * channels_;
      for (std::int64_t c = 0; c < rank_; ++c) {
        u[static_cast<std::size_t>(row + c)] =
            from[static_cast<std::size_t>((head * d_.c.keys + token) * rank_ + c)];
      }
    });
    host_u_.assign(u);
    u_.emplace(host_u_);
    du_.emplace(host_du_);
    to.u = tensor(*u_);
    params_.drelative_u = tensor(*du_);
  }
  static Tensor4 tensor(const Mirror& x) {
    const TensorView view = x.view();
    return {view.data, view.stride[0], view.stride[1], view.stride[2]};
  }
  // Calls f(batch and head, query, its own token) where there is such a token.
  template <class F>
  void each_row(const F& f) const {
    const std::vector<std::int64_t> whole_queries = {0, d_.c.queries};
    const std::vector<std::int64_t> whole_keys = {0, d_.c.keys};
    const auto& queries = d_.c.cumulative.empty() ? whole_queries : d_.c.cumulative;
    const auto& keys = d_.c.cumulative.empty()        ? whole_keys
                       : d_.c.cumulative_keys.empty() ? d_.c.cumulative
                                                      : d_.c.cumulative_keys;
    for (std::int64_t head = 0; head < d_.c.batch * d_.c.heads; ++head) {
      for (std::size_t s = 0; s + 1 < queries.size(); ++s) {
        for (std::int64_t query = queries[s]; query < queries[s + 1]; ++query) {
          const std::int64_t token = keys[s + 1] - (queries[s + 1] - query);
          if (token >= keys[s]) f(head, query, token);
        }
      }
    }
  }

  cases::AttentionData& d_;
  std::size_t index_;
  AttentionBackwardParams& params_;
  std::size_t input_ = 0;
  std::int64_t rank_ = 0;
  std::int64_t channels_ = 0;
  cases::Tensor host_u_, host_du_;
  std::optional<Mirror> u_, du_;
  Bytes table_, dtable_;
};

}  // namespace posenc::cuda::testing

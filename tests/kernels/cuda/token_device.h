// The term per token of a case on the GPU: its sums made there, and its input's gradient brought back.
#pragma once

#include <cmath>
#include <numeric>

#include "cases/attention_data.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/token_prune.h"
#include "kernels/cuda/token_sums.h"

namespace posenc::cuda::testing {

class TokenDevice {
 public:
  // `index`: of the encoding. The params' masks and sequences are filled.
  TokenDevice(cases::AttentionData& data, std::size_t index, AttentionBackwardParams& params)
      : d_(data), input_(first_input(data.token_inputs, index)), params_(params) {
    const AttentionParams& p = params.forward;
    const std::vector<double> values = d_.inputs[input_].values();
    x_ = Bytes(std::vector<float>(values.begin(), values.end()));
    const auto rows = static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(p.heads);
    queries_ = Bytes(std::vector<double>(rows * static_cast<std::size_t>(p.queries), NAN));
    keys_ = Bytes(std::vector<double>(rows * static_cast<std::size_t>(p.keys), NAN));
    dqueries_ = Bytes(std::vector<float>(rows * static_cast<std::size_t>(p.queries), NAN));
    dkeys_ = Bytes(std::vector<float>(rows * static_cast<std::size_t>(p.keys), NAN));
    dx_ = Bytes(std::vector<float>(values.size(), NAN));
    scan_ = {.form = *token_form(d_.spec.encodings[index], static_cast<double>(p.scale)),
             .x = x_.as<float>(),
             .batch = p.batch,
             .heads = p.heads,
             .input_heads = static_cast<std::int32_t>(d_.inputs[input_].view().heads()),
             .queries = p.queries,
             .keys = p.keys,
             .key_mask = p.key_mask,
             .segments = p.segments,
             .segment_count = p.segment_count};
    launch_token_sums(scan_, queries_.as<double>(), keys_.as<double>(), nullptr).throw_if_error();
    params_.forward.tokens = {queries_.as<double>(), keys_.as<double>()};
    const auto* fox = std::get_if<Fox>(&d_.spec.encodings[index]);
    if (fox != nullptr && fox->prune && p.key_mask == nullptr) fill_kept();
    params_.dtoken_queries = dqueries_.as<float>();
    params_.dtoken_keys = dkeys_.as<float>();
  }

  // How many tiles of keys the tiles of queries leave out, all together.
  [[nodiscard]] std::int64_t left_out() const {
    const AttentionParams& p = params_.forward;
    const auto tiles = static_cast<std::size_t>(p.batch * p.heads * p.tokens.query_tiles);
    std::vector<std::int32_t> first(tiles);
    check(cudaMemcpy(first.data(), p.tokens.first_kept, tiles * sizeof(std::int32_t),
                     cudaMemcpyDeviceToHost));
    return std::accumulate(first.begin(), first.end(), std::int64_t{0});
  }

  void bring_back() {
    launch_token_sums_backward(scan_, dqueries_.as<float>(), dkeys_.as<float>(), dx_.as<float>(),
                               nullptr)
        .throw_if_error();
    check(cudaDeviceSynchronize());
    const std::vector<float> gradient = dx_.values<float>();
    d_.dinputs[input_].assign({gradient.begin(), gradient.end()});
  }

 private:
  void fill_kept() {
    AttentionParams& p = params_.forward;
    kept_ = Bytes(std::vector<std::uint8_t>(token_prune_bytes(p), 0xff));
    fill_token_prune(p, kept_.data(), p.tokens, nullptr).throw_if_error();
  }

  cases::AttentionData& d_;
  std::size_t input_;
  AttentionBackwardParams& params_;
  TokenScan scan_;
  Bytes x_, queries_, keys_, dqueries_, dkeys_, dx_, kept_;
};

}  // namespace posenc::cuda::testing

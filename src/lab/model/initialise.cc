#include "model/initialise.h"

#include <cmath>

#include "core/strings.h"
#include "model/transformer.h"
#include "posenc/core/rng.h"

namespace posenc::model {
namespace {

void fill_normal(at::Tensor& weight, double deviation, std::uint64_t seed,
                 const std::string& name) {
  Rng rng(seed, fnv1a(name));
  at::Tensor values = at::empty_like(weight, at::TensorOptions().device(at::kCPU));
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    out[i] = static_cast<float>(deviation * rng.normal());
  }
  weight.copy_(values);
}

}  // namespace

void initialise(torch::nn::Module& model, std::uint64_t seed, std::int64_t layers) {
  const at::NoGradGuard quiet;
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    at::Tensor& weight = item.value();
    if (is_positional(name) || name == "log_scale") continue;
    if (weight.dim() < 2) {
      weight.fill_(name.ends_with(".bias") ? 0.0 : 1.0);
      continue;
    }
    const auto fan_in = static_cast<double>(weight.size(1));
    double deviation = 1.0 / std::sqrt(fan_in);
    if (name.ends_with("out_proj.weight") || name.ends_with("down.weight")) {
      deviation /= std::sqrt(2.0 * static_cast<double>(layers));
    }
    fill_normal(weight, deviation, seed, name);
  }
}

}  // namespace posenc::model

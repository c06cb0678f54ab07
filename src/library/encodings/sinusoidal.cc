#include "posenc/encodings/sinusoidal.h"

#include <algorithm>
#include <cmath>

#include "posenc/core/error.h"

namespace posenc {

void validate(const Sinusoidal& config, const ModelShape& shape) {
  // tensor2tensor divides by floor(d/2) - 1, so two frequencies are the fewest it can space.
  const std::int64_t least = config.spacing == Sinusoidal::Spacing::kTensor2Tensor ? 4 : 1;
  if (shape.width() >= least) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = "sinusoidal",
                                       .key = "model_dim",
                                       .rule = "must be >= " + std::to_string(least),
                                       .value = std::to_string(shape.width()),
                                       .hint = ""});
}

std::vector<ParameterInfo> parameters(const Sinusoidal& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

std::vector<double> sinusoidal_frequencies(const Sinusoidal& config, std::int64_t model_dim) {
  validate(config, ModelShape{.head_dim = model_dim, .heads = 1, .model_dim = model_dim});
  const bool paper = config.spacing == Sinusoidal::Spacing::kPaper;
  const std::int64_t count = config.layout == Sinusoidal::Layout::kInterleaved && paper
                                 ? (model_dim + 1) / 2
                                 : model_dim / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < count; ++i) {
    const double exponent = paper ? 2.0 * static_cast<double>(i) / static_cast<double>(model_dim)
                                  : static_cast<double>(i) / static_cast<double>(model_dim / 2 - 1);
    frequencies.push_back(std::pow(config.theta, -exponent));
  }
  return frequencies;
}

void embedding(const Sinusoidal& config, std::int64_t position, std::span<double> out) {
  embedding(config, sinusoidal_frequencies(config, std::ssize(out)), position, out);
}

void embedding(const Sinusoidal& config, std::span<const double> frequencies, std::int64_t position,
               std::span<double> out) noexcept {
  const bool interleaved = config.layout == Sinusoidal::Layout::kInterleaved;
  const std::size_t half = out.size() / 2;
  std::fill(out.begin(), out.end(), 0.0);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    const std::size_t sine = interleaved ? 2 * i : i;
    const std::size_t cosine = interleaved ? 2 * i + 1 : i + half;
    out[sine] = std::sin(angle);
    if (cosine < out.size()) out[cosine] = std::cos(angle);
  }
}

}  // namespace posenc

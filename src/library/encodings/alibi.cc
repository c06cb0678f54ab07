#include "posenc/encodings/alibi.h"

#include <bit>
#include <cmath>
#include <span>

#include "encodings/hf_pow.h"
#include "encodings/shape_checks.h"

namespace posenc {
namespace {

// Hugging Face's float32 slopes 2^(-bias_max h/n). BLOOM rounds the base 2^(-bias_max/n) and raises it
// to h, MPT inverts 2^(h bias_max/n); attention-gym takes the power as it is.
std::vector<float> rounded_slopes(const Alibi& config, std::int64_t n, std::span<const float> h) {
  const double step = config.bias_max / static_cast<double>(n);
  if (config.slopes == Alibi::Slopes::kStandard) {
    return hf_powers(static_cast<float>(std::exp2(-step)), h);
  }
  std::vector<float> slopes;
  for (const float number : h) {
    const auto exponent = static_cast<double>(number * static_cast<float>(step));
    const bool mpt = config.slopes == Alibi::Slopes::kMpt;
    slopes.push_back(mpt ? 1.0F / static_cast<float>(std::exp2(exponent))
                         : static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

// 2^(-bias_max h/n), h = first, first + step, ...: `count` of them.
void append_slopes(const Alibi& config, std::int64_t n, std::int64_t first, std::int64_t step,
                   std::int64_t count, std::vector<double>& slopes) {
  std::vector<float> numbers;
  for (std::int64_t k = 0; k < count; ++k) numbers.push_back(static_cast<float>(first + step * k));
  if (config.precision == Precision::kHf) {
    const std::vector<float> rounded = rounded_slopes(config, n, numbers);
    slopes.insert(slopes.end(), rounded.begin(), rounded.end());
    return;
  }
  for (const float h : numbers) {
    slopes.push_back(std::exp2(-config.bias_max * static_cast<double>(h) / static_cast<double>(n)));
  }
}

}  // namespace

void validate(const Alibi& /*config*/, const ModelShape& shape) {
  require_positive("alibi", "heads", shape.heads);
}

std::vector<double> alibi_slopes(const Alibi& config, std::int64_t heads) {
  validate(config, ModelShape{.head_dim = 1, .heads = heads, .model_dim = 0});
  std::vector<double> slopes;
  const auto unsigned_heads = static_cast<std::uint64_t>(heads);
  const auto lower = static_cast<std::int64_t>(std::bit_floor(unsigned_heads));
  if (config.slopes == Alibi::Slopes::kGeometric || lower == heads) {
    append_slopes(config, heads, 1, 1, heads, slopes);
  } else if (config.slopes == Alibi::Slopes::kStandard) {
    append_slopes(config, lower, 1, 1, lower, slopes);
    append_slopes(config, 2 * lower, 1, 2, heads - lower, slopes);
  } else {
    // All slopes of the next power, the second, fourth, ... first and then the first, third, ...
    append_slopes(config, 2 * lower, 2, 2, lower, slopes);
    append_slopes(config, 2 * lower, 1, 2, heads - lower, slopes);
  }
  return slopes;
}

std::vector<ParameterInfo> parameters(const Alibi& config, const ModelShape& shape) {
  Init init{
      .kind = Init::Kind::kValues, .a = 0, .b = 0, .values = alibi_slopes(config, shape.heads)};
  return {{"slopes", {shape.heads}, std::move(init), config.trainable}};
}

}  // namespace posenc

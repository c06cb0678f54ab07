#include "posenc/encodings/t5.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "encodings/shape_checks.h"
#include "encodings/tables.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

std::int64_t exact_buckets(const T5& config) {
  return (config.bidirectional ? config.num_buckets / 2 : config.num_buckets) / 2;
}

}  // namespace

void validate(const T5& config, const ModelShape& shape) {
  const std::int64_t exact = exact_buckets(config);
  if (exact < 1) {
    throw Error(ErrorKind::kOutOfRange, {.scope = "t5",
                                         .key = "num_buckets",
                                         .rule = "must be >= 4 when bidirectional",
                                         .value = std::to_string(config.num_buckets),
                                         .hint = ""});
  }
  if (config.max_distance <= exact) {
    throw Error(ErrorKind::kConflict,
                {.scope = "t5",
                 .key = "max_distance",
                 .rule = fmt::format("must be above the number of exact buckets ({})", exact),
                 .value = std::to_string(config.max_distance),
                 .hint = ""});
  }
  require_positive("t5", "heads", shape.heads);
}

std::vector<ParameterInfo> parameters(const T5& config, const ModelShape& shape) {
  return {normal_table("weight", {config.num_buckets, shape.heads}, config.init_std)};
}

std::int64_t T5::entry(std::int64_t d) const { return t5_bucket(*this, -d); }

std::int64_t t5_bucket(const T5& config, std::int64_t relative) {
  relative = std::max(relative, -kLargestPosition);  // whose opposite exists
  const std::int64_t buckets = config.bidirectional ? config.num_buckets / 2 : config.num_buckets;
  const std::int64_t start = config.bidirectional && relative > 0 ? buckets : 0;
  const std::int64_t distance =
      config.bidirectional ? std::abs(relative) : std::max<std::int64_t>(-relative, 0);
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return start + distance;
  const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
  const auto range = static_cast<float>(
      std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact)));
  const float scaled = std::log(ratio) / range * static_cast<float>(buckets - exact);
  // Far beyond max_distance the bucket is the last one anyway; capping first keeps the cast
  // defined.
  const auto beyond = static_cast<std::int64_t>(std::min(scaled, static_cast<float>(buckets)));
  return start + std::min(exact + beyond, buckets - 1);
}

}  // namespace posenc

#include "kernels/toeplitz_tables.h"

#include <algorithm>

#include "core/thread_pool.h"

namespace posenc {
namespace {

float bias_at(const Spec& spec, const std::vector<std::size_t>& biases,
              const std::vector<Parameters>& parameters, std::int64_t head, std::int64_t distance) {
  double sum = 0.0;
  for (const std::size_t index : biases) {
    std::visit(
        [&](const auto& e) {
          if constexpr (BiasEncoding<std::decay_t<decltype(e)>>) {
            sum += bias(e, parameters[index], head, std::max<std::int64_t>(distance, 0),
                        std::max<std::int64_t>(-distance, 0));
          }
        },
        spec.encodings[index]);
  }
  return static_cast<float>(sum);
}

}  // namespace

ToeplitzTables::ToeplitzTables(const Spec& spec, const std::vector<std::size_t>& biases,
                               std::int64_t heads, const std::vector<Parameters>& parameters,
                               const DistanceRange& range)
    : biases_(biases),
      range_(range),
      values_(static_cast<std::size_t>(heads * range.span()), 0.0f) {
  for (const std::size_t index : biases) parameters_.push_back(parameters[index]);
  parallel_for(heads, [&](std::int64_t head, int) {
    float* zero = values_.data() + head * range_.span() + range_.before;
    for (std::int64_t d = range_.lowest_seen; d < range_.places; ++d) {
      zero[d] = bias_at(spec, biases_, parameters, head, d);
    }
  });
}

bool ToeplitzTables::has(const std::vector<Parameters>& parameters) const {
  for (std::size_t n = 0; n < biases_.size(); ++n) {
    if (parameters[biases_[n]] != parameters_[n]) return false;
  }
  return true;
}

bool ToeplitzTables::covers(const DistanceRange& range) const {
  return range_.before >= range.before && range_.places >= range.places &&
         range_.slack >= range.slack && range_.lowest_seen <= range.lowest_seen;
}

DistanceRange ToeplitzTables::grown_to(const DistanceRange& range) const {
  DistanceRange grown = range_;
  grown.before = std::max(grown.before, 2 * range.before);
  grown.places = std::max(grown.places, 2 * range.places);
  grown.slack = std::max(grown.slack, range.slack);
  // Without a mask the keys after a query grow in number as those before it do.
  const bool sees_all = range.lowest_seen == -range.before;
  grown.lowest_seen = std::min(grown.lowest_seen, sees_all ? -grown.before : range.lowest_seen);
  return grown;
}

std::shared_ptr<const ToeplitzTables> ToeplitzCache::get(const Spec& spec,
                                                         const std::vector<std::size_t>& biases,
                                                         std::int64_t heads,
                                                         const std::vector<Parameters>& parameters,
                                                         const DistanceRange& range) const {
  std::shared_ptr<const ToeplitzTables> known;
  {
    const std::lock_guard lock(mutex_);
    known = last_;
  }
  const bool unchanged = known != nullptr && known->has(parameters);
  if (unchanged && known->covers(range)) return known;
  auto made = std::make_shared<const ToeplitzTables>(spec, biases, heads, parameters,
                                                     unchanged ? known->grown_to(range) : range);
  const std::lock_guard lock(mutex_);
  last_ = made;
  return made;
}

}  // namespace posenc

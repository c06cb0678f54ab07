#include "posenc/encodings/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "posenc/core/error.h"

namespace posenc {
namespace {

void check_sections(std::string_view scope, const std::vector<std::int64_t>& sections,
                    std::int64_t pairs) {
  if (std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) == pairs) return;
  throw Error(ErrorKind::kWrongLength,
              {.scope = std::string(scope),
               .key = "sections",
               .rule = fmt::format("must add up to the rotated pairs ({})", pairs),
               .value = fmt::format("[{}]", fmt::join(sections, ", ")),
               .hint = ""});
}

std::vector<std::int32_t> in_chunks(const std::vector<std::int64_t>& sections) {
  std::vector<std::int32_t> axis_of_pair;
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    axis_of_pair.insert(axis_of_pair.end(), static_cast<std::size_t>(sections[axis]),
                        static_cast<std::int32_t>(axis));
  }
  return axis_of_pair;
}

struct Plan {
  std::int64_t pairs;

  // The sections as given, or an even split.
  [[nodiscard]] std::vector<std::int64_t> axial_sections(const AxialAxes& axial) const {
    const auto given = std::ssize(axial.sections);
    if (given > 0) {
      if (axial.axes == 0 || axial.axes == given) return axial.sections;
      throw Error(ErrorKind::kConflict,
                  {.scope = "axial",
                   .key = "sections",
                   .rule = fmt::format("must have {} entries, one per axis,", axial.axes),
                   .value = std::to_string(given),
                   .hint = "leave axes out, or make them agree"});
    }
    const std::int64_t axes = axial.axes == 0 ? 2 : axial.axes;
    if (pairs % axes != 0) {
      throw Error(ErrorKind::kWrongLength,
                  {.scope = "axial",
                   .key = "axes",
                   .rule = fmt::format("must divide the rotated pairs ({})", pairs),
                   .value = std::to_string(axes),
                   .hint = "or give sections=[...]"});
    }
    return std::vector<std::int64_t>(static_cast<std::size_t>(axes), pairs / axes);
  }

  AxisPlan operator()(const SingleAxis& /*axes*/) const {
    return {1, std::vector<std::int32_t>(static_cast<std::size_t>(pairs), 0), {pairs}};
  }

  AxisPlan operator()(const AxialAxes& axial) const {
    const std::vector<std::int64_t> sections = axial_sections(axial);
    check_sections("axial", sections, pairs);
    return {std::ssize(sections), in_chunks(sections), sections};
  }

  AxisPlan operator()(const MropeAxes& mrope) const {
    check_sections("mrope", mrope.sections, pairs);
    return {std::ssize(mrope.sections), in_chunks(mrope.sections), {pairs}};
  }

  AxisPlan operator()(const MropeInterleavedAxes& mrope) const {
    check_sections("mrope_interleaved", mrope.sections, pairs);
    const auto axes = std::ssize(mrope.sections);
    AxisPlan plan{axes, std::vector<std::int32_t>(static_cast<std::size_t>(pairs), 0), {pairs}};
    for (std::int64_t axis = 1; axis < axes; ++axis) {
      const std::int64_t end = axes * mrope.sections[axis];
      if (axis + end - axes >= pairs && end > 0) {
        throw Error(ErrorKind::kOutOfRange,
                    {.scope = "mrope_interleaved",
                     .key = fmt::format("sections[{}]", axis),
                     .rule = fmt::format("must leave its last pair below {}", pairs),
                     .value = std::to_string(mrope.sections[axis]),
                     .hint = "give the first axis at least as many pairs as the others"});
      }
      for (std::int64_t pair = axis; pair < end; pair += axes) {
        plan.axis_of_pair[pair] = static_cast<std::int32_t>(axis);
      }
    }
    return plan;
  }
};

}  // namespace

AxisPlan plan_axes(const Axes& axes, std::int64_t pairs) { return std::visit(Plan{pairs}, axes); }

}  // namespace posenc

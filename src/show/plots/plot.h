// Figures of encodings, from the library's own formulas: a request in, panels out. Nothing is read,
// written or printed, and the same request gives the same figure everywhere.
//
//   plots::PlotRequest request = plots::default_request("decay");
//   request.theta = {1e4, 1e6};
//   draw::Figure figure = plots::plot(request);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "draw/figure.h"
#include "plots/request.h"

namespace posenc::plots {

struct KindInfo {
  std::string_view name;                 // as `posenc plot` takes it: "bias-curves"
  std::string_view doc;                  // one line
  std::vector<std::string_view> fields;  // of PlotRequest that it reads, without kind
  PlotRequest defaults;                  // what is drawn when nothing else is said
  std::int64_t max_length = 0;           // largest length (0: it does not read it)
  std::string_view example;              // a command
};

const std::vector<KindInfo>& plot_kinds();

// Both throw Error for an unknown kind, with the nearest known one.
const KindInfo& kind_info(std::string_view kind);
PlotRequest default_request(std::string_view kind);

// The kind's defaults with what the map says instead; `kind` is required, and an empty list leaves the
// choice to the figure. Throws Error for unknown keys, for wrong types and ranges, and for keys that the
// kind does not read.
PlotRequest read_request(const Value& given);

// Throws Error, which names the field, its value and what to do.
draw::Figure plot(const PlotRequest& request);

}  // namespace posenc::plots

// The one table of kinds: name, what it reads, its defaults and its function.
#pragma once

#include "plots/plot.h"

namespace posenc::plots {

struct Kind {
  KindInfo info;
  draw::Figure (*draw)(const PlotRequest& request);
};

const std::vector<Kind>& kind_table();

}  // namespace posenc::plots

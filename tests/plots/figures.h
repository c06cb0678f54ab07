// Reading numbers out of figures.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "draw/figure.h"
#include "plots/plot.h"
#include "posenc/core/error.h"

namespace posenc::testing {

inline double cell(const draw::Panel& panel, std::int64_t row, std::int64_t column) {
  return panel.map->values.at(static_cast<std::size_t>(row * panel.map->columns + column));
}

inline const draw::Panel& panel_of(const draw::Figure& figure, const std::string& title) {
  const auto found = std::find_if(figure.panels.begin(), figure.panels.end(),
                                  [&](const draw::Panel& p) { return p.title == title; });
  if (found == figure.panels.end()) throw std::out_of_range("no panel " + title);
  return *found;
}

inline const draw::Curve& curve_of(const draw::Panel& panel, const std::string& name) {
  const auto found = std::find_if(panel.curves.begin(), panel.curves.end(),
                                  [&](const draw::Curve& c) { return c.name == name; });
  if (found == panel.curves.end()) throw std::out_of_range("no curve " + name);
  return *found;
}

inline plots::PlotRequest request_of(const std::string& kind,
                                     std::vector<std::string> encodings = {}) {
  plots::PlotRequest request = plots::default_request(kind);
  if (!encodings.empty()) request.encodings = std::move(encodings);
  return request;
}

// The message of the Error that a request is answered with; empty where it is drawn.
inline std::string refusal(const plots::PlotRequest& request) {
  try {
    static_cast<void>(plots::plot(request));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace posenc::testing

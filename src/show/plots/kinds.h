// The kinds of plots, one function each. Requests have passed the checks of plot().
#pragma once

#include "draw/figure.h"
#include "plots/request.h"

namespace posenc::plots {

draw::Figure plot_sinusoidal(const PlotRequest& request);
draw::Figure plot_sinusoidal_curves(const PlotRequest& request);
draw::Figure plot_clocks(const PlotRequest& request);
draw::Figure plot_inner_product(const PlotRequest& request);
draw::Figure plot_similarity(const PlotRequest& request);
draw::Figure plot_decay(const PlotRequest& request);
draw::Figure plot_wavelengths(const PlotRequest& request);
draw::Figure plot_bias(const PlotRequest& request);
draw::Figure plot_bias_curves(const PlotRequest& request);
draw::Figure plot_cope(const PlotRequest& request);
draw::Figure plot_scores(const PlotRequest& request);
draw::Figure plot_pca(const PlotRequest& request);
draw::Figure plot_tsne(const PlotRequest& request);
draw::Figure plot_extrapolation(const PlotRequest& request);

}  // namespace posenc::plots

#include "plots/kind_table.h"

#include "plots/kinds.h"

namespace posenc::plots {
namespace {

using Fields = std::vector<std::string_view>;

PlotRequest with(std::string_view kind, std::vector<std::string> encodings, std::int64_t length) {
  PlotRequest request;
  request.kind = kind;
  request.encodings = std::move(encodings);
  request.length = length;
  return request;
}

constexpr const char* kYarn =
    "rope(schedule=yarn(factor=4, original_max_position_embeddings=2048))";

Kind sinusoidal() {
  return {{.name = "sinusoidal",
           .doc = "sinusoidal position vectors as a map of positions and dimensions",
           .fields = {"encodings", "head_dim", "length"},
           .defaults = with("sinusoidal", {"sinusoidal"}, 128),
           .max_length = 2048,
           .example = "posenc plot sinusoidal --head-dim 64 --length 128"},
          plot_sinusoidal};
}

Kind sinusoidal_curves() {
  return {{.name = "sinusoidal-curves",
           .doc = "single dimensions of sinusoidal position vectors as waves",
           .fields = {"encodings", "head_dim", "length", "dimensions"},
           .defaults = with("sinusoidal-curves", {"sinusoidal"}, 128),
           .max_length = 1 << 16,
           .example = "posenc plot sinusoidal-curves --dimensions 0,16,32 --length 200"},
          plot_sinusoidal_curves};
}

Kind clocks() {
  return {
      {.name = "clocks",
       .doc = "RoPE's pairs as rotating hands at chosen positions",
       .fields = {"encodings", "head_dim", "heads", "head", "train_length", "pairs", "positions"},
       .defaults = with("clocks", {"rope"}, 128),
       .example = "posenc plot clocks --encoding rope --positions 0,1,2,8,64"},
      plot_clocks};
}

Kind inner_product() {
  return {{.name = "inner-product",
           .doc = "products of rotated queries and keys: a matrix that is constant along diagonals",
           .fields = {"encodings", "head_dim", "length", "positions", "content", "seed"},
           .defaults = with("inner-product", {"rope"}, 128),
           .max_length = 1024,
           .example = "posenc plot inner-product --encoding rope --length 128"},
          plot_inner_product};
}

Kind similarity() {
  return {
      {.name = "similarity",
       .doc = "cosine similarity of positions against their distance",
       .fields = {"encodings", "head_dim", "length", "content", "table_std", "seed"},
       .defaults = with("similarity", {"sinusoidal", "rope", "rope(theta=500000)", "xpos"}, 256),
       .max_length = 4096,
       .example = "posenc plot similarity --encoding sinusoidal --encoding rope"},
      plot_similarity};
}

Kind decay() {
  PlotRequest defaults = with("decay", {"rope"}, 1024);
  defaults.head_dim = 128;
  defaults.theta = {1e3, 1e4, 5e5, 1e7};
  return {
      {.name = "decay",
       .doc = "long-range decay for several theta: the bound, and random queries and keys",
       .fields = {"encodings", "head_dim", "heads", "head", "length", "theta", "samples", "seed"},
       .defaults = defaults,
       .max_length = 1 << 17,
       .example = "posenc plot decay --theta 10000,500000 --length 1024"},
      plot_decay};
}

Kind wavelengths() {
  PlotRequest defaults =
      with("wavelengths",
           {"rope", kYarn,
            "rope(schedule=llama3(factor=4, low_freq_factor=1, high_freq_factor=4, "
            "original_max_position_embeddings=2048))",
            "rope(schedule=ntk(factor=4))"},
           8192);
  defaults.head_dim = 128;
  return {{.name = "wavelengths",
           .doc = "wavelength of every pair, and where a schedule interpolates or extrapolates",
           .fields = {"encodings", "head_dim", "heads", "head", "length", "train_length"},
           .defaults = defaults,
           .max_length = 1 << 20,
           .example = "posenc plot wavelengths --encoding \"rope(schedule=linear(factor=4))\""},
          plot_wavelengths};
}

}  // namespace

const std::vector<Kind>& kind_table() {
  static const std::vector<Kind> table = {sinusoidal(),    sinusoidal_curves(), clocks(),
                                          inner_product(), similarity(),        decay(),
                                          wavelengths()};
  return table;
}

}  // namespace posenc::plots

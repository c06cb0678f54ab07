#include "plots/kind_table.h"

#include "plots/kinds.h"

namespace posenc::plots {
namespace {

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
       .defaults = with("similarity", {"sinusoidal", "rope(theta=500000)", "xpos", "learned"}, 256),
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

Kind bias() {
  return {{.name = "bias",
           .doc = "bias matrices of ALiBi, T5, KERPLE, FIRE and learned relative positions",
           .fields = {"encodings", "head_dim", "heads", "head", "length", "causal", "table_std",
                      "seed"},
           .defaults = with("bias", {"alibi", "t5", "kerple", "fire(init_threshold=32)"}, 128),
           .max_length = 2048,
           .example = "posenc plot bias --encoding alibi --encoding kerple --head 2"},
          plot_bias};
}

Kind bias_curves() {
  return {
      {.name = "bias-curves",
       .doc = "biases against distance, by head (FIRE: by query), and the buckets of T5",
       .fields = {"encodings", "head_dim", "heads", "head", "length", "positions", "causal",
                  "table_std", "seed"},
       .defaults = with(
           "bias-curves",
           {"alibi", "kerple", "t5", "relative(max_distance=64)", "fire(init_threshold=32)"}, 256),
       .max_length = 1 << 16,
       .example = "posenc plot bias-curves --encoding kerple --heads 4 --length 512"},
      plot_bias_curves};
}

Kind cope() {
  PlotRequest defaults = with("cope", {"cope"}, 128);
  defaults.text = {"The cat sat. The dog ran off. It rained. They slept."};
  defaults.gate_words = {"."};
  return {
      {.name = "cope",
       .doc = "CoPE's gates and fractional positions on a sentence, or on gates of your own",
       .fields = {"encodings", "head_dim", "text", "gate_words", "gates", "gate_strength", "seed"},
       .defaults = defaults,
       .example = "posenc plot cope --text \"One. Two three. Four.\" --gate-words ."},
      plot_cope};
}

Kind scores() {
  PlotRequest defaults = with("scores", {"rope + alibi"}, 128);
  defaults.text = {"the dog bit the man", "the man bit the dog"};
  return {{.name = "scores",
           .doc = "raw score, bias, sum and softmax of your own sentences under any composition",
           .fields = {"encodings", "head_dim", "heads", "head", "text", "match_score", "causal",
                      "table_std", "seed"},
           .defaults = defaults,
           .example = "posenc plot scores --encoding \"rope + alibi\" --text \"the dog bit\" "
                      "--text \"the man\""},
          plot_scores};
}

Kind pca() {
  return {{.name = "pca",
           .doc = "position vectors along their two principal components",
           .fields = {"encodings", "head_dim", "length", "content", "table_std", "seed"},
           .defaults = with("pca", {"sinusoidal", "rope(theta=500000)"}, 128),
           .max_length = 4096,
           .example = "posenc plot pca --encoding sinusoidal --length 256"},
          plot_pca};
}

Kind tsne() {
  return {{.name = "tsne",
           .doc = "position vectors in the plane by t-SNE",
           .fields = {"encodings", "head_dim", "length", "content", "perplexity", "iterations",
                      "table_std", "seed"},
           .defaults = with("tsne", {"sinusoidal", "rope(theta=500000)"}, 128),
           .max_length = 512,
           .example = "posenc plot tsne --encoding sinusoidal --perplexity 20"},
          plot_tsne};
}

Kind extrapolation() {
  PlotRequest defaults =
      with("extrapolation", {"rope", "rope(schedule=ntk(factor=4))", kYarn}, 8192);
  return {{.name = "extrapolation",
           .doc = "which pairs meet angles beyond the training length, by schedule",
           .fields = {"encodings", "head_dim", "heads", "head", "length", "train_length"},
           .defaults = defaults,
           .max_length = 1 << 20,
           .example = "posenc plot extrapolation --train-length 2048 --length 8192"},
          plot_extrapolation};
}

}  // namespace

const std::vector<Kind>& kind_table() {
  static const std::vector<Kind> kTable = {sinusoidal(),  sinusoidal_curves(),
                                           clocks(),      inner_product(),
                                           similarity(),  decay(),
                                           wavelengths(), bias(),
                                           bias_curves(), cope(),
                                           scores(),      pca(),
                                           tsne(),        extrapolation()};
  return kTable;
}

}  // namespace posenc::plots

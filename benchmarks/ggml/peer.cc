#include "peer.h"

namespace posenc::bench {

GgmlGraph::GgmlGraph(std::size_t bytes, int threads)
    : context_(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = false})),
      threads_(threads) {}

void GgmlGraph::ends_with(ggml_tensor* result) {
  graph_ = ggml_new_graph(context());
  ggml_build_forward_expand(graph_, result);
  plan_ = ggml_graph_plan(graph_, threads_, nullptr);
  work_.resize(plan_.work_size);
  plan_.work_data = work_.data();
}

void GgmlGraph::run() { ggml_graph_compute(graph_, &plan_); }

}  // namespace posenc::bench

// One computation of ggml's CPU backend, on memory of its own.
#pragma once

#include <ggml-cpu.h>
#include <ggml.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace posenc::bench {

class GgmlGraph {
 public:
  GgmlGraph(std::size_t bytes, int threads);

  [[nodiscard]] ggml_context* context() const { return context_.get(); }
  // The result of the graph; run() computes it.
  void ends_with(ggml_tensor* result);
  void run();

 private:
  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };
  std::unique_ptr<ggml_context, Free> context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_cplan plan_{};
  std::vector<std::uint8_t> work_;
  int threads_;
};

// Bytes of a context for tensors of so many numbers in all, with room for headers, alignment and the graph.
constexpr std::size_t context_bytes(std::int64_t numbers) {
  return static_cast<std::size_t>(numbers) * 4 + (std::size_t{8} << 20);
}

}  // namespace posenc::bench

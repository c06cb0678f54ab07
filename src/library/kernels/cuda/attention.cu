#include <array>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_sums.h"
#include "kernels/cuda/attention_workspace.h"
#include "kernels/cuda/general.h"

namespace posenc::cuda {
namespace {

constexpr const char* kForward = "attention";
constexpr const char* kBackward = "attention_backward";

Status invalid(const char* op, const char* what) {
  return Status::format(StatusCode::kInvalidArgument, "[%s] %s", op, what);
}
Status unsupported(const char* op, const char* what) {
  return Status::format(StatusCode::kUnsupported, "[%s] the CUDA kernel does not serve %s", op,
                        what);
}

Status check_tensor(const char* op, const AttentionParams& p, const char* name, const Tensor4& x) {
  if (x.data == nullptr) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] %s is null", op, name);
  }
  const int whole = p.element == Element::kFloat32 ? 4 : 8;  // elements of 16 bytes
  const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
                       x.batch_stride % whole == 0 && x.head_stride % whole == 0 &&
                       x.token_stride % whole == 0;
  if (aligned) return {};
  return Status::format(StatusCode::kUnsupported,
                        "[%s] rows of %s must start at multiples of 16 bytes; make it contiguous",
                        op, name);
}

Status check_sizes(const char* op, const AttentionParams& p) {
  if (p.batch < 1 || p.heads < 1 || p.queries < 0 || p.keys < 0) {
    return Status::format(StatusCode::kInvalidArgument,
                          "[%s] sizes must not be negative, and batch (%d) and heads (%d) at least "
                          "1; queries %d, keys %d",
                          op, p.batch, p.heads, p.queries, p.keys);
  }
  if (p.kv_heads < 1 || p.heads % p.kv_heads != 0) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] kv_heads (%d) must divide heads (%d)",
                          op, p.kv_heads, p.heads);
  }
  if (p.head_dim < 8 || p.head_dim % 8 != 0 || p.head_dim > 256) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel does not serve head_dim %d; it serves multiples of "
                          "8 up to 256",
                          op, p.head_dim);
  }
  if (p.element == Element::kFloat32 && p.float_parts != 2 && p.float_parts != 3) {
    return Status::format(StatusCode::kInvalidArgument, "[%s] float_parts must be 2 or 3 but is %d",
                          op, p.float_parts);
  }
  if (!(p.scale > 0.0f)) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel needs a positive scale but it is %g", op,
                          static_cast<double>(p.scale));
  }
  if (p.segments != nullptr && (p.segment_count < 1 || p.segment_count > 65535)) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel serves 1 to 65535 packed sequences but got %d", op,
                          p.segment_count);
  }
  if (p.heads > 65535 || p.batch > 65535) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel serves batches and heads up to 65535 but got batch "
                          "%d, heads %d",
                          op, p.batch, p.heads);
  }
  return {};
}

Status check_relative(const char* op, const AttentionParams& p) {
  const RelativeTable& table = p.relative;
  if (table.entries == 0) return {};
  if (p.cope.npos_max > 0) return unsupported(op, "CoPE with queries times distances");
  if (table.entries < 0 || table.table == nullptr) {
    return invalid(op, "queries times distances need a table of at least one entry");
  }
  if (table.rank < 1 || table.rank > padded_dim(p.head_dim)) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel does not serve queries times distances of rank %d; "
                          "with head_dim %d it serves ranks from 1 to %d",
                          op, table.rank, p.head_dim, padded_dim(p.head_dim));
  }
  if (table.u.data != nullptr) return check_tensor(op, p, "relative.u", table.u);
  if (table.rank == p.head_dim) return {};
  return invalid(op, "relative.u must be given where the rank is not head_dim");
}

Status check_modifiers(const char* op, const AttentionParams& p) {
  if (p.fire.segments > 0 &&
      (p.fire.bounds == nullptr || p.fire.slopes == nullptr || p.fire.intercepts == nullptr ||
       p.fire.psi == nullptr || p.fire.row_scale == nullptr)) {
    return invalid(op, "FIRE needs bounds, slopes, intercepts, psi and row_scale");
  }
  if (Status s = check_relative(op, p); !s.ok()) return s;
  if (p.pages.pages != nullptr) return unsupported(op, "a paged cache outside of decoding");
  const CopeTable& cope = p.cope;
  if (p.breaks_sticks && cope.npos_max > 0) return unsupported(op, "stick-breaking with CoPE");
  if (p.breaks_sticks && p.sinks != nullptr)
    return invalid(op, "a stick has no softmax for a sink");
  if (cope.npos_max == 0) return {};
  if (p.tokens.at_key != nullptr) return unsupported(op, "CoPE with a term per token");
  if (cope.npos_max < 0 || cope.npos_max > kMostPositions) {
    return Status::format(StatusCode::kUnsupported,
                          "[%s] the CUDA kernel does not serve CoPE with %d positions; it serves "
                          "up to %d",
                          op, cope.npos_max, kMostPositions);
  }
  if ((cope.pos_emb == nullptr) == (cope.slopes == nullptr)) {
    return invalid(op, "CoPE needs either pos_emb or slopes");
  }
  if (cope.gate_k.data != nullptr) {
    if (Status s = check_tensor(op, p, "gate_k", cope.gate_k); !s.ok()) return s;
  }
  if (cope.plain_q.data != nullptr) return check_tensor(op, p, "plain_q", cope.plain_q);
  return {};
}

Status check_params(const char* op, const AttentionParams& p) {
  if (Status s = check_sizes(op, p); !s.ok()) return s;
  struct Named {
    const char* name;
    const Tensor4& tensor;
  };
  for (const Named& x : {Named{"q", p.q}, Named{"k", p.k}, Named{"v", p.v}, Named{"out", p.out}}) {
    if (Status s = check_tensor(op, p, x.name, x.tensor); !s.ok()) return s;
  }
  return check_modifiers(op, p);
}

Status status_of(const char* op, cudaError_t error) {
  if (error == cudaSuccess) return {};
  if (error == cudaErrorInvalidConfiguration) {
    return unsupported(op, "this head_dim and chain with the shared memory of this GPU");
  }
  return Status::format(StatusCode::kResourceExhausted, "[%s] CUDA: %s", op,
                        cudaGetErrorString(error));
}

// Calls f.template operator()<kDim>().
template <class F>
cudaError_t dispatch_dim(const AttentionParams& p, F&& f) {
  switch (padded_dim(p.head_dim)) {
    case 64:
      return f.template operator()<64>();
    case 128:
      return f.template operator()<128>();
    default:
      return f.template operator()<256>();
  }
}

cudaError_t clear_partials(const AttentionParams& p, const BackwardPlan& plan,
                           cudaStream_t stream) {
  const auto clear = [&](float* sums, std::int64_t count) {
    return count == 0
               ? cudaSuccess
               : cudaMemsetAsync(sums, 0, static_cast<std::size_t>(count) * sizeof(float), stream);
  };
  const cudaError_t tables =
      clear(plan.space.dtoeplitz, plan.dtoeplitz_partials * p.heads * p.toeplitz.span);
  if (tables != cudaSuccess) return tables;
  const cudaError_t fire =
      clear(plan.space.dfire_segments, plan.dfire_partials * p.heads * 2 * p.fire.segments);
  if (fire != cudaSuccess) return fire;
  return clear(plan.space.dembedding, plan.dembedding_partials * plan.dembedding_entries);
}

template <int kDim>
cudaError_t run_general_chunk(const AttentionBackwardParams& b, const BackwardSpace& space,
                              cudaStream_t stream) {
  const auto run = [&]<ElementGroup kGroup>() {
    const cudaError_t error = run_general_query<kDim, kGroup>(b, space, stream);
    if (error != cudaSuccess) return error;
    return run_general_key<kDim, kGroup>(b, space, stream);
  };
  return has_halves(b.forward) ? run.template operator()<ElementGroup::kHalves>()
                               : run.template operator()<ElementGroup::kFloats>();
}

// What a tuned kernel has marked, a general one computes again. Gradients of parameters are right at once:
// the tuned kernels leave hidden pairs out of them.
template <int kDim>
cudaError_t run_tuned_chunk(const AttentionBackwardParams& b, const BackwardSpace& space,
                            cudaStream_t stream) {
  const AttentionParams& p = b.forward;
  AttentionBackwardParams again = b;
  again.dtoeplitz = nullptr;
  again.dpos_emb = nullptr;
  again.dfire_rows = again.dfire_segments = nullptr;
  cudaError_t error = run_backward_query<kDim>(b, space, stream);
  if (error != cudaSuccess) return error;
  const MarkedBlocks queries{sequences_of(p), p.heads, space.chunk / 64, space.query_marks};
  error = recheck_query<kDim>(again, space, queries, stream);
  if (error != cudaSuccess) return error;
  error = run_backward_key<kDim>(b, space, stream);
  if (error != cudaSuccess) return error;
  const MarkedBlocks keys{sequences_of(p), p.kv_heads, space.key_tiles * backward_key_shares(kDim),
                          space.key_marks};
  return recheck_key<kDim>(again, space, keys, stream);
}

cudaError_t run_chunks(const AttentionBackwardParams& b, const BackwardPlan& plan,
                       cudaStream_t stream) {
  BackwardSpace space = plan.space;
  for (int chunk = 0; chunk < plan.chunks; ++chunk) {
    space.first_query = chunk * space.chunk;
    space.first_chunk = chunk == 0;
    space.last_chunk = chunk == plan.chunks - 1;
    const cudaError_t error = dispatch_dim(b.forward, [&]<int kDim>() {
      return plan.general ? run_general_chunk<kDim>(b, space, stream)
                          : run_tuned_chunk<kDim>(b, space, stream);
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t sum_parameters(const AttentionBackwardParams& b, const BackwardPlan& plan,
                           cudaStream_t stream) {
  const AttentionParams& p = b.forward;
  if (plan.dtoeplitz_partials > 0) {
    const cudaError_t error = sum_partials(plan.space.dtoeplitz, plan.dtoeplitz_partials,
                                           p.heads * p.toeplitz.span, nullptr, b.dtoeplitz, stream);
    if (error != cudaSuccess) return error;
  }
  if (plan.dfire_partials > 0) {
    const cudaError_t error = sum_partials(plan.space.dfire_segments, plan.dfire_partials,
                                           std::int64_t{p.heads} * 2 * p.fire.segments, nullptr,
                                           b.dfire_segments, stream);
    if (error != cudaSuccess) return error;
  }
  if (plan.dembedding_partials == 0) return cudaSuccess;
  if (p.cope.slopes != nullptr) {
    return sum_heads(plan.space.dembedding, sequences_of(p), p.heads,
                     std::int64_t{plan.space.slots} * plan.groups * 4, b.dpos_emb, stream);
  }
  return sum_partials(plan.space.dembedding, plan.dembedding_partials, plan.dembedding_entries,
                      plan.level, p.relative.entries > 0 ? b.drelative_table : b.dpos_emb, stream);
}

cudaError_t run_backward(const AttentionBackwardParams& b, const BackwardPlan& plan,
                         cudaStream_t stream) {
  if (const cudaError_t e = clear_partials(b.forward, plan, stream); e != cudaSuccess) return e;
  if (const cudaError_t e = sum_products(b, plan.space.delta, stream); e != cudaSuccess) return e;
  if (const cudaError_t e = run_chunks(b, plan, stream); e != cudaSuccess) return e;
  return sum_parameters(b, plan, stream);
}

template <int kDim>
cudaError_t run_tuned_forward(const AttentionParams& p, cudaStream_t stream) {
  const ForwardPlan plan = plan_forward(p, p.workspace);
  const cudaError_t error = run_forward<kDim>(p, stream);
  if (error != cudaSuccess) return error;
  AttentionParams again = p;
  again.workspace = plan.tables;
  const MarkedBlocks rows{sequences_of(p), p.heads, row_blocks(p), plan.marks};
  return recheck_forward<kDim>(again, rows, stream);
}

Status check_workspace(const char* op, const AttentionParams& p, std::size_t bytes) {
  if (bytes == 0 || (p.workspace != nullptr && p.workspace_bytes >= bytes)) return {};
  return Status::format(StatusCode::kInvalidArgument,
                        "[%s] workspace holds %zu bytes; it must hold %zu", op, p.workspace_bytes,
                        bytes);
}

Status check_backward(const AttentionBackwardParams& b) {
  if (Status s = check_params(kBackward, b.forward); !s.ok()) return s;
  struct Named {
    const char* name;
    const Tensor4& tensor;
  };
  for (const Named& x :
       {Named{"grad_out", b.grad_out}, Named{"dq", b.dq}, Named{"dk", b.dk}, Named{"dv", b.dv}}) {
    if (Status s = check_tensor(kBackward, b.forward, x.name, x.tensor); !s.ok()) return s;
  }
  if (b.forward.lse == nullptr) return invalid(kBackward, "lse of the forward must be kept");
  if ((b.dfire_rows == nullptr) != (b.dfire_segments == nullptr)) {
    return invalid(kBackward, "dfire_rows and dfire_segments are wanted together, or neither");
  }
  if (b.dfire_rows != nullptr && b.forward.fire.segments > 0 && b.forward.fire.dpsi == nullptr) {
    return invalid(kBackward, "the gradient of FIRE needs dpsi");
  }
  if ((b.dtoken_queries == nullptr) != (b.dtoken_keys == nullptr)) {
    return invalid(kBackward, "dtoken_queries and dtoken_keys are wanted together, or neither");
  }
  if (b.forward.relative.entries > 0 && b.forward.relative.u.data != nullptr) {
    const Status s = check_tensor(kBackward, b.forward, "drelative_u", b.drelative_u);
    if (!s.ok()) return s;
  }
  const CopeTable& cope = b.forward.cope;
  if (cope.npos_max == 0) return {};
  if (cope.gate_k.data != nullptr) {
    if (Status s = check_tensor(kBackward, b.forward, "dgate_k", b.dgate_k); !s.ok()) return s;
  }
  if (cope.plain_q.data == nullptr || (cope.pos_emb == nullptr && cope.gate_k.data == nullptr)) {
    return {};
  }
  return check_tensor(kBackward, b.forward, "dplain_q", b.dplain_q);
}

}  // namespace

std::size_t forward_workspace_bytes(const AttentionParams& params) noexcept {
  if (!check_sizes(kForward, params).ok()) return 0;
  return needs_general(params) ? general_forward_bytes(params)
                               : plan_forward(params, nullptr).bytes;
}

std::size_t backward_workspace_bytes(const AttentionBackwardParams& params) noexcept {
  return check_sizes(kBackward, params.forward).ok() ? plan_backward(params, nullptr).bytes : 0;
}

Status launch_attention_forward(const AttentionParams& params, Stream stream) noexcept {
  if (Status s = check_params(kForward, params); !s.ok()) return s;
  if (params.queries == 0) return {};
  if (Status s = check_workspace(kForward, params, forward_workspace_bytes(params)); !s.ok()) {
    return s;
  }
  const cudaError_t error = dispatch_dim(params, [&]<int kDim>() {
    const auto queue = static_cast<cudaStream_t>(stream);
    return needs_general(params)
               ? run_general_forward<kDim>(params, general_forward_slots(params), queue)
               : run_tuned_forward<kDim>(params, queue);
  });
  return status_of(kForward, error);
}

Status launch_attention_backward(const AttentionBackwardParams& params, Stream stream) noexcept {
  if (Status s = check_backward(params); !s.ok()) return s;
  const BackwardPlan plan = plan_backward(params, params.forward.workspace);
  if (Status s = check_workspace(kBackward, params.forward, plan.bytes); !s.ok()) return s;
  return status_of(kBackward, run_backward(params, plan, static_cast<cudaStream_t>(stream)));
}

}  // namespace posenc::cuda

// Converts the tensors and strings of an operator's call to the kernels' arguments.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "kernels/prepared_spec.h"
#include "posenc/kernels/linear_attention.h"
#include "posenc/kernels/reference.h"
#include "torch/tensor.h"

namespace posenc::ops {

using OptionalTensor = c10::optional<at::Tensor>;

// What kernels call a type of tensors; nothing for types that they do not store.
std::optional<DType> storage_type(at::ScalarType type);

// Tables of cos and sin on other devices, kept with the spec they belong to. A table is for one stream:
// another one would have to wait for it to be filled.
struct DeviceTable {
  at::Tensor query;  // float32 [rows, 2, groups x pairs]
  at::Tensor key;    // the same tensor, unless xPos tells keys from queries
  std::int64_t first = 0;
  std::int64_t rows = 0;
};
class DeviceTables {
 public:
  using Key = std::tuple<std::size_t, int, const void*>;  // rotation, device, stream
  [[nodiscard]] DeviceTable find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = tables_.find(key);
    return found == tables_.end() ? DeviceTable{} : found->second;
  }
  void keep(const Key& key, const DeviceTable& table) const {
    const std::lock_guard lock(mutex_);
    tables_[key] = table;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<Key, DeviceTable> tables_;
};

// Small tensors that never change, on the devices that asked for them. Copying them there waits for the
// device, so that is done once; afterwards every stream may read them.
class DeviceConstants {
 public:
  template <class Make>
  at::Tensor get(const std::string& name, const at::Device& device, const Make& make) const {
    const std::lock_guard lock(mutex_);
    at::Tensor& kept = kept_[device.str() + " " + name];
    if (!kept.defined()) kept = make().to(device);
    return kept;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, at::Tensor> kept_;
};

// A spec made ready for a shape, with what devices keep of it.
struct Prepared : PreparedSpec {
  using PreparedSpec::PreparedSpec;

  DeviceTables device_tables;
  DeviceConstants device_constants;
};
std::shared_ptr<const Prepared> prepare(const std::string& spec, const ModelShape& shape,
                                        std::int64_t kv_heads, std::int64_t length);

// While one lives, what prepare() gives to this thread is kept in `kept` as well: a recorded graph reads tables of
// preparations that the cache may drop.
class PreparedKeeper {
 public:
  using Kept = std::vector<std::shared_ptr<const Prepared>>;
  explicit PreparedKeeper(Kept* kept);
  ~PreparedKeeper();
  PreparedKeeper(PreparedKeeper&&) = delete;
  PreparedKeeper& operator=(PreparedKeeper&&) = delete;
};

// All parameters of a spec, one after the other in one tensor, and back. Constants (ALiBi's fixed slopes)
// may be left out, all of them: what a spec says need not be said again.
std::vector<Parameters> split_parameters(const Prepared& prepared, const at::Tensor& flat);
at::Tensor join_parameters(const Prepared& prepared, const std::vector<Parameters>& values,
                           const at::Tensor& like);

// With contiguous channels; the tensor itself where it has them.
at::Tensor with_contiguous_rows(const at::Tensor& x);
TensorView view_of(const at::Tensor& x);
// Room for the output of attention: the type and order of q, whose rows are contiguous, with the channels of v.
at::Tensor empty_output(const at::Tensor& q, const at::Tensor& v);
std::vector<double> values_of(const at::Tensor& x);
at::Tensor tensor_of(const std::vector<double>& values, const at::Tensor& like);

// Checks names, types and dimensions that every operator wants: q [B, H, Tq, D], k [B, Hkv, Tk, D] and
// v [B, Hkv, Tk, Dv] on one device and of one floating type.
void check_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& q,
                bool float32 = false);
// Of a cache: any type that kernels store, int8 included.
void check_cached_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& q);

// Of int64 [B, T, axes], or undefined.
PositionsView view_of_positions(const at::Tensor& positions);

// Masks and positions; the tensors they point into live as long as this does.
class Places {
 public:
  Places(const char* op, const at::Tensor& q, const at::Tensor& k, bool causal,
         std::int64_t window_left, std::int64_t window_right, const OptionalTensor& key_mask,
         const OptionalTensor& cu_queries, const OptionalTensor& cu_keys,
         const OptionalTensor& q_positions, const OptionalTensor& k_positions);

  // Throws where positions have another number of coordinates than 1 or `axes`.
  void check_axes(const char* op, std::int64_t axes) const;

  [[nodiscard]] AttentionMask mask() const;
  [[nodiscard]] PositionsView q_positions() const { return view_of_positions(q_positions_); }
  [[nodiscard]] PositionsView k_positions() const { return view_of_positions(k_positions_); }
  [[nodiscard]] ref::Masking ref_masking() const;
  [[nodiscard]] ref::TokenPositions ref_positions() const;

 private:
  bool causal_;
  std::int64_t window_left_;
  std::int64_t window_right_;
  at::Tensor key_mask_;     // uint8 [B, Tk], or undefined
  at::Tensor q_positions_;  // int64 [B, T, axes], or undefined
  at::Tensor k_positions_;
  std::vector<std::int64_t> cu_queries_;
  std::vector<std::int64_t> cu_keys_;
};

// key_mask [batch, keys] as bytes of 0 and 1 on a device; undefined where none is given. A bool mask is
// taken as it is; the values of an integer mask are looked at, which waits for a GPU that holds it.
at::Tensor key_mask_on(const at::Device& device, const char* op, const OptionalTensor& mask,
                       const at::Tensor& k);

// Cumulative lengths of packed sequences; empty where none are given.
std::vector<std::int64_t> lengths_of(const char* op, const char* name, const OptionalTensor& x);

// The least and the largest of positions, at least one. Throws where one is not exact in float64
// (kLargestPosition). Waits for a GPU that holds them.
struct PositionRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
PositionRange range_of(const char* op, const char* name, const at::Tensor& positions);

// Throws where positions [B, T, axes] have another number of coordinates than 1 or `axes`.
void check_axes(const char* op, const char* name, const at::Tensor& positions, std::int64_t axes);

// Positions as [B, T, axes] of 64 bits on a device, from [T], [B, T] or [B, T, axes] of 32 or 64;
// undefined where none are given. Those that are on the host have passed range_of().
at::Tensor positions_on(const at::Device& device, const char* op, const char* name,
                        const OptionalTensor& positions, std::int64_t batch, std::int64_t tokens);
at::Tensor full_positions(const char* op, const char* name, const OptionalTensor& positions,
                          std::int64_t batch, std::int64_t tokens);

}  // namespace posenc::ops

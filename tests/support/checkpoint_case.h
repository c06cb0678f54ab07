// Checkpoints for tests: files from JSON and bytes, tensors of float64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "posenc/core/rng.h"
#include "posenc/weights/safetensors.h"
#include "support/temporary_folder.h"

namespace posenc::testing {

// Length, header and data as they stand, right or wrong.
inline std::string raw_safetensors(const std::string& json, const std::string& data) {
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) length += static_cast<char>(json.size() >> (8 * i) & 0xffU);
  return length + json + data;
}

// A tensor that owns its bytes.
struct OwnedTensor {
  weights::TensorSpec spec;
  std::vector<std::byte> bytes;
};

// Random bytes of any type: conversion moves rows and never looks into them.
inline OwnedTensor random_tensor(const std::string& name, weights::ElementType type,
                                 const weights::Shape& shape, Rng& rng) {
  OwnedTensor tensor{{name, type, shape}, {}};
  tensor.bytes.resize(*weights::byte_length(type, shape));
  for (std::byte& b : tensor.bytes) b = static_cast<std::byte>(rng.integer(0, 255));
  return tensor;
}

inline OwnedTensor double_tensor(const std::string& name, const weights::Shape& shape,
                                 const std::vector<double>& values) {
  OwnedTensor tensor{{name, weights::ElementType::kF64, shape}, {}};
  tensor.bytes.resize(values.size() * sizeof(double));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline std::vector<double> doubles(const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline void write_tensors(const std::string& path, const std::vector<OwnedTensor>& tensors,
                          const weights::Metadata& metadata = {}) {
  std::vector<weights::TensorData> views;
  for (const OwnedTensor& tensor : tensors) views.push_back({tensor.spec, tensor.bytes});
  weights::write_safetensors(path, views, metadata);
}

}  // namespace posenc::testing

#include <cmath>

#include "capi/arguments.h"

using posenc::SpecParameter;
using posenc::StatusCode;
using posenc::capi::guarded;
using posenc::capi::required;

namespace {

std::unique_ptr<posenc_parameters> make_parameters(const posenc::Spec& spec,
                                                   const posenc::ModelShape& shape,
                                                   std::uint64_t seed) {
  auto made = std::make_unique<posenc_parameters>();
  made->values = std::make_shared<posenc::capi::Values>(initial_parameters(spec, shape, seed));
  made->infos = parameters(spec, shape);
  made->spec = spec;
  made->shape = shape;
  return made;
}

const SpecParameter& find(const char* op, const posenc_parameters* parameters, const char* name) {
  required(op, "parameters", parameters);
  posenc::capi::check_pointer(op, "name", name);
  for (const SpecParameter& parameter : parameters->infos) {
    if (parameter.info.name == name) return parameter;
  }
  posenc::capi::fail(StatusCode::kOutOfRange, "[%s] name must be that of a parameter but got %s",
                     op, name);
}

std::vector<double>& values_of(const char* op, const posenc_parameters* parameters,
                               const char* name) {
  const SpecParameter& at = find(op, parameters, name);
  return (*parameters->values)[at.encoding][at.index];
}

template <class Number>
posenc_status get(const char* op, const posenc_parameters* parameters, const char* name,
                  Number* values, size_t count) noexcept {
  return guarded([&] {
    const std::vector<double>& kept = values_of(op, parameters, name);
    posenc::capi::check_count(op, "values", kept.size(), count);
    const auto out = posenc::capi::span_of(op, "values", values, count);
    std::transform(kept.begin(), kept.end(), out.begin(),
                   [](double x) { return static_cast<Number>(x); });
  });
}

template <class Number>
posenc_status set(const char* op, posenc_parameters* parameters, const char* name,
                  const Number* values, size_t count) noexcept {
  return guarded([&] {
    std::vector<double>& kept = values_of(op, parameters, name);
    posenc::capi::check_count(op, "values", kept.size(), count);
    const auto given = posenc::capi::span_of(op, "values", values, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isfinite(given[i])) continue;
      posenc::capi::fail(StatusCode::kOutOfRange, "[%s] values must be finite but got %g at %zu",
                         op, static_cast<double>(given[i]), i);
    }
    std::copy(given.begin(), given.end(), kept.begin());
  });
}

}  // namespace

extern "C" {

posenc_status posenc_parameters_create(const posenc_spec* spec, const posenc_shape* shape,
                                       uint64_t seed, posenc_parameters** parameters) noexcept {
  return guarded([&] {
    const char* op = "parameters_create";
    required(op, "spec", spec);
    const posenc::ModelShape model = posenc::capi::shape_of(op, required(op, "shape", shape));
    posenc_parameters*& out = required(op, "parameters", parameters);
    out = make_parameters(spec->spec, model, seed).release();
  });
}

posenc_status posenc_parameters_copy(const posenc_parameters* from,
                                     posenc_parameters** copy) noexcept {
  return guarded([&] {
    required("parameters_copy", "from", from);
    posenc_parameters*& out = required("parameters_copy", "copy", copy);
    auto made = std::make_unique<posenc_parameters>(*from);
    made->values = std::make_shared<posenc::capi::Values>(*from->values);
    out = made.release();
  });
}

void posenc_parameters_free(posenc_parameters* parameters) noexcept { delete parameters; }

int64_t posenc_parameters_count(const posenc_parameters* parameters) noexcept {
  return guarded([&] {
    const auto& infos = required("parameters_count", "parameters", parameters).infos;
    return static_cast<int64_t>(infos.size());
  });
}

int64_t posenc_parameters_find(const posenc_parameters* parameters, const char* name) noexcept {
  return guarded([&]() -> int64_t {
    return &find("parameters_find", parameters, name) - parameters->infos.data();
  });
}

const char* posenc_parameters_name(const posenc_parameters* parameters, int64_t index) noexcept {
  const char* name = nullptr;
  guarded([&] {
    const auto& infos = required("parameters_name", "parameters", parameters).infos;
    if (index < 0 || index >= static_cast<int64_t>(infos.size())) {
      posenc::capi::fail(StatusCode::kOutOfRange,
                         "[parameters_name] index must be below the count (%zu) but got %lld",
                         infos.size(), static_cast<long long>(index));
    }
    name = infos[index].info.name.c_str();
  });
  return name;
}

int64_t posenc_parameters_dims(const posenc_parameters* parameters, const char* name, int64_t* dims,
                               size_t capacity) noexcept {
  return guarded([&] {
    const auto& shape = find("parameters_dims", parameters, name).info.shape;
    const auto out = posenc::capi::span_of("parameters_dims", "dims", dims, capacity);
    std::copy_n(shape.begin(), std::min(shape.size(), capacity), out.begin());
    return static_cast<int64_t>(shape.size());
  });
}

int64_t posenc_parameters_size(const posenc_parameters* parameters, const char* name) noexcept {
  return guarded(
      [&]() -> int64_t { return find("parameters_size", parameters, name).info.count(); });
}

int64_t posenc_parameters_trainable(const posenc_parameters* parameters,
                                    const char* name) noexcept {
  return guarded([&]() -> int64_t {
    return find("parameters_trainable", parameters, name).info.trainable ? 1 : 0;
  });
}

posenc_status posenc_parameters_get_f64(const posenc_parameters* parameters, const char* name,
                                        double* values, size_t count) noexcept {
  return get("parameters_get_f64", parameters, name, values, count);
}
posenc_status posenc_parameters_get_f32(const posenc_parameters* parameters, const char* name,
                                        float* values, size_t count) noexcept {
  return get("parameters_get_f32", parameters, name, values, count);
}
posenc_status posenc_parameters_set_f64(posenc_parameters* parameters, const char* name,
                                        const double* values, size_t count) noexcept {
  return set("parameters_set_f64", parameters, name, values, count);
}
posenc_status posenc_parameters_set_f32(posenc_parameters* parameters, const char* name,
                                        const float* values, size_t count) noexcept {
  return set("parameters_set_f32", parameters, name, values, count);
}

}  // extern "C"

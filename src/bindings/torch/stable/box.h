// Kernels on at::Tensor as the stable ABI calls them.
#pragma once

#include <tuple>
#include <type_traits>

#include "torch/stable/tensor.h"

namespace posenc::ops {

// What the stable ABI passes for a parameter or a result: tensors are torch::stable::Tensor, in lists and optionals too.
template <class T>
struct Passed {
  using type = T;
  static T in(T x) { return x; }
  static T out(T x) { return x; }
};
template <>
struct Passed<at::Tensor> {
  using type = torch::stable::Tensor;
  static at::Tensor in(const type& x) { return x; }
  static type out(const at::Tensor& x) { return x.stable(); }
};
template <>
struct Passed<std::optional<at::Tensor>> {
  using type = std::optional<torch::stable::Tensor>;
  static std::optional<at::Tensor> in(const type& x) {
    return x && x->defined() ? std::optional<at::Tensor>(*x) : std::nullopt;
  }
};
template <>
struct Passed<std::vector<at::Tensor>> {
  using type = std::vector<torch::stable::Tensor>;
  static std::vector<at::Tensor> in(const type& x) { return {x.begin(), x.end()}; }
  static type out(const std::vector<at::Tensor>& x) {
    type all;
    for (const at::Tensor& one : x) all.push_back(one.stable());
    return all;
  }
};
template <>  // the list lives until the kernel has returned
struct Passed<at::TensorList> : Passed<std::vector<at::Tensor>> {};
template <class... T>
struct Passed<std::tuple<T...>> {
  using type = std::tuple<typename Passed<T>::type...>;
  static type out(const std::tuple<T...>& all) {
    return std::apply([](const T&... one) { return type(Passed<T>::out(one)...); }, all);
  }
};

template <auto kFunction>
struct Unboxed;
template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct Unboxed<kFunction> {
  static typename Passed<Result>::type call(
      typename Passed<std::decay_t<Arguments>>::type... arguments) {
    return Passed<Result>::out(kFunction(Passed<std::decay_t<Arguments>>::in(arguments)...));
  }
};

}  // namespace posenc::ops

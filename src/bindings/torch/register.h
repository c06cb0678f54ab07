// Registers schemas and kernels with libtorch, or through its stable ABI.
#pragma once

#ifdef POSENC_STABLE_TORCH

#include "torch/stable/box.h"

// Kernels that Hugging Face's tools build have a namespace of their own.
#ifndef POSENC_NAMESPACE
#define POSENC_NAMESPACE posenc
#endif
#define POSENC_STABLE_LIBRARY(ns, m) STABLE_TORCH_LIBRARY(ns, m)
#define POSENC_STABLE_LIBRARY_IMPL(ns, key, m) STABLE_TORCH_LIBRARY_IMPL(ns, key, m)
#define POSENC_SCHEMAS(m) POSENC_STABLE_LIBRARY(POSENC_NAMESPACE, m)
#define POSENC_KERNELS(key, m) POSENC_STABLE_LIBRARY_IMPL(POSENC_NAMESPACE, key, m)
#define POSENC_KERNEL(function) TORCH_BOX((posenc::ops::Unboxed<&(function)>::call))

#else

#include <torch/library.h>

#define POSENC_SCHEMAS(m) TORCH_LIBRARY(posenc, m)
#define POSENC_KERNELS(key, m) TORCH_LIBRARY_IMPL(posenc, key, m)
#define POSENC_KERNEL(function) function

#endif

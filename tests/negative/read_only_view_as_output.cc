// expect-error: (conversion from|cannot convert|could not convert|no viable conversion)
// A view that may only be read must not turn into one that a kernel writes to.
#include "posenc/core/tensor_view.h"

posenc::TensorView writable(const posenc::ConstTensorView& read_only) { return read_only; }

#include "model/row_dropout.h"

#include <ATen/ATen.h>

namespace posenc::model {
namespace {

thread_local BatchRows::Range rows_of_batch;

std::int64_t rows_in(const at::Tensor& x, const BatchRows::Range& range) {
  return range.joined > 0 ? range.joined : x.size(0);
}

// As at::dropout does it for the whole batch, step by step: the same numbers from the generator, the same products.
at::Tensor own_factors(const at::Tensor& x, double rate, const BatchRows::Range& range) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  if (range.joined > 0) sizes[1] /= range.joined;
  const std::int64_t rows = rows_in(x, range);
  sizes.front() = range.of;
  const at::NoGradGuard quiet;
  if (x.is_cuda()) {
    const at::Tensor mask =
        std::get<1>(at::native_dropout(at::empty(sizes, x.options()), rate, true));
    return mask.narrow(0, range.first, rows).to(x.scalar_type()).mul_(1.0 / (1.0 - rate));
  }
  return at::empty(sizes, x.options())
      .bernoulli_(1.0 - rate)
      .narrow(0, range.first, rows)
      .div(1.0 - rate);
}

}  // namespace

BatchRows::BatchRows(const Range& range) : before_(std::exchange(rows_of_batch, range)) {}
BatchRows::~BatchRows() { rows_of_batch = before_; }
BatchRows::Range BatchRows::current() { return rows_of_batch; }

at::Tensor RowDropoutImpl::forward(const at::Tensor& x) const {
  const BatchRows::Range range = rows_of_batch;
  if (!is_training() || rate_ == 0.0 || range.of == 0 || range.of == rows_in(x, range)) {
    return at::dropout(x, rate_, is_training());
  }
  return x * own_factors(x, rate_, range).reshape(x.sizes());
}

}  // namespace posenc::model

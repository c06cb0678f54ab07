// One header of ATen only: the whole of torch/torch.h costs a minute, and proves no more.
#include <ATen/ATen.h>

int main() { return at::arange(4, at::kFloat).sum().item<float>() == 6.0F ? 0 : 1; }

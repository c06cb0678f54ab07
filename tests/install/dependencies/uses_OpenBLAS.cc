#include <cblas.h>

int main() {
  const float x[3] = {1, 2, 3};
  return cblas_sdot(3, x, 1, x, 1) == 14.0F ? 0 : 1;
}

#include <thread>

int main() {
  int seen = 0;
  std::thread([&seen] { seen = 1; }).join();
  return seen == 1 ? 0 : 1;
}

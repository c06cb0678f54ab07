#include <nlohmann/json.hpp>

int main() { return nlohmann::json::parse(R"({"theta": 10000})")["theta"] == 10000 ? 0 : 1; }

#include <yaml-cpp/yaml.h>

int main() { return YAML::Load("{theta: 10000}")["theta"].as<int>() == 10000 ? 0 : 1; }

#include "train/machine.h"

#include <gtest/gtest.h>

#include "train/lab_process.h"

namespace posenc::train {
namespace {

using posenc::testing::Folder;

TEST(GpuModel, IsThatOfTheFirstGpuThatTheDriverLists) {
  const Folder folder;
  for (const char* bus : {"0000:8a:00.0", "0000:1b:00.0"}) {
    std::filesystem::create_directory(folder / bus);
  }
  folder.write("0000:8a:00.0/information", "Model: \t\t Another\nIRQ: 4\n");
  folder.write("0000:1b:00.0/information", "IRQ:   4\nModel: \t\t NVIDIA H200\nBus Type: PCIe\n");
  EXPECT_EQ(gpu_model(folder / ""), "NVIDIA H200");
}

TEST(GpuModel, IsEmptyWhereThereIsNone) {
  const Folder folder;
  EXPECT_EQ(gpu_model(folder / ""), "");
  EXPECT_EQ(gpu_model(folder / "missing"), "");
  std::filesystem::create_directory(folder / "0000:1b:00.0");
  EXPECT_EQ(gpu_model(folder / ""), "") << "a folder without the file";
}

TEST(MachineFacts, OfACpuNameNoGpu) {
  for (const Member& fact : machine_facts(at::kCPU)) {
    EXPECT_TRUE(fact.key != "gpu" || fact.value.is_null());
  }
  EXPECT_FALSE(peak_gpu_bytes(at::kCPU));
}

}  // namespace
}  // namespace posenc::train
